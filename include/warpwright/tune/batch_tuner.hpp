// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the batch size to run a workload with, by running it.
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

/// Tells a tuner that the workload's memory is not looked at.
struct no_memory_probe {};

/// The device memory that the machine has handed out since this probe was made.
///
/// It sees what cudaMalloc and pools take from the device, rounded to their granularity, and also
/// what other processes take meanwhile: on a shared device read your pool's own high water instead.
class device_memory_probe {
 public:
  /// @throws cuda_error if the query fails
  explicit device_memory_probe(source_location where = source_location::current())
      : where_{where}, free_at_start_{free_bytes()} {}

  /// @return bytes taken since construction, 0 if memory was given back
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
WARPWRIGHT_COLD void check_search_settings(Settings const& s, bool sees_memory,
                                           source_location where) {
  auto const refuse = [where](text const& problem) {
    throw_invalid_argument(text{"batch_tuner: "} + problem, where);
  };
  if (s.first < 1 || s.last < s.first) {
    refuse(text{"range("} + s.first + ", " + s.last +
           ") is empty; the first size is at least 1 and the last not below it");
  }
  if (s.multiple < 1) refuse("multiple_of(0); use 1 for every size");
  std::size_t const down = s.last / s.multiple * s.multiple;
  if (down < s.first) {
    refuse(text{"no multiple of "} + s.multiple + " lies in range(" + s.first + ", " + s.last +
           ")");
  }
  if (s.has_budget && s.budget_bytes == 0) {
    refuse("memory_budget(0); leave it out for no budget");
  }
  if (s.has_budget && !sees_memory) {
    refuse(
        "a memory budget needs to see the memory: pass a probe, std::size_t(), as third argument "
        "of tune(), such as device_memory_probe, or a preparation, std::size_t(std::size_t)");
  }
  double const limit = s.objective.latency_limit_seconds();
  if (s.objective.latency_limited() && !(limit > 0.0)) {
    refuse(text{"latency limit of "} + limit + " seconds; it must be above 0");
  }
  if (!(s.tolerance >= 0.0 && s.tolerance < 1.0)) {
    refuse(text{"tolerance of "} + s.tolerance + "; it must be from 0 to below 1");
  }
  if (!(s.resolution >= 0.0)) {
    refuse(text{"resolution of "} + s.resolution + "; it must not be negative");
  }
  if (!(s.max_seconds >= 0.0)) {
    refuse(text{"max_seconds of "} + s.max_seconds + "; it must not be negative");
  }
  if (s.latency_calls < 1) refuse("latency_calls(0); at least 1 call is needed");
  check_measure_options(s.sampling, where);
}

}  // namespace detail

/// Finds the smallest batch size whose throughput is within a few percent of the best possible
/// under a memory budget and a latency limit.
///
/// It doubles from the first size until a limit, the end of the range or no more gain; fits a line
/// to the memory that the sizes took and never runs one whose predicted memory is over the budget;
/// bisects at the limits, around the best size and at the smallest size near it; and measures the
/// finalists again in turns. Running out of memory is survived and lowers the upper bound. Every
/// setter changes the object and returns it. A tuner may be used any number of times.
///
/// The first two sizes are run to learn how memory grows, so the second may exceed the budget once;
/// it is then refused by what it took.
///
/// **Threads:** any number of tunes of one object at once; each needs its own stream and workload.
class batch_tuner {
 public:
  /// @param first  smallest size, items, at least 1
  /// @param last  largest size, items
  batch_tuner& range(std::size_t first, std::size_t last) {
    settings_.first = first;
    settings_.last = last;
    return *this;
  }
  /// @param items  only multiples of this are tried; 8 suits tensor cores
  batch_tuner& multiple_of(std::size_t items) {
    settings_.multiple = items;
    return *this;
  }
  /// @param bytes  the most memory that the workload may take, as the memory argument of tune()
  /// sees it
  batch_tuner& memory_budget(std::size_t bytes) {
    settings_.budget_bytes = bytes;
    settings_.has_budget = true;
    return *this;
  }
  /// @param what  max_throughput(), the default, or throughput_under_latency(seconds)
  batch_tuner& objective(tuning_objective what) {
    settings_.objective = what;
    return *this;
  }
  /// @param fraction  share of the best throughput given up for a smaller size; 0.02 unless told
  batch_tuner& tolerance(double fraction) {
    settings_.tolerance = fraction;
    return *this;
  }
  /// Sizes are tried by doubling, then around the best until they are this close: a workload whose
  /// rate falls and rises again between two doublings can hide a better size.
  /// @param fraction  of the size; 0.05 unless told, 0: to the item
  batch_tuner& resolution(double fraction) {
    settings_.resolution = fraction;
    return *this;
  }
  /// @param count  doublings without gain after which larger sizes are left out; 3 unless told, 0:
  ///   always up to the end of the range
  batch_tuner& stop_after_flat(std::size_t count) {
    settings_.flat_doublings = count;
    return *this;
  }
  /// @param seconds  measured time after which no new size is tried; 30 unless told
  batch_tuner& max_seconds(double seconds) {
    settings_.max_seconds = seconds;
    return *this;
  }
  /// @param options  how each size's throughput is sampled
  batch_tuner& sampling(measure_options const& options) {
    settings_.sampling = options;
    return *this;
  }
  /// @param count  calls, one at a time, for each size's latencies; 100 unless told, fewer (but 10)
  ///   for a workload that takes longer than the sampling's max_seconds for them
  batch_tuner& latency_calls(std::size_t count) {
    settings_.latency_calls = count;
    return *this;
  }

  /// Tunes without looking at memory; see the overload below.
  template <typename Workload>
  tune_result tune(stream_ref stream, Workload&& workload,
                   source_location where = source_location::current()) const {
    return tune(stream, workload, no_memory_probe{}, where);
  }

  /// Runs `workload` at many sizes and chooses one.
  ///
  /// @pre the stream's device is current
  /// @param stream  where the workload puts its work, not capturing
  /// @param workload  `void(std::size_t batch, stream_ref stream)`; runs one batch. It may
  /// allocate,
  ///   and may throw; work on other streams must be joined to `stream`
  /// @param memory  what is known of its memory, one of
  ///   - a probe, `std::size_t()`: the high water in bytes since its last call. One that only
  ///     grows, such as device_memory_probe, will do: the sizes are first run in ascending order;
  ///   - a preparation, `std::size_t(std::size_t batch)` or void: called before a size is run, may
  ///     allocate for it and throw out_of_memory; the bytes that it returns are taken as exact;
  ///   - no_memory_probe
  /// @return all rows and the choice
  /// @throws no_feasible_batch if no size fits and meets the limit; it carries the rows
  /// @throws std::invalid_argument for settings out of range, a capturing stream, or a memory
  ///   budget with no_memory_probe
  /// @throws cuda_error for an error that was pending before, or that the workload left behind
  ///   (a failed launch would look fast); and whatever else the workload throws. out_of_memory,
  ///   std::bad_alloc and cudaErrorMemoryAllocation are survived. After an exception the stream is
  ///   idle and the last error clear, unless it is sticky
  ///
  /// **Stream:** ordered on `stream`; blocks. **Capture:** not legal.
  template <typename Workload, typename Memory>
  tune_result tune(stream_ref stream, Workload&& workload, Memory&& memory,
                   source_location where = source_location::current()) const {
    event_stopwatch stopwatch{where};
    return tune_with(stopwatch, stream, workload, memory, where);
  }

  /// Tunes by another clock than CUDA events.
  ///
  /// @param stopwatch  as event_stopwatch: `double(stream_ref, Call& call, std::size_t repeats)`
  ///   runs `call()` so often and returns seconds
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

    detail::search_settings const settings = checked(settings_, is_probe || returns_bytes, where);
    if (stream.is_capturing(where)) {
      detail::throw_invalid_argument(
          "batch_tuner: the stream is capturing, where nothing runs; tune before the capture",
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
    auto const timed = [&](std::size_t batch, std::size_t repeats) {
      auto call = [&] { workload(batch, stream); };
      double const seconds = stopwatch(stream, call, repeats);
      check(cudaGetLastError(), "the workload of batch_tuner::tune", where);
      return seconds;
    };
    auto const recover = [&] {
      static_cast<void>(cudaGetLastError());
      stream.synchronize(where);
    };
    return finish(settings, detail::search_hooks{prepare, read_memory, timed, recover}, stream);
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

  // Templates for the same reason as batch_search.
  template <typename Settings>
  static Settings checked(Settings settings, bool sees_memory, source_location where) {
    detail::check_search_settings(settings, sees_memory, where);
    // Both ends on the lattice of multiples; the first size is rounded up.
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
      // What the workload had put on the stream ends before its owners are unwound further.
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
