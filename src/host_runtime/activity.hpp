// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Activity records of calls and of the work of streams, as CUPTI makes them. Off, a call and an
// operation read one variable more.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpwright::host {

struct call_site;
struct stream_state;
class work;

/// A bit for each kind that is recorded: 1 << activity_kind.
inline std::atomic<std::uint64_t> recorded_activity{0};
/// Whether a graph was instantiated since the process began.
inline std::atomic<bool> graph_was_instantiated{false};

/// The number that connects a call with the work that it enqueues; 0 outside a call.
inline thread_local std::uint32_t this_call = 0;

/// A bit of recorded_activity: a subscriber is called at the begin and the end of calls.
inline constexpr std::uint64_t calls_back = std::uint64_t{1} << 63;

/// Of the thread's call: what it has enqueued, and whether that or another wait was for work that
/// was there before.
struct call_waits {
  void const* enqueued = nullptr;
  bool behind_work = false;
  bool waited = false;
};
inline thread_local call_waits this_call_waits;

inline bool records_activity() noexcept {
  return recorded_activity.load(std::memory_order_relaxed) != 0;
}

/// Records a call of the API from its construction to its destruction.
class call_record_scope {
 public:
  explicit call_record_scope(call_site& site) noexcept {
    if (records_activity()) begin(site);
  }
  ~call_record_scope() {
    if (site_ != nullptr) end();
  }
  call_record_scope(call_record_scope const&) = delete;
  call_record_scope& operator=(call_record_scope const&) = delete;

 private:
  void begin(call_site& site) noexcept;
  void end() noexcept;

  call_site* site_ = nullptr;
  std::int64_t start_ = 0;
  std::uint32_t outer_ = 0;
};

/// Runs an operation of a stream; records what it and the nodes of its graph are.
void run_recorded(work const& what, stream_state const& stream, std::uint32_t call);
/// Runs a node of the graph that this thread executes.
void run_recorded_node(work const& what);

}  // namespace warpwright::host
