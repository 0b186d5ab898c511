// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the best batch size of a workload by running it.
//
//   auto const best = ww::batch_tuner{}
//                         .range(1, 8192)
//                         .memory_budget(std::size_t{2} << 30)
//                         .objective(ww::throughput_under_latency(5e-3))
//                         .tune(stream, [&](std::size_t batch, ww::stream_ref s) { … },
//                               ww::device_memory_probe{});
//   run_service(best.chosen().batch);
#pragma once

#include <warpwright/tune/detail/batch_search.hpp>

#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// Pass this to a tuner that does not measure the workload's memory.
struct no_memory_probe {};

/// Reports the device memory allocated since the probe was constructed.
///
/// Do not use it on a shared device, as it counts the allocations of other processes: read the peak
/// from your own pool instead. It counts what cudaMalloc and pools take from the device, rounded to
/// their granularity.
class device_memory_probe {
 public:
  /// @throws cuda_error if the query fails
  explicit device_memory_probe(source_location where = source_location::current())
      : where_{where}, free_at_start_{free_bytes()} {}

  /// @return bytes allocated since construction; 0 if more was freed than allocated
  /// @throws cuda_error if the query fails
  ///
  /// **Stream:** does not block. **Capture:** not legal. **Cost:** one cudaMemGetInfo.
  std::size_t operator()() const {
    std::size_t const now = free_bytes();
    return now < free_at_start_ ? free_at_start_ - now : 0;
  }

 private:
  std::size_t free_bytes() const {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", where_);
    return free;
  }
  source_location where_;
  std::size_t free_at_start_;
};

namespace detail {

template <typename Settings>
WARPWRIGHT_COLD void check_search_settings(Settings const& s, bool memory_known,
                                           source_location where) {
  auto const fail = [where](text const& problem) {
    throw_invalid_argument(text{"batch_tuner: "} + problem, where);
  };
  if (s.first < 1 || s.last < s.first) {
    fail(text{"range("} + s.first + ", " + s.last +
         ") is empty; the first size must be at least 1, and the last not below the first");
  }
  if (s.multiple < 1) fail("multiple_of(0); it must be at least 1, which allows every size");
  std::size_t const down = s.last / s.multiple * s.multiple;
  if (down < s.first) {
    fail(text{"no multiple of "} + s.multiple + " lies in range(" + s.first + ", " + s.last + ")");
  }
  if (s.has_budget && s.budget_bytes == 0) {
    fail("memory_budget(0); leave it out for no budget");
  }
  if (s.has_budget && !memory_known) {
    fail(
        "memory_budget() needs a memory argument: pass tune() a probe, std::size_t(), such as "
        "device_memory_probe, or a preparation, std::size_t(std::size_t batch)");
  }
  double const limit = s.objective.latency_limit_seconds();
  if (s.objective.latency_limited() && !(limit > 0.0)) {
    fail(text{"a latency limit of "} + limit + " seconds; it must be above 0");
  }
  if (!(s.tolerance >= 0.0 && s.tolerance < 1.0)) {
    fail(text{"a tolerance of "} + s.tolerance + "; it must be from 0 to below 1");
  }
  if (!(s.resolution >= 0.0)) {
    fail(text{"a resolution of "} + s.resolution + "; it must not be negative");
  }
  if (!(s.max_seconds >= 0.0)) {
    fail(text{"max_seconds of "} + s.max_seconds + "; it must not be negative");
  }
  if (s.latency_calls < 1) fail("latency_calls(0); at least 1 call is needed");
  check_measure_options(s.sampling, where);
}

}  // namespace detail

/// Finds the smallest batch size whose throughput is within a few percent of the best possible
/// under a memory budget and a latency limit.
///
/// It doubles the size until a limit, the end of the range or a plateau; fits a line to the memory
/// of the sizes run and does not run a size whose predicted memory is over the budget; bisects at
/// the limits, around the best size and at the smallest size near it; and measures the finalists
/// again, interleaved. Running out of memory does not end the search; it lowers the upper bound. A
/// tuner is a value, each setter of which returns a changed copy, and may be used any number of
/// times.
///
/// The second size may exceed the memory budget once: two sizes must run before the model can
/// predict memory. It is then rejected by its measured memory.
///
/// **Threads:** any number of tunes of one object at once; each needs its own stream and workload.
class batch_tuner {
 public:
  /// @param first  smallest size, items, at least 1
  /// @param last  largest size, items
  [[nodiscard]] batch_tuner range(std::size_t first, std::size_t last) const {
    return with(&detail::search_settings::first, first).with(&detail::search_settings::last, last);
  }
  /// @param items  only multiples of this are tried; use 8 for tensor cores
  [[nodiscard]] batch_tuner multiple_of(std::size_t items) const {
    return with(&detail::search_settings::multiple, items);
  }
  /// @param bytes  the limit of the workload's memory, as reported by the memory argument of tune()
  [[nodiscard]] batch_tuner memory_budget(std::size_t bytes) const {
    return with(&detail::search_settings::budget_bytes, bytes)
        .with(&detail::search_settings::has_budget, true);
  }
  /// @param what  max_throughput(), the default, or throughput_under_latency(seconds)
  [[nodiscard]] batch_tuner objective(tuning_objective what) const {
    return with(&detail::search_settings::objective, what);
  }
  /// @param fraction  fraction of the best throughput given up for a smaller size; default 0.02
  [[nodiscard]] batch_tuner tolerance(double fraction) const {
    return with(&detail::search_settings::tolerance, fraction);
  }
  /// Sets how closely the search narrows down a size after doubling. A throughput that falls and
  /// rises again between two powers of two can hide a better size.
  /// @param fraction  of the size; default 0.05; 0: to the item
  [[nodiscard]] batch_tuner resolution(double fraction) const {
    return with(&detail::search_settings::resolution, fraction);
  }
  /// @param count  number of doublings without gain after which larger sizes are not tried; default
  ///   3; 0: doubles up to the end of the range
  [[nodiscard]] batch_tuner stop_after_flat(std::size_t count) const {
    return with(&detail::search_settings::flat_doublings, count);
  }
  /// @param seconds  measured time after which no new size is tried; default 30
  [[nodiscard]] batch_tuner max_seconds(double seconds) const {
    return with(&detail::search_settings::max_seconds, seconds);
  }
  /// @param options  how the throughput of each size is sampled
  [[nodiscard]] batch_tuner sampling(measure_options const& options) const {
    return with(&detail::search_settings::sampling, options);
  }
  /// @param count  single calls measured for the latency of each size; default 100. A workload
  ///   whose calls take longer than the sampling's max_seconds gets fewer, but at least 10
  [[nodiscard]] batch_tuner latency_calls(std::size_t count) const {
    return with(&detail::search_settings::latency_calls, count);
  }

  /// Tunes without measuring memory; see the overload below.
  template <typename Workload>
  tune_result tune(stream_ref stream, Workload&& workload,
                   source_location where = source_location::current()) const {
    return tune(stream, workload, no_memory_probe{}, where);
  }

  /// Runs `workload` at many sizes and chooses one.
  ///
  /// @pre the stream's device is current
  /// @param stream  the stream on which the workload enqueues its work, not capturing
  /// @param workload  `void(std::size_t batch, stream_ref stream)`; runs one batch. It may allocate
  ///   and throw; it must join work on other streams to `stream`
  /// @param memory  reports the workload's memory, one of
  ///   - a probe, `std::size_t()`: returns the peak in bytes since its last call. A probe whose
  ///     value only grows, such as device_memory_probe, is enough, as sizes first run in ascending
  ///     order;
  ///   - a preparation, `std::size_t(std::size_t batch)` or void: called before a size is run, may
  ///     allocate for it and throw out_of_memory; the bytes that it returns are taken as exact;
  ///   - no_memory_probe
  /// @return all rows and the choice
  /// @throws no_feasible_batch if no size fits and meets the latency limit; it holds the rows
  /// @throws std::invalid_argument for settings out of range, a capturing stream, or a memory
  ///   budget with no_memory_probe
  /// @throws cuda_error for an error that was pending before the call, or that the workload left
  ///   pending (a failed launch would be measured as fast); and whatever else the workload throws.
  ///   out_of_memory, std::bad_alloc and cudaErrorMemoryAllocation reject the size instead. After
  ///   an exception the stream is idle and the last error is clear, unless it is sticky
  ///
  /// **Stream:** ordered on `stream`; blocks. **Capture:** not legal.
  template <typename Workload, typename Memory>
  tune_result tune(stream_ref stream, Workload&& workload, Memory&& memory,
                   source_location where = source_location::current()) const {
    event_stopwatch stopwatch{where};
    return tune_with(stopwatch, stream, workload, memory, where);
  }

  /// Tunes with another clock than CUDA events.
  ///
  /// @param stopwatch  `double(stream_ref, Call& call, std::size_t repeats)`, as event_stopwatch:
  ///   calls `call()` that many times and returns seconds
  /// The other parameters, results and exceptions are those of tune().
  template <typename Stopwatch, typename Workload, typename Memory>
  tune_result tune_with(Stopwatch& stopwatch, stream_ref stream, Workload&& workload,
                        Memory&& memory, source_location where = source_location::current()) const {
    using memory_type = std::remove_reference_t<Memory>;
    constexpr bool is_probe = std::is_invocable_r_v<std::size_t, memory_type&>;
    constexpr bool is_preparation = std::is_invocable_v<memory_type&, std::size_t>;
    constexpr bool is_none = std::is_same_v<std::remove_cv_t<memory_type>, no_memory_probe>;
    static_assert(std::is_invocable_v<Workload&, std::size_t, stream_ref>,
                  "warpwright: the workload of batch_tuner::tune must be callable as "
                  "void(std::size_t batch, warpwright::stream_ref stream)");
    static_assert(int{is_probe} + int{is_preparation} + int{is_none} == 1,
                  "warpwright: the memory argument of batch_tuner::tune must be a probe, "
                  "std::size_t(), or a preparation, std::size_t(std::size_t batch) or "
                  "void(std::size_t batch), or no_memory_probe");
    constexpr bool returns_bytes = prepares_with_bytes<memory_type>();

    detail::search_settings const settings = validated(settings_, is_probe || returns_bytes, where);
    if (stream.is_capturing(where)) {
      detail::throw_invalid_argument(
          "batch_tuner: the stream is capturing, so the workload would not run; tune before the "
          "capture",
          where);
    }
    check(cudaGetLastError(), "a call before batch_tuner::tune", where);

    auto const prepare = [&](std::size_t batch, std::size_t& bytes) {
      if constexpr (returns_bytes) {
        bytes = memory(batch);
      } else if constexpr (is_preparation) {
        memory(batch);
      }
      static_cast<void>(batch);
      static_cast<void>(bytes);
      return returns_bytes;
    };
    auto const read_memory = [&](std::size_t& bytes) {
      if constexpr (is_probe) bytes = memory();
      static_cast<void>(bytes);
      return is_probe;
    };
    auto const time_batches = [&](std::size_t batch, std::size_t repeats) {
      auto call = [&] { workload(batch, stream); };
      double const seconds = stopwatch(stream, call, repeats);
      check(cudaGetLastError(), "the workload of batch_tuner::tune", where);
      return seconds;
    };
    auto const recover = [&] {
      static_cast<void>(cudaGetLastError());
      stream.synchronize(where);
    };
    return finish(settings, detail::search_hooks{prepare, read_memory, time_batches, recover},
                  stream);
  }

 private:
  template <typename Memory>
  static constexpr bool prepares_with_bytes() {
    if constexpr (std::is_invocable_v<Memory&, std::size_t>) {
      return std::is_convertible_v<std::invoke_result_t<Memory&, std::size_t>, std::size_t>;
    } else {
      return false;
    }
  }

  template <typename T>
  [[nodiscard]] batch_tuner with(T detail::search_settings::*member, T value) const {
    batch_tuner copy = *this;
    copy.settings_.*member = value;
    return copy;
  }

  // validated() and finish() are templates for the same reason as batch_search.
  template <typename Settings>
  static Settings validated(Settings settings, bool memory_known, source_location where) {
    detail::check_search_settings(settings, memory_known, where);
    // Both ends become multiples; the first size is rounded up.
    settings.last = settings.last / settings.multiple * settings.multiple;
    settings.first = ((settings.first - 1) / settings.multiple + 1) * settings.multiple;
    return settings;
  }

  template <typename Hooks>
  static tune_result finish(detail::search_settings const& settings, Hooks const& hooks,
                            stream_ref stream) {
    tune_result result;
    try {
      result = detail::batch_search<Hooks>{settings, hooks}.run();
    } catch (...) {
      // The enqueued work must finish before unwinding destroys the memory that it uses.
      detail::discard(cudaStreamSynchronize(stream));
      static_cast<void>(cudaGetLastError());
      throw;
    }
    if (result.chosen_index >= result.rows.size()) throw no_feasible_batch{std::move(result)};
    return result;
  }

  detail::search_settings settings_{};
};

WARPWRIGHT_END
