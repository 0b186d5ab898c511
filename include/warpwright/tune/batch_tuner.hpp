// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the best batch size of a workload by running it.
//
//   ww::tuning_pool memory{device};                                     // tuning_pool.hpp
//   auto const best = ww::batch_tuner{}
//                         .range(1, 8192)
//                         .memory_budget(std::size_t{2} << 30)
//                         .objective(ww::throughput_under_latency(5e-3))  // p99
//                         .tune(stream,
//                               [&](std::size_t batch, ww::stream_ref s, ww::resource_ref m) { … },
//                               memory);
//   run_service(best.chosen().batch);
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/memory/resource_ref.hpp>
#include <warpwright/tune/detail/search/search_settings.hpp>
#include <warpwright/tune/detail/search/tuned_memory.hpp>
#include <warpwright/tune/memory_model.hpp>

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// Finds the smallest batch size whose throughput is within a few percent of the best possible
/// under a memory budget and a latency limit.
///
/// A service calls it at start-up. Its steps, each of which the result's `steps` reports:
/// - *bracketing*: doubles the size until a limit, the end of the range or a plateau. A failure
///   does not hide larger sizes, and is tried again at the end. Under a memory budget the smallest
///   sizes give a memory_model; what it knows to be over the budget never runs;
/// - *refinement*: halves the gaps that may hold a better size. Steps of the time (waves of blocks)
///   are found, and the last size of a step tried; then the smallest size within the tolerance;
/// - *comparison*: the best ones in turns, until a size is shown to be within the tolerance or not.
///   Noise makes the choice larger, not slower;
/// - *latency*: under a limit, single calls show by a binomial test that the choice keeps it; if
///   not, a smaller size is tried;
/// - *soak*: the choice runs again, independently. Under a latency limit the test is repeated.
///
/// A latency limit costs calls: at the 99th percentile and the default confidence at least 597 in
/// the latency step and 597 in the soak, none of them over the limit; up to about 5,500 each if
/// some are and the time allows. A size of which 1 % of all calls or more are over the limit is
/// chosen in fewer than 1 of 10,000 tunes, one of which up to 0.4 % are nearly always; from 0.6 %
/// on the tuner rather takes a smaller size. That counts calls that are slow independently of each
/// other: where slow calls come in bursts of k, k times as many calls are needed (soak()). Half of
/// max_seconds is kept for these calls: a size for which that is too short is not chosen.
///
/// To tune a workload as a service runs it that replays CUDA graphs, pass `captured(workload)`
/// (tuning_pool.hpp): each size is captured once it begins.
///
/// A tuner is a value, each setter of which returns a changed copy, and may be used any number of
/// times.
///
/// **Threads:** any number of tunes of one object at once, if its callbacks allow that; each needs
/// its own stream, workload and memory.
class batch_tuner : public detail::options_base<batch_tuner, detail::search_settings> {
 public:
  /// @param first  smallest size, items, at least 1
  /// @param last  largest size, items, at most 2^40
  self range(std::size_t first, std::size_t last) const {
    return with(&values::first, first).with(&values::last, last);
  }
  /// @param items  only multiples of this are tried; use 8 for tensor cores
  self multiple_of(std::size_t items) const { return with(&values::multiple, items); }
  /// Names the items that the device works on at once: the time then grows in steps of so many
  /// items. Otherwise the tuner looks for such steps.
  /// @param items  at most 2^40; 0: not known. Where one kernel dominates, its resident_blocks()
  ///   (kernel_occupancy.hpp) times the items of a block
  self wave(std::size_t items) const { return with(&values::wave, items); }
  /// Adds a size that is tried in any case.
  /// @param batch  a multiple in the range
  /// @throws std::invalid_argument for the 17th one
  self prefer(std::size_t batch, source_location where = source_location::current()) const {
    self copy = *this;
    if (copy.values_.preferred_count == 16) {
      detail::throw_invalid_argument(
          "batch_tuner: more than 16 preferred sizes; name those that matter most", where);
    }
    copy.values_.preferred[copy.values_.preferred_count++] = batch;
    return copy;
  }
  /// Tries no other sizes than these, for workloads that were built for some sizes: an engine's
  /// profiles, captured graphs. Replaces the sizes of prefer().
  /// @param batches  1 to 16 multiples in the range, a list such as `{1, 8, 64}`
  /// @throws std::invalid_argument for none or more
  template <typename List = std::initializer_list<std::size_t>>
  self only(List const& batches, source_location where = source_location::current()) const {
    self copy = with(&values::only_preferred, true);
    copy.values_.preferred_count = 0;
    for (std::size_t const batch : batches) copy = copy.prefer(batch, where);
    if (copy.values_.preferred_count == 0) {
      detail::throw_invalid_argument("batch_tuner: only() without a size; name one to 16", where);
    }
    return copy;
  }
  /// @param bytes  the limit of the workload's memory, as reported by the memory argument of tune()
  self memory_budget(std::size_t bytes) const {
    return with(&values::budget_bytes, bytes).with(&values::has_budget, true);
  }
  /// @param what  max_throughput(), the default, or throughput_under_latency() and the others of
  ///   tune/detail/objective/tuning_objective.hpp
  self objective(tuning_objective what) const { return with(&values::objective, std::move(what)); }
  /// @param fraction  fraction of the best throughput given up for a smaller size; default 0.02
  self tolerance(double fraction) const { return with(&values::tolerance, fraction); }
  /// Sets how closely the search looks between the doubled sizes.
  /// @param fraction  a gap that could gain less of the throughput is not searched; default 0.005
  self resolution(double fraction) const { return with(&values::resolution, fraction); }
  /// @param count  number of doublings without gain after which larger sizes are not tried; default
  ///   3; 0: doubles up to the end of the range
  self stop_after_flat(std::size_t count) const { return with(&values::flat_doublings, count); }
  /// @param seconds  the time of the whole tune, preparation, host and waiting included;
  ///   default 30. Nothing is begun that is expected to take longer, except for the first size
  self max_seconds(double seconds) const { return with(&values::max_seconds, seconds); }
  /// @param predicate  asked between calls; true: the tune ends with the best size so far. Under a
  ///   latency limit, one that has not been confirmed is not returned. It outlives the tune
  self stop_when(stop_predicate predicate) const { return with(&values::stop, predicate); }
  /// @param callback  `void(tuning_progress const&)`, copyable, called before each size runs, by
  ///   the thread that tunes; such as a progress_line
  template <typename Callback>
  self progress(Callback&& callback) const {
    return with(&values::progress, decltype(values::progress)(std::forward<Callback>(callback)));
  }
  /// Names further exceptions that mean that memory ran out. These do in any case: std::bad_alloc
  /// with this library's out_of_memory, cudaErrorMemoryAllocation, and whatever is thrown after a
  /// tuning_pool has refused an allocation of the same run, while cudaErrorMemoryAllocation is the
  /// last error, or while less than a fiftieth of the device's memory is free.
  /// @param classifier  `bool(std::exception_ptr const&)`, copyable; must not keep the exception
  template <typename Classifier>
  self out_of_memory_if(Classifier&& classifier) const {
    return with(&values::is_out_of_memory,
                decltype(values::is_out_of_memory)(std::forward<Classifier>(classifier)));
  }
  /// Makes any exception reject the size, as out of memory does, except for sticky CUDA errors: for
  /// libraries that accept some sizes only. Otherwise it ends the tune.
  self reject_exceptions(bool on = true) const { return with(&values::reject_exceptions, on); }
  /// Agrees with other devices or ranks on one size.
  /// @param minimum  `std::size_t(std::size_t)`, copyable: the minimum of what all pass, such as an
  ///   all-reduce. All call it equally often; 0 means that no size works. It is called with 0 once
  ///   if the tune ends by an exception before all agree, so that no other waits for ever. A
  ///   result above what was passed ends the tune with std::invalid_argument
  template <typename Minimum>
  self agree(Minimum&& minimum) const {
    return with(&values::agree, decltype(values::agree)(std::forward<Minimum>(minimum)));
  }
  /// @param options  how the throughput of each size is sampled, before the comparison
  self sampling(measure_options const& options) const { return with(&values::sampling, options); }
  /// @param count  single calls measured for each size; default 20. A size of which most are
  ///   over the latency limit is rejected; whether one keeps it takes more, for the choice alone
  self latency_calls(std::size_t count) const { return with(&values::latency_calls, count); }
  /// @param confidence  of each of the two runs that show the latency limit to be kept, 0.5 to
  ///   0.999999; default 0.995. A wrong choice needs two errors. At 0.95 and the 99th percentile a
  ///   run has at least 368 calls, at 0.995 597, at 0.999 757
  self latency_confidence(double confidence) const {
    return with(&values::latency_confidence, confidence);
  }
  /// @param calls    the fewest calls of the choice at the end; default 50
  /// @param seconds  the least time for them; default 0
  self soak(std::size_t calls, double seconds = 0.0) const {
    return with(&values::soak_calls, calls).with(&values::soak_seconds, seconds);
  }
  /// @param time  counts max_seconds; for tests
  self clock(detail::clock_ref time) const { return with(&values::clock, time); }

  /// Tunes without measuring memory; see the overload below.
  template <typename Workload>
  tune_result tune(stream_ref stream, Workload&& workload,
                   source_location where = source_location::current()) const {
    return tune(stream, workload, no_memory_probe{}, where);
  }

  /// Runs `workload` at many sizes and chooses one.
  ///
  /// @param stream  the stream on which the workload enqueues its work, not capturing; its device
  ///   is current while the functions run
  /// @param workload  `void(std::size_t batch, stream_ref stream)`, or with a third argument
  ///   `resource_ref memory`, from which it allocates; runs one batch. It may allocate and throw;
  ///   it must join work on other streams to `stream`
  /// @param memory  the workload's memory, one of
  ///   - a tuning_pool, which is handed to the workload, capped at the budget, emptied between
  ///   sizes
  ///     and at the end. Or another class with the pool's interface, reset() and peak_bytes();
  ///   - a probe of peaks: any class with `void reset()` and `std::size_t peak_bytes()`, the most
  ///     since reset(). Until the memory is known, sizes grow in small steps, but nothing stops the
  ///     workload at the budget: memory that jumps, as if padded to powers of two, may exceed it;
  ///   - a preparation, `std::size_t(std::size_t batch)` or void: called before a size is run, may
  ///     allocate for it and throw out_of_memory; the bytes that it returns are taken as exact;
  ///   - without a budget, what is in use at the call, `std::size_t()`, such as
  ///     device_memory_probe;
  ///   - no_memory_probe
  /// @return all rows and the choice
  /// @throws no_feasible_batch if no size fits, or none is shown to meet the latency limit in the
  ///   time; it holds the rows
  /// @throws std::invalid_argument for settings out of range, a capturing stream, or a memory
  ///   budget without peaks
  /// @throws cuda_error for an error that was pending before the call, or that the workload left
  ///   pending (a failed launch would be measured as fast); and whatever else the workload throws,
  ///   see out_of_memory_if() and reject_exceptions(). After an exception the stream is idle and
  ///   the last error is clear, unless it is sticky
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
  WARPWRIGHT_COLD_ENTRY tune_result
  tune_with(Stopwatch& stopwatch, stream_ref stream, Workload&& workload, Memory&& memory,
            source_location where = source_location::current()) const {
    using memory_type = std::remove_reference_t<Memory>;
    using kind = detail::memory_kind<memory_type>;
    constexpr bool with_resource =
        std::is_invocable_v<Workload&, std::size_t, stream_ref, resource_ref>;
    static_assert(
        with_resource || std::is_invocable_v<Workload&, std::size_t, stream_ref>,
        "warpwright: the workload of batch_tuner::tune must be callable as "
        "void(std::size_t batch, warpwright::stream_ref stream), or with a third argument "
        "warpwright::resource_ref memory");
    static_assert(kind::valid,
                  "warpwright: the memory argument of batch_tuner::tune must be a tuning_pool, a "
                  "probe of peaks with reset() and peak_bytes(), a preparation, "
                  "std::size_t(std::size_t batch) or void(std::size_t batch), a probe "
                  "std::size_t(), or no_memory_probe");
    static_assert(
        !with_resource || kind::is_resource || !kind::valid,
        "warpwright: the workload of batch_tuner::tune takes a resource_ref, so the memory "
        "argument must be one: pass a tuning_pool");

    detail::search_settings const settings = validated(values_, where);
    detail::check_memory_argument(detail::memory_traits::of<memory_type>(), settings.has_budget,
                                  where);
    if (stream.is_capturing(where)) {
      detail::throw_invalid_argument(
          "batch_tuner: the stream is capturing, so the workload would not run; tune before the "
          "capture",
          where);
    }
    detail::check_pending("a call before batch_tuner::tune", where);
    detail::scoped_stream_device const current{stream.get()};

    detail::tuned_memory<memory_type> tuned{memory, settings.has_budget, settings.budget_bytes,
                                            where};
    // Destroyed first: the memory of its graph goes back to the pool before that is emptied.
    using workload_type = detail::tuned_workload<std::remove_reference_t<Workload>>;
    workload_type graph_of{workload};
    auto const reset_peak = [&] {
      graph_of.drop_graph();
      tuned.reset();
    };
    auto const prepare = [&](std::size_t batch, std::size_t& bytes) {
      bool const exact = tuned.prepare(batch, bytes);
      detail::check_pending("the preparation of batch_tuner::tune", where);
      return exact;
    };
    auto const read_peak = [&](std::size_t& bytes) { return tuned.read(bytes); };
    auto const trim = [&] {
      graph_of.drop_graph();
      tuned.trim();
    };
    auto const refusals = [&] { return tuned.refusals(); };
    auto const device_is_full = [] {
      // What the workload held may be free again: the unwinding of an exception destroys it.
      if (cudaPeekAtLastError() == cudaErrorMemoryAllocation) return true;
      std::size_t free = 0;
      std::size_t total = 0;
      detail::discard(cudaMemGetInfo(&free, &total));
      return free < total / 50;
    };
    auto const time_batches = [&](std::size_t batch, std::size_t repeats) {
      auto call = [&] {
        if constexpr (with_resource && workload_type::replays) {
          workload(batch, stream, memory);  // which it trims before a capture
        } else if constexpr (with_resource && kind::is_resource) {
          workload(batch, stream, resource_ref{memory});
        } else {
          workload(batch, stream);
        }
      };
      return detail::checked_seconds(stopwatch(stream, call, repeats),
                                     "the workload of batch_tuner::tune", where);
    };
    auto const recover = [&] {
      static_cast<void>(cudaGetLastError());
      stream.synchronize(where);
    };
    detail::search_hooks hooks{reset_peak, prepare,        read_peak,    trim,
                               refusals,   device_is_full, time_batches, recover};
    hooks.prepares = kind::is_preparation || workload_type::replays;
    hooks.guarded = (kind::is_exact || kind::is_capped) && settings.has_budget;
    return finish(settings, hooks, stream);
  }

 private:
  friend class stored_tuner;

  static detail::search_settings validated(detail::search_settings settings, source_location where);

  static tune_result finish(detail::search_settings const& settings,
                            detail::search_hooks const& hooks, stream_ref stream);
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/batch_tuner_definitions.hpp>
#endif
