// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/detail/search/batch_search_definitions.hpp>

#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_memory_argument(memory_traits memory, bool has_budget,
                                                             source_location where) {
  if (!has_budget || memory.peak || memory.exact) return;
  constexpr char const* remedy =
      "pass tune() a tuning_pool from which the workload allocates (tune/tuning_pool.hpp), an "
      "object with reset() and peak_bytes(), or a preparation, std::size_t(std::size_t batch), "
      "that returns the exact bytes";
  if (memory.current) {
    throw_invalid_argument(
        text{"batch_tuner: memory_budget() with a probe of the memory in use: what the workload "
             "frees before it returns would not be seen, and the budget not kept; "} +
            remedy,
        where);
  }
  throw_invalid_argument(
      text{"batch_tuner: memory_budget() needs a memory argument that tells the peak; "} + remedy,
      where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_search_settings(search_settings const& s,
                                                             source_location where) {
  auto const fail = [where](text const& problem) {
    throw_invalid_argument(text{"batch_tuner: "} + problem, where);
  };
  if (s.first < 1 || s.last < s.first) {
    fail(text{"range("} + s.first + ", " + s.last +
         ") is empty; the first size must be at least 1, and the last not below the first");
  }
  if (s.last > std::size_t{1} << 40) {
    fail(text{"range("} + s.first + ", " + s.last + "); the last size must be at most 2^40");
  }
  if (s.wave > std::size_t{1} << 40) {
    fail(text{"wave("} + s.wave + "); it must be at most 2^40");
  }
  if (s.multiple < 1) fail("multiple_of(0); it must be at least 1, which allows every size");
  std::size_t const down = s.last / s.multiple * s.multiple;
  if (down < s.first) {
    fail(text{"no multiple of "} + s.multiple + " lies in range(" + s.first + ", " + s.last + ")");
  }
  for (std::size_t i = 0; i < s.preferred_count; ++i) {
    std::size_t const batch = s.preferred[i];
    if (batch < s.first || batch > s.last || batch % s.multiple != 0) {
      fail(text{"a preferred size of "} + batch + "; it must be a multiple of " + s.multiple +
           " from " + s.first + " to " + s.last);
    }
  }
  if (s.has_budget && s.budget_bytes == 0) {
    fail("memory_budget(0); leave it out for no budget");
  }
  tuning_objective const& o = s.objective;
  if (o.latency_limited() && !(o.latency_limit_seconds() > 0.0)) {
    fail(text{"a latency limit of "} + o.latency_limit_seconds() + " seconds; it must be above 0");
  }
  if (!(o.latency_quantile() >= 0.01 && o.latency_quantile() <= 0.99999)) {
    fail(text{"a latency quantile of "} + o.latency_quantile() +
         "; it must be from 0.01 to 0.99999: 0.99 for the 99th percentile");
  }
  if (!(s.latency_confidence >= 0.5 && s.latency_confidence <= 0.999999)) {
    fail(text{"a latency_confidence of "} + s.latency_confidence +
         "; it must be from 0.5 to 0.999999: 0.995 for an error of at most 0.5 % in each run");
  }
  if (!(s.tolerance >= 0.0 && s.tolerance < 1.0)) {
    fail(text{"a tolerance of "} + s.tolerance + "; it must be from 0 to below 1");
  }
  if (!(s.resolution >= 0.0)) {
    fail(text{"a resolution of "} + s.resolution + "; it must be 0 or more");
  }
  if (!(s.max_seconds >= 0.0)) {
    fail(text{"max_seconds of "} + s.max_seconds + "; it must be 0 or more");
  }
  if (!(s.soak_seconds >= 0.0)) {
    fail(text{"a soak of "} + s.soak_seconds + " seconds; it must be 0 or more");
  }
  if (s.latency_calls < 1) fail("latency_calls(0); at least 1 call is needed");
  check_measure_options(s.sampling, where);
}

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE detail::search_settings batch_tuner::validated(
    detail::search_settings settings, source_location where) {
  detail::check_search_settings(settings, where);
  // Both ends become multiples; the first size is rounded up.
  settings.last = settings.last / settings.multiple * settings.multiple;
  settings.first = ((settings.first - 1) / settings.multiple + 1) * settings.multiple;
  return settings;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE tune_result batch_tuner::finish(
    detail::search_settings const& settings, detail::search_hooks const& hooks, stream_ref stream) {
  tune_result result;
  try {
    result = detail::batch_search{settings, hooks}.run();
  } catch (...) {
    // The enqueued work must finish before unwinding destroys the memory that it uses.
    detail::discard(cudaStreamSynchronize(stream));
    static_cast<void>(cudaGetLastError());
    throw;
  }
  if (result.chosen_index >= result.rows.size()) throw no_feasible_batch{std::move(result)};
  return result;
}

WARPWRIGHT_END
