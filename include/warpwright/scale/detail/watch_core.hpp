// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/event.hpp>
#include <warpwright/scale/detail/communicator_core.hpp>

#include <string>

WARPWRIGHT_BEGIN

/// A collective that a rank has called, as rank_watch records it.
struct collective_record {
  std::uint64_t number = 0;  ///< from 1, in the order of the calls
  char const* name = "";     ///< "all_reduce"
  std::uint64_t bytes = 0;   ///< of the larger buffer
  bool captured = false;     ///< recorded in a graph
  bool completed = false;
};

namespace detail {

/// Counters that kernels of captured graphs change, in page-locked memory.
struct replay_counters {
  static constexpr std::size_t max_captures = 510;
  unsigned long long expected;  // collectives of the replays that have begun
  unsigned long long done;
  unsigned long long collectives[max_captures];  // of each capture
};

/// A rank_watch without its kernels.
class watch_core final : public collective_hook, noncopyable {
 public:
  /// Records a kernel that adds *what (1: null) to a counter.
  using mark = void (*)(stream_ref, unsigned long long const* what, unsigned long long* counter,
                        source_location where);

  watch_core(communicator_core& comm, double deadline, mark record, source_location where);
  ~watch_core();

  [[nodiscard]] std::uint64_t completed() const noexcept {
    return completed_.load(memory_order::acquire);
  }
  [[nodiscard]] std::vector<collective_record> last(std::size_t most) const;
  [[nodiscard]] std::string to_text(std::size_t most) const;
  [[nodiscard]] std::string to_json(std::size_t most) const;

  void calls(stream_ref stream, source_location where) override;
  void called(stream_ref stream, collective_call const& call, source_location where) override;
  void describe(rank_state& state) noexcept override;
  void tick() noexcept override;

 private:
  static constexpr std::size_t max_events = 256;
  struct watched {
    std::uint64_t number;
    std::size_t event;
  };

  communicator_core& comm_;
  double deadline_;
  mark mark_;
  replay_counters* replays_ = nullptr;
  unsigned long long capture_ = 0;
  std::size_t captures_ = 0;
  mutable mutex mutex_;
  array<event> events_;
  array<std::size_t> free_;
  array<watched> waiting_;      // in their order; a stream may pass another
  std::uint64_t progress_ = 0;  // when a collective, or one of a replay, last completed
  unsigned long long replayed_ = 0;
  atomic<std::uint64_t> completed_;
  bool told_ = false;
};

}  // namespace detail

WARPWRIGHT_END

#include <warpwright/scale/detail/watch_core_definitions.hpp>
