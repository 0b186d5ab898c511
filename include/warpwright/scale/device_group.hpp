// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// All devices of one process, of equal speed or not:
//
//   group.run([&](ww::device_slot& d) { infer(d.stream, model[d.index], request); });
//   auto const parts = group.split(
//       items, [&](ww::device_slot& d, std::size_t first, std::size_t count) { ... });
//   group.gather(stream, parts, target, results);
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/scale/detail/device_scheduler.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <cstddef>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {
struct device_group_settings {
  device_schedule schedule = device_schedule::fastest;
  unsigned streams = 2, max_pieces = 8;
  memory_pool_options pool = memory_pool_options{}.source(memory_source::cuda_malloc);
};
}  // namespace detail

/// Options of a device_group. Every setter returns a changed copy.
class device_group_options
    : public detail::options_base<device_group_options, detail::device_group_settings> {
 public:
  /// Who gets the next piece of work; default: fastest.
  constexpr self schedule(device_schedule rule) const { return with(&values::schedule, rule); }
  /// Streams of each device, for run(), at least 1; default: 2.
  constexpr self streams(unsigned n) const { return with(&values::streams, n); }
  /// Pieces of a device that may be queued or run, at least 1; default: 8. Few may leave it idle.
  constexpr self max_pieces(unsigned n) const { return with(&values::max_pieces, n); }
  /// Of each pool. Other devices access memory of memory_source::cuda_malloc alone: the default.
  constexpr self pool(memory_pool_options const& o) const { return with(&values::pool, o); }
};

/// Where a piece of work runs.
struct device_slot {
  std::size_t index;  ///< in the group
  device_id device;   ///< current while the function runs
  memory_pool& pool;  ///< of the device
  stream_ref stream;  ///< all work of the piece is on it, or ordered before its later work
};

/// A device's part of a batch.
struct device_part {
  std::size_t index = 0;             ///< of the device in the group
  std::size_t first = 0, count = 0;  ///< items; may be none
};

/// How fast a device copies to another.
struct device_link {
  device_id from{0}, to{0};
  bool peer = false;                                     ///< `from` can access the memory of `to`
  double bytes_per_second = 0.0, latency_seconds = 0.0;  ///< latency: of 4 bytes behind others
};

/// @return a table, a line for each link
std::string to_text(std::vector<device_link> const& links);

/// Several devices of one process: a pool and streams for each, and who gets the next piece of
/// work, by their speeds, which events measure. A device whose pieces fail gets fewer.
/// @pre What is allocated from its pools is freed before it ends.
/// **Threads:** any number may call at once, but no function of a piece calls the group.
/// **Capture:** a function may capture on its stream, and ends that; others' are not disturbed.
/// **Cost:** some eight CUDA calls a piece, and a query for each stream of each device, under a
/// lock; while a device is full, the caller polls. Access between peers stays enabled.
class device_group : detail::noncopyable {
 public:
  /// All devices, or those given, each once.
  /// @throws std::invalid_argument  if there is none, and for an option out of range
  /// @throws cuda_error, std::bad_alloc  when a pool or a stream cannot be created
  explicit device_group(device_group_options const& options = {},
                        source_location where = source_location::current())
      : device_group{all_devices(where), options, where} {}
  explicit device_group(std::vector<device_id> const& devices,
                        device_group_options const& options = {},
                        source_location where = source_location::current());
  /// Waits for all work; ignores its errors.
  ~device_group();

  /// @return the number of devices, at least 1. Indices below are smaller
  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  [[nodiscard]] device_id device(std::size_t i) const noexcept { return members_[i].id; }
  [[nodiscard]] memory_pool& pool(std::size_t i) noexcept { return members_[i].pool; }
  /// @return the stream of the device's parts of split(); pieces of run() are not ordered with it
  [[nodiscard]] stream_ref stream(std::size_t i) const noexcept { return members_[i].main; }

  /// Runs one piece of work on the device whose turn it is.
  /// @param items  how much work it is, above 0, in a unit of your own; default: 1
  /// @param f  enqueues it. To wait for the piece, record an event
  /// @return the device's index
  /// @throws what `f` throws; cuda_error  also for an error of the device's earlier work
  /// **Stream:** waits only where the device has max_pieces().
  std::size_t run(double items, detail::function_ref<void(device_slot&)> f,
                  source_location where = source_location::current()) {
    return enqueue(any, items, f, where);
  }
  std::size_t run(detail::function_ref<void(device_slot&)> f,
                  source_location where = source_location::current()) {
    return enqueue(any, 1.0, f, where);
  }

  /// Divides a batch: with device_schedule::fastest by the speeds so far, else into equal parts.
  /// @param f  `void f(device_slot&, std::size_t first, std::size_t count)`: enqueues a part, and
  ///   does not wait, as others follow; called for each device that gets items, in turn
  /// @return the parts, one for each device
  /// @throws as run(); parts enqueued before have then completed
  /// **Stream:** ordered on stream(i). Waits only where a device has max_pieces().
  std::vector<device_part> split(
      std::size_t items, detail::function_ref<void(device_slot&, std::size_t, std::size_t)> f,
      source_location where = source_location::current());

  /// Copies each device's part of a split to its place in one array.
  /// @param stream   the copies are ordered between its earlier and its later work
  /// @param target   device or page-locked memory, for all items
  /// @param sources  pointers: sources[i] to device i's part, in its memory, ordered on stream(i)
  /// @throws std::invalid_argument  for pageable memory
  /// @throws cuda_error  when a call fails
  /// **Stream:** on each stream(i) and `stream`; does not block.
  template <class T, class Sources>
  void gather(stream_ref stream, std::vector<device_part> const& parts, T* target,
              Sources const& sources, std::size_t elements_per_item = 1,
              source_location where = source_location::current()) {
    static_assert(std::is_trivially_copyable<T>::value, "warpwright: gather() copies bytes");
    auto const source = [&](std::size_t i) -> void const* { return sources[i]; };
    gather_all(stream, parts, target, source, elements_per_item * sizeof(T), where);
  }

  /// Waits for all work of all devices.
  /// @throws cuda_error  for the first error, when all others have ended, too
  /// **Stream:** blocks the calling thread.
  void wait(source_location where = source_location::current());
  /// Measures copies between each ordered pair of devices.
  /// @param bytes  of a copy, at least 4; default: 32 MiB
  /// @return all pairs; empty for one device
  /// @throws out_of_memory, cuda_error  when a call fails
  /// **Stream:** on all stream(i); blocks. **Cost:** milliseconds; start-up.
  [[nodiscard]] std::vector<device_link> links(std::size_t bytes = std::size_t{32} << 20U,
                                               source_location where = source_location::current());

 private:
  struct piece {
    timed_event end;
    double items = 0.0;
  };
  struct member : detail::noncopyable {
    member(device_id device, detail::device_group_settings const& s, source_location where)
        : id{device},
          streams{device, s.streams + 1, 0, where},
          lease{streams.lease(where)},
          main{lease.stream()},
          pool{device, s.pool, where},
          last{where} {}
    device_id id;
    stream_pool streams;  // the pool's destructor waits for them
    stream_lease lease;
    stream_ref main;
    memory_pool pool;
    timed_event last;             // the last end of a piece, or a begin on the idle device
    detail::array<piece> pieces;  // that run, in their order, and behind them others for later
    std::size_t running = 0;
  };
  static constexpr std::size_t any = detail::device_scheduler::none;

  static std::vector<device_id> all_devices(source_location where);
  // @param device  an index; any: the one whose turn it is. @return it
  std::size_t enqueue(std::size_t device, double items, detail::function_ref<void(device_slot&)> f,
                      source_location where);
  void gather_all(stream_ref stream, std::vector<device_part> const& parts, void* target,
                  detail::function_ref<void const*(std::size_t)> sources, std::size_t item_bytes,
                  source_location where);
  void reap(source_location where);

  detail::device_group_settings settings_;
  std::deque<member> members_;
  detail::mutex lock_;  // of the scheduler and the pieces
  detail::device_scheduler scheduler_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/scale/detail/device_group_definitions.hpp>
#endif
