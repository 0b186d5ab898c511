// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A simulated workload of which everything is known: its time, noise and memory by batch size, the
// sizes that it accepts, and what happens to the device meanwhile.
#pragma once

#include <warpwright/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>
#include <vector>

#include "measure/simulated_device.hpp"
#include "measure/simulated_noise.hpp"

namespace test_support {

// The time of one batch without noise.
enum class curve_kind { flat, affine, saturating, steps, cliff, peak };

struct workload_time {
  curve_kind kind = curve_kind::affine;
  double fixed = 1e-4;
  double item = 1e-6;
  double knee = 1000;  // of cliff, peak and saturating, items
  double wave = 132;   // of steps, items; the time of a step is item * wave
  std::function<double(std::size_t)> function{};  // another curve than these
  double operator()(std::size_t batch) const {
    if (function) return function(batch);
    double const b = static_cast<double>(batch);
    switch (kind) {
      case curve_kind::flat:
        return item * b;
      case curve_kind::affine:
        return fixed + item * b;
      case curve_kind::saturating:
        return b <= knee ? item * knee : item * b;
      case curve_kind::steps:
        return fixed + item * wave * std::ceil(b / wave);
      case curve_kind::cliff:
        return b <= knee ? fixed + item * b : 1.7 * (fixed + item * b);
      case curve_kind::peak:
        return b <= knee ? fixed + item * b : (fixed + item * knee) * std::pow(b / knee, 1.3);
    }
    return 0.0;
  }
};

struct slow_period {
  double begin;
  double end;
  double factor;
};

enum class memory_kind { linear, convex, granules };

class simulated_workload {
 public:
  explicit simulated_workload(std::uint64_t seed) : random{seed} {}

  noise_source random;
  simulated_clock clock;
  workload_time time;
  double jitter = 0.0;      // uniform, from 1 to 1 + jitter
  double slow_share = 0.0;  // of the calls that take 30 % longer
  double stall_rate = 0.0;  // of the calls that take three times as long
  // Pauses of the host, which add the same time to a call of any size.
  double pause_seconds = 0.0;
  double pauses_per_call = 0.0;
  double pauses_per_second = 0.0;  // of the calls' time
  double drift = 0.0;              // slower by this fraction, reached at drift_seconds
  double drift_seconds = 1.0;
  std::vector<slow_period> slow_periods;
  std::size_t valid_from = 1;
  std::size_t valid_to = ~std::size_t{0};
  bool invalid_is_memory = false;  // invalid sizes throw bad_alloc instead of runtime_error
  double random_failures = 0.0;    // of the calls
  memory_kind memory = memory_kind::linear;
  double base_bytes = 0.0;
  double item_bytes = 0.0;
  double grows_later = 0.0;  // from the fourth call of a size on, it takes more by this fraction
  double hog_begin = 0.0;    // another process has memory: above this size calls fail
  double hog_end = 0.0;
  std::size_t hog_above = 0;
  std::size_t limit = ~std::size_t{0};  // of a capped pool

  // What has happened.
  std::size_t peak = 0;
  std::size_t refused = 0;
  std::size_t calls = 0;
  std::size_t largest_need = 0;
  std::vector<std::size_t> over_budget;  // sizes run above the budget
  std::size_t budget = ~std::size_t{0};

  bool valid(std::size_t batch) const { return batch >= valid_from && batch <= valid_to; }
  double need(std::size_t batch, double growth) const {
    double const b = static_cast<double>(batch);
    double const line = (base_bytes + item_bytes * b) * growth;
    switch (memory) {
      case memory_kind::linear:
        return line;
      case memory_kind::convex:
        return line + item_bytes * growth * b * b / 2000.0;
      case memory_kind::granules:
        return std::ceil(line / 2097152.0) * 2097152.0;
    }
    return 0.0;
  }
  std::size_t need(std::size_t batch) const {
    return static_cast<std::size_t>(need(batch, 1.0 + grows_later));
  }
  double speed(double now) const {
    double factor = 1.0 + drift * std::min(1.0, now / drift_seconds);
    for (slow_period const& p : slow_periods) {
      if (now >= p.begin && now < p.end) factor *= p.factor;
    }
    return factor;
  }
  double noise() {
    double factor = 1.0;
    if (jitter > 0.0) factor += jitter * random.uniform();
    if (slow_share > 0.0 && random.uniform() < slow_share) factor *= 1.3;
    if (stall_rate > 0.0 && random.uniform() < stall_rate) factor *= 3.0;
    return factor;
  }

  double pause(double seconds) {
    double const rate = pauses_per_call + pauses_per_second * seconds;
    if (rate <= 0.0 || random.uniform() >= rate) return 0.0;
    return pause_seconds * (0.5 + random.uniform());
  }

  // One call.
  void operator()(std::size_t batch) {
    ++calls;
    if (batch != last_) {
      last_ = batch;
      calls_of_last_ = 0;
    }
    if (!valid(batch)) {
      if (invalid_is_memory) throw std::bad_alloc{};
      throw std::runtime_error{"the library does not accept this size"};
    }
    if (random_failures > 0.0 && random.uniform() < random_failures) throw std::bad_alloc{};
    if (batch > hog_above && clock.now() >= hog_begin && clock.now() < hog_end) {
      throw std::bad_alloc{};
    }
    ++calls_of_last_;
    take(static_cast<std::size_t>(need(batch, calls_of_last_ > 3 ? 1.0 + grows_later : 1.0)),
         batch);
    double const seconds = time(batch) * noise() * speed(clock.now());
    clock.advance(seconds + pause(seconds));
  }

  // The 99th percentile, or another one, of so many independent calls from now on.
  double later_quantile(std::size_t batch, double quantile, std::size_t count) {
    std::vector<double> all;
    for (std::size_t i = 0; i < count; ++i) {
      double const seconds = time(batch) * noise();
      all.push_back(seconds + pause(seconds));
    }
    auto const rank =
        static_cast<std::ptrdiff_t>(std::ceil(quantile * static_cast<double>(count))) - 1;
    std::nth_element(all.begin(), all.begin() + rank, all.end());
    return all[static_cast<std::size_t>(rank)] * speed(clock.now());
  }

 private:
  void take(std::size_t bytes, std::size_t batch) {
    if (bytes > limit) {
      ++refused;
      warpwright::memory_report report;
      report.requested_bytes = bytes;
      report.limit_bytes = limit;
      throw warpwright::out_of_memory{report};
    }
    if (bytes > peak) peak = bytes;
    if (bytes > largest_need) largest_need = bytes;
    if (bytes > budget) over_budget.push_back(batch);
  }
  std::size_t last_ = 0;
  std::size_t calls_of_last_ = 0;
};

// As a tuning_pool: the peak, a limit, refusals.
struct simulated_pool {
  simulated_workload& device;
  void reset() { device.peak = 0; }
  std::size_t peak_bytes() const { return device.peak; }
  void limit(std::size_t bytes) { device.limit = bytes; }
  std::size_t limit_bytes() const { return device.limit; }
  std::size_t refusals() const { return device.refused; }
  void trim() { ++trims; }
  int trims = 0;
};

// A probe of peaks, which cannot refuse anything.
struct simulated_probe {
  simulated_workload& device;
  void reset() { device.peak = 0; }
  std::size_t peak_bytes() const { return device.peak; }
};

}  // namespace test_support
