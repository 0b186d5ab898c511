// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The settings of batch_tuner's search, and the functions through which it runs the workload.
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/tune/detail/objective/tuning_progress.hpp>
#include <warpwright/tune/detail/report/tune_result.hpp>

#include <exception>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

struct search_settings {
  std::size_t first = 1;
  std::size_t last = 4096;
  std::size_t multiple = 1;
  std::size_t wave = 0;            // 0: not known
  std::size_t preferred[16] = {};  // tried in any case; no std::vector, whose copies compile slowly
  std::size_t preferred_count = 0;
  bool only_preferred = false;  // no other sizes are run
  std::size_t keep = 0;         // chosen, or none is; 0: the search decides
  std::size_t budget_bytes = 0;
  bool has_budget = false;
  tuning_objective objective{};
  double tolerance = 0.02;
  double resolution = 0.005;
  double max_seconds = 30.0;
  std::size_t flat_doublings = 3;
  std::size_t latency_calls = 20;
  double latency_confidence = 0.995;
  std::size_t soak_calls = 50;
  double soak_seconds = 0.0;
  bool reject_exceptions = false;
  measure_options sampling = measure_options{}
                                 .warmup_calls(1)
                                 .min_samples(7)
                                 .max_samples(101)
                                 .min_seconds(0.0)
                                 .precision(0.02)
                                 .max_seconds(0.25);
  stop_predicate stop{};
  clock_ref clock{};
  owned_function<void(tuning_progress const&)> progress;
  owned_function<bool(std::exception_ptr const&)> is_out_of_memory;
  owned_function<std::size_t(std::size_t)> agree;

  // Whether a size of the range may run.
  [[nodiscard]] bool allows(std::size_t batch) const {
    for (std::size_t i = 0; i < preferred_count && only_preferred; ++i) {
      if (preferred[i] == batch) return true;
    }
    return !only_preferred;
  }
  // The smallest size above another one that the user named; 0: none.
  [[nodiscard]] std::size_t next_preferred(std::size_t batch) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < preferred_count; ++i) {
      if (preferred[i] > batch && (next == 0 || preferred[i] < next)) next = preferred[i];
    }
    return next;
  }
};

// The search calls the workload, the memory and the stopwatch through these functions.
struct search_hooks {
  // Begins a new peak of the memory.
  function_ref<void()> reset_peak;
  // Prepares a batch size. Returns true, with bytes set, if the memory is known before the run.
  function_ref<bool(std::size_t batch, std::size_t& bytes)> prepare;
  // Returns true, with bytes set, if the peak memory since reset_peak() is available.
  function_ref<bool(std::size_t& bytes)> read_peak;
  // Gives memory that is not in use back to the device.
  function_ref<void()> trim;
  // The number of allocations that the pool has refused so far.
  function_ref<std::size_t()> refusals;
  // Whether hardly any memory of the device is free.
  function_ref<bool()> device_is_full;
  // Runs the batch `repeats` times back to back and returns seconds.
  function_ref<double(std::size_t batch, std::size_t repeats)> time_batches;
  // Synchronises the stream and clears the error after a failure; throws if it cannot.
  function_ref<void()> recover;
  bool prepares = false;  // whether the first call after prepare() is slower than others
  bool guarded = false;   // whether a size over the budget fails before it takes the memory
};

}  // namespace detail

WARPWRIGHT_END
