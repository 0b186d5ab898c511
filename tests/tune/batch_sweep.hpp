// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a tune of a real workload is compared with: an exhaustive sweep, single calls of one size,
// the peak of one size.
#pragma once

#include <warpwright/measure/measure.hpp>
#include <warpwright/measure/sample_summary.hpp>
#include <warpwright/memory/adaptors/statistics.hpp>
#include <warpwright/memory/resource_ref.hpp>
#include <warpwright/tune/tuning_pool.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace test_support {

namespace ww = warpwright;

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Multiples in steps of a factor, powers of two, and both ends.
inline std::vector<std::size_t> sweep_sizes(std::size_t last, std::size_t multiple, double factor) {
  std::vector<std::size_t> sizes{last / multiple * multiple};
  for (double x = static_cast<double>(multiple); x < static_cast<double>(last); x *= factor) {
    sizes.push_back(static_cast<std::size_t>(x) / multiple * multiple);
  }
  for (std::size_t power = 1; power < last; power *= 2) {
    if (power % multiple == 0) sizes.push_back(power);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

struct sweep_result {
  std::vector<std::size_t> sizes;
  std::vector<double> items_per_second;  // of the median of all turns
  double elapsed_seconds = 0.0;

  [[nodiscard]] double best() const {
    return *std::max_element(items_per_second.begin(), items_per_second.end());
  }
  [[nodiscard]] std::size_t best_batch() const {
    auto const at = std::max_element(items_per_second.begin(), items_per_second.end());
    return sizes[static_cast<std::size_t>(at - items_per_second.begin())];
  }
  [[nodiscard]] double rate(std::size_t batch) const {
    auto const at = std::find(sizes.begin(), sizes.end(), batch);
    return at == sizes.end() ? 0.0 : items_per_second[static_cast<std::size_t>(at - sizes.begin())];
  }
};

// Measures all sizes in turns, so that a change of the clock rate affects all of them, each turn in
// another order, since what ran before decides how much power there is.
// @param sample_seconds  the least time of one sample: calls back to back
template <class Workload>
sweep_result sweep(ww::stream_ref stream, Workload& workload, ww::resource_ref memory,
                   std::vector<std::size_t> const& sizes, std::size_t turns,
                   double sample_seconds) {
  auto const begin = std::chrono::steady_clock::now();
  ww::event_stopwatch stopwatch;
  auto const time = [&](std::size_t batch, std::size_t repeats) {
    auto const call = [&] { workload(batch, stream, memory); };
    return stopwatch(stream, call, repeats);
  };
  std::vector<std::size_t> repeats;
  for (std::size_t const batch : sizes) {
    time(batch, 1);  // libraries load code in their first call
    double const one = time(batch, 3) / 3.0;
    repeats.push_back(one > 0.0 ? 1 + static_cast<std::size_t>(sample_seconds / one) : 1);
  }
  std::vector<std::vector<double>> seconds(sizes.size());
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::minstd_rand random{1};
  for (std::size_t turn = 0; turn < turns; ++turn) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t const i : order) {
      time(sizes[i], 1);  // what the size before left in the pool and in caches
      seconds[i].push_back(time(sizes[i], repeats[i]) / static_cast<double>(repeats[i]));
    }
  }
  sweep_result result;
  result.sizes = sizes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    double const median = ww::summarize(seconds[i]).median_seconds;
    result.items_per_second.push_back(static_cast<double>(sizes[i]) / median);
  }
  result.elapsed_seconds = seconds_since(begin);
  return result;
}

// The latencies of single calls on an idle device.
template <class Workload>
std::vector<double> latencies(ww::stream_ref stream, Workload& workload, ww::resource_ref memory,
                              std::size_t batch, std::size_t calls) {
  ww::event_stopwatch stopwatch;
  auto const call = [&] { workload(batch, stream, memory); };
  for (int i = 0; i < 3; ++i) stopwatch(stream, call, 1);
  std::vector<double> seconds;
  seconds.reserve(calls);
  for (std::size_t i = 0; i < calls; ++i) seconds.push_back(stopwatch(stream, call, 1));
  return seconds;
}

// The peak of one size, not counted by the pool itself.
template <class Workload>
std::size_t measured_peak(ww::stream_ref stream, Workload& workload, ww::tuning_pool& pool,
                          std::size_t batch) {
  ww::statistics_adaptor<ww::tuning_pool> counted{pool};
  workload(batch, stream, counted);
  stream.synchronize();
  return static_cast<std::size_t>(counted.statistics().live_peak_bytes);
}

}  // namespace test_support
