// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs a batch_tuner on a simulated clock.
#pragma once

#include <warpwright/tune/batch_tuner.hpp>

#include <cstddef>
#include <vector>

#include "measure/simulated_device.hpp"

namespace test_support {

// A workload of a + b * batch seconds.
struct cost {
  double fixed_seconds = 1e-4;
  double item_seconds = 1e-6;
  double operator()(std::size_t batch) const {
    return fixed_seconds + item_seconds * static_cast<double>(batch);
  }
  double rate(std::size_t batch) const { return static_cast<double>(batch) / (*this)(batch); }
};

// A probe of peaks: the workload raises `peak`.
struct peak_probe {
  std::size_t& peak;
  void reset() { peak = 0; }
  std::size_t peak_bytes() const { return peak; }
};

struct tuner_bench {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  warpwright::stream stream;
  std::vector<std::size_t> ran;  // every batch, in order

  // @param seconds  of a batch; called at each call of the workload
  template <typename Seconds, typename Memory>
  warpwright::tune_result tune(warpwright::batch_tuner const& tuner, Seconds&& seconds,
                               Memory&& memory) {
    return tuner.clock(clock.ref())
        .tune_with(
            stopwatch, stream,
            [&](std::size_t batch, warpwright::stream_ref) {
              ran.push_back(batch);
              clock.advance(seconds(batch));
            },
            memory);
  }
  template <typename Seconds>
  warpwright::tune_result tune(warpwright::batch_tuner const& tuner, Seconds&& seconds) {
    return tune(tuner, seconds, warpwright::no_memory_probe{});
  }
  std::size_t largest_run() const {
    std::size_t largest = 0;
    for (std::size_t const b : ran) largest = b > largest ? b : largest;
    return largest;
  }
  std::size_t runs_of(std::size_t batch) const {
    std::size_t count = 0;
    for (std::size_t const b : ran) count += b == batch ? 1 : 0;
    return count;
  }
};

inline warpwright::tune_row const* find_row(warpwright::tune_result const& r, std::size_t batch) {
  for (warpwright::tune_row const& row : r.rows) {
    if (row.batch == batch) return &row;
  }
  return nullptr;
}

// The correct choice by exhaustive search.
template <typename Rate, typename Allowed>
std::size_t smallest_near_best(std::size_t first, std::size_t last, double tolerance,
                               Rate const& rate, Allowed const& allowed) {
  double best = 0.0;
  for (std::size_t b = first; b <= last; ++b) {
    if (allowed(b) && rate(b) > best) best = rate(b);
  }
  for (std::size_t b = first; b <= last; ++b) {
    if (allowed(b) && rate(b) >= best * (1.0 - tolerance)) return b;
  }
  return 0;
}
inline bool every_size(std::size_t) { return true; }

}  // namespace test_support
