// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the search of batch_tuner is told, and what it needs of the world.
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
  std::size_t duel_rounds = 4;
  measure_options sampling = measure_options{}.min_samples(7).max_samples(41).max_seconds(0.25);
};

// What the search needs of the world.
struct search_hooks {
  // Makes ready for a size. True, and bytes set, if what it needs is known before it runs.
  function_ref<bool(std::size_t batch, std::size_t& bytes)> prepare;
  // True, and bytes set, if the high water of the last run can be read.
  function_ref<bool(std::size_t& bytes)> read_memory;
  // Seconds for so many batches back to back.
  function_ref<double(std::size_t batch, std::size_t repeats)> timed;
  // Brings stream and error state in order after memory ran out; throws if that cannot be.
  function_ref<void()> recover;
};

// Runs body; true if it ran out of memory. The handler is left before anybody goes on, so that what
// the exception holds is gone by then.
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
