// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The settings of batch_tuner's search, and the functions through which it runs the workload.
#pragma once

#include <warpwright/tune/measure.hpp>
#include <warpwright/tune/tune_result.hpp>

#include <new>

WARPWRIGHT_BEGIN

namespace detail {

struct search_settings {
  std::size_t first = 1;
  std::size_t last = 4096;
  std::size_t multiple = 1;
  std::size_t budget_bytes = 0;
  bool has_budget = false;
  tuning_objective objective{};
  double tolerance = 0.02;
  double resolution = 0.05;
  double max_seconds = 30.0;
  std::size_t flat_doublings = 3;
  std::size_t latency_calls = 100;
  std::size_t comparison_rounds = 4;
  measure_options sampling =
      measure_options{}.min_samples(7).max_samples(41).min_seconds(0.0).max_seconds(0.25);
};

// The search calls the workload, the memory probe and the stopwatch through these functions.
struct search_hooks {
  // Prepares a batch size. Returns true, with bytes set, if the memory is known before the run.
  function_ref<bool(std::size_t batch, std::size_t& bytes)> prepare;
  // Returns true, with bytes set, if the peak memory of the last run is available.
  function_ref<bool(std::size_t& bytes)> read_memory;
  // Runs the batch `repeats` times back to back and returns seconds.
  function_ref<double(std::size_t batch, std::size_t repeats)> time_batches;
  // Synchronises the stream and clears the error after an out-of-memory error; throws if it cannot.
  function_ref<void()> recover;
};

// Runs body and returns whether it ran out of memory. It returns after the handler, so that the
// exception and the memory that it may hold are destroyed before the search continues.
inline bool ran_out_of_memory(function_ref<void()> body, std::string& note) {
  try {
    body();
    return false;
  } catch (std::bad_alloc const& error) {
    note = error.what();
  } catch (cuda_error const& error) {
    if (error.code() != cudaErrorMemoryAllocation || error.sticky()) throw;
    note = error.what();
  }
  return true;
}

}  // namespace detail

WARPWRIGHT_END
