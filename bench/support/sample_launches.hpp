// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Times kernels by events over arrays that rotate past L2.
#pragma once

#include <benchmark/benchmark.h>

#include <warpwright/core.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

namespace bench_support {

// A GPU is up to 10 us a launch slower for some milliseconds after gigabytes were freed and
// allocated, and after a rest.
inline constexpr std::chrono::milliseconds warm_up{30};

/// Times `launches` launches between two events, as often as the benchmark says, after a warm-up.
/// Counters: median, p10 and p90 of one launch in us, GB/s of the median.
/// @param arrays  has sets(), which take turns, and bytes(), what a launch moves
/// @param launch  called with (stream, arrays, set)
template <class Arrays, class Launch>
void sample_launches(benchmark::State& state, warpwright::stream const& s, Arrays const& arrays,
                     std::size_t launches, Launch launch) {
  warpwright::timed_event start;
  warpwright::timed_event stop;
  std::vector<double> microseconds;
  std::size_t set = 0;
  auto const launch_all = [&] {
    for (std::size_t k = 0; k < launches; ++k) {
      launch(s, arrays, set);
      if (++set == arrays.sets()) set = 0;
    }
  };
  auto const began = std::chrono::steady_clock::now();
  do {
    launch_all();
    s.synchronize();
  } while (std::chrono::steady_clock::now() - began < warm_up);
  for (auto _ : state) {
    start.record(s.get());
    launch_all();
    stop.record(s.get());
    stop.synchronize();
    double const us =
        1e3 * static_cast<double>(stop.milliseconds_since(start)) / static_cast<double>(launches);
    microseconds.push_back(us);
    state.SetIterationTime(1e-6 * us);
  }
  std::sort(microseconds.begin(), microseconds.end());
  double const median = microseconds[microseconds.size() / 2];
  state.counters["median_us"] = median;
  state.counters["p10_us"] = microseconds[microseconds.size() / 10];
  state.counters["p90_us"] = microseconds[microseconds.size() * 9 / 10];
  state.counters["GB/s"] = static_cast<double>(arrays.bytes()) / median * 1e-3;
  state.counters["sets"] = static_cast<double>(arrays.sets());
}

}  // namespace bench_support
