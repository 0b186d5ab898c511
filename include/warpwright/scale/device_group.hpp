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

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <deque>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// Which device of a device_group gets the next piece of work.
enum class device_schedule {
  round_robin,   ///< one after another
  least_loaded,  ///< that with the fewest items not completed
  fastest        ///< that which is predicted to complete the piece first
};

/// A device's part of a batch.
struct device_part {
  std::size_t index = 0;             ///< of the device in the group
  std::size_t first = 0, count = 0;  ///< items; may be none
};

namespace detail {

struct device_group_settings {
  device_schedule schedule = device_schedule::fastest;
  unsigned streams = 2, max_pieces = 8;
  memory_pool_options pool = memory_pool_options{}.source(memory_source::cuda_malloc);
};

/// Who gets the next piece of work: no CUDA, no clock, no lock. A device that has failed rests
/// while others get pieces: it would else seem to be idle, and get all of them.
class device_scheduler {
 public:
  static constexpr std::size_t none = ~std::size_t{0};
  device_group_settings const settings;

  device_scheduler(std::size_t devices, device_group_settings const& options)
      : settings{options}, all_(devices) {}

  /// Queues a piece. @param only  its device; none: the one whose turn it is
  /// @return the device; none: it has max_pieces. Ask again when one has ended
  std::size_t begin(double items, std::size_t only = none) noexcept {
    std::size_t index = only == none ? 0 : only;
    for (std::size_t i = 1; only == none && i < all_.size(); ++i) {
      if (cost(all_[i], items) < cost(all_[index], items)) index = i;
    }
    device& chosen = all_[index];
    if (chosen.queued == settings.max_pieces) return none;
    for (device& d : all_) d.passed_by += 1.0;
    chosen.passed_by = 0.0;
    chosen.queued_items += items;
    ++chosen.queued;
    return index;
  }
  /// @param seconds  since its start, or a later end of the piece before it; below 0: it failed
  void end(std::size_t index, double items, double seconds) noexcept {
    device& d = all_[index];
    d.queued_items = --d.queued == 0 ? 0.0 : d.queued_items - items;
    d.rest = seconds < 0.0 ? 2.0 * (d.rest + double(all_.size())) : 0.0;
    if (seconds < 0.0) return;
    d.new_items += items;
    d.new_seconds += seconds;
    if (++d.new_pieces < settings.streams && d.queued != 0) return;
    // The first piece also loads kernels. One long piece may be an accident.
    double const pace = (d.new_seconds + 1e-9) / d.new_items, most = 4.0 * d.pace;
    d.pace = ++d.samples <= 2 ? pace : 0.5 * (d.pace + (pace < most ? pace : most));
    d.new_items = d.new_seconds = d.new_pieces = 0.0;
  }
  /// Divides a batch: parts[i] for device i.
  void divide(std::size_t items, device_part* parts) const noexcept {
    auto const weight = [this](device const& d) {
      if (d.passed_by < d.rest) return 1e-200;  // nothing, unless all rest
      return settings.schedule == device_schedule::fastest ? 1.0 / pace_of(d) : 1.0;
    };
    double all = 0.0, sum = 0.0;
    for (device const& d : all_) all += weight(d);
    for (std::size_t i = 0, first = 0; i < all_.size(); first += parts[i++].count) {
      sum += weight(all_[i]);
      double const end = double(items) * (sum / all) + 0.5;
      parts[i] = {i, first, (i + 1 < all_.size() ? std::size_t(end) : items) - first};
    }
  }

 private:
  struct device {
    double pace = 0.0;  // seconds an item, an exponential mean; 0: unknown
    double new_items = 0.0, new_seconds = 0.0, new_pieces = 0.0;  // those at once are a sample
    double passed_by = 0.0;  // pieces of others since it got one
    double rest = 0.0;       // as it has failed, until it has been passed by so many
    double queued_items = 0.0;
    std::size_t queued = 0, samples = 0;
  };

  // Less and less while others get pieces: a slow device is tried again, as it may not be any more.
  [[nodiscard]] double pace_of(device const& d) const noexcept {
    if (d.pace > 0.0) return d.pace / (1.0 + d.passed_by / 256.0);
    double best = 0.0;
    for (device const& other : all_) {
      if (other.pace > 0.0 && (best <= 0.0 || other.pace < best)) best = other.pace;
    }
    return best > 0.0 ? best : 1.0;
  }
  [[nodiscard]] double cost(device const& d, double items) const noexcept {
    if (d.passed_by < d.rest) return 1e200 * (d.rest - d.passed_by);
    if (settings.schedule == device_schedule::round_robin) return -d.passed_by;
    if (settings.schedule == device_schedule::least_loaded) return d.queued_items;
    return d.samples == 0 && d.queued == 0 ? -1.0 : (d.queued_items + items) * pace_of(d);
  }

  array<device> all_;
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
  /// All devices, or those given.
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
    return enqueue(detail::device_scheduler::none, items, f, where);
  }
  std::size_t run(detail::function_ref<void(device_slot&)> f,
                  source_location where = source_location::current()) {
    return enqueue(detail::device_scheduler::none, 1.0, f, where);
  }
  /// Divides a batch: with device_schedule::fastest by the speeds so far, else into equal parts.
  /// @param f  `void f(device_slot&, std::size_t first, std::size_t count)`: enqueues a part, and
  ///   does not wait, as others follow; called for each device that gets items, in turn
  /// @return the parts, one for each device
  /// @throws as run(); parts enqueued before run on: wait()
  /// **Stream:** ordered on stream(i). Waits only where a device has max_pieces().
  std::vector<device_part> split(
      std::size_t items, detail::function_ref<void(device_slot&, std::size_t, std::size_t)> f,
      source_location where = source_location::current());
  /// Copies each device's part of a split to its place in one array.
  /// @param stream   the copies are ordered between its earlier and its later work
  /// @param target   device or page-locked memory, for all items; other memory is slow, and blocks
  /// @param sources  pointers: sources[i] to device i's part, in its memory, ordered on stream(i)
  /// @throws cuda_error  when a call fails
  /// **Stream:** on each stream(i) and `stream`; does not block.
  template <class T, class Sources>
  void gather(stream_ref stream, std::vector<device_part> const& parts, T* target,
              Sources const& sources, std::size_t elements_per_item = 1,
              source_location where = source_location::current()) {
    static_assert(std::is_trivially_copyable<T>::value, "warpwright: gather() copies bytes");
    cudaPointerAttributes memory{};
    check(cudaPointerGetAttributes(&memory, target), "cudaPointerGetAttributes", where);
    bool const is_device = memory.type == cudaMemoryTypeDevice;
    event ready{where};
    ready.record(stream, where);
    for (device_part const& part : parts) {
      if (part.count == 0) continue;
      member const& m = members_[part.index];
      scoped_device const current{m.id, where};
      T* const to = target + part.first * elements_per_item;
      std::size_t const bytes = part.count * elements_per_item * sizeof(T);
      m.main.wait(ready, where);
      T const* const from = sources[part.index];
      check(is_device ? cudaMemcpyPeerAsync(to, memory.device, from, m.id.value(), bytes, m.main)
                      : cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, m.main),
            is_device ? "cudaMemcpyPeerAsync" : "cudaMemcpyAsync", where);
      stream.wait(m.main, where);
    }
  }
  /// Waits for all work of all devices.
  /// @throws cuda_error  for the first error, when all others have ended, too
  /// **Stream:** blocks the calling thread.
  void wait(source_location where = source_location::current());
  /// Measures copies between each ordered pair of devices.
  /// @param bytes  of a copy, at least 4; default: 32 MiB
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
          streams{device, s.streams, 0, where},
          main{device, 0, where},
          pool{device, s.pool, where},
          last{where} {}
    device_id id;
    stream_pool streams;  // the pool's destructor waits for them
    warpwright::stream main;
    memory_pool pool;
    timed_event last;             // the last end of a piece, or a begin on the idle device
    detail::array<piece> pieces;  // that run, in their order, and behind them others for later
    std::size_t running = 0;
  };
  static std::vector<device_id> all_devices(source_location where) {
    std::vector<device_id> all;
    for (int i = 0, count = device_count(where); i < count; ++i) all.push_back(device_id{i});
    return all;
  }
  // @param device  an index; none: the one whose turn it is. @return it
  std::size_t enqueue(std::size_t device, double items, detail::function_ref<void(device_slot&)> f,
                      source_location where);
  void reap(source_location where);

  std::deque<member> members_;
  detail::mutex lock_;  // of the scheduler and the pieces
  detail::device_scheduler scheduler_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/scale/detail/device_group_definitions.hpp>
#endif
