// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/launch.hpp>
#include <warpwright/tune/measure.hpp>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

#include "simulated_device.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using test_support::noise_source;
using test_support::simulated_clock;
using test_support::simulated_stopwatch;

namespace {

struct spin {
  float* data;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float x = data[i];
    for (int k = 0; k < 64; ++k) x = x * 0.5F + 1.0F;
    data[i] = x;
  }
};

struct device_floats {
  explicit device_floats(std::size_t count) {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, count * sizeof(float)), "cudaMalloc");
    data = static_cast<float*>(p);
    ww::check(cudaMemset(data, 0, count * sizeof(float)), "cudaMemset");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  device_floats(device_floats const&) = delete;
  device_floats& operator=(device_floats const&) = delete;
  ~device_floats() { ww::detail::discard(cudaFree(data)); }
  float* data = nullptr;
};

bool same(double a, double b) { return std::fabs(a - b) <= 1e-12 * (std::fabs(a) + std::fabs(b)); }

}  // namespace

TEST_CASE("samples are summarised by order statistics", "[tune][measure]") {
  CHECK(ww::summarize({}).count == 0);
  CHECK(ww::summarize({}).median_seconds == 0.0);

  auto const one = ww::summarize({3.0});
  CHECK(one.count == 1);
  CHECK(one.minimum_seconds == 3.0);
  CHECK(one.median_seconds == 3.0);
  CHECK(one.median_low_seconds == 3.0);
  CHECK(one.median_high_seconds == 3.0);
  CHECK(one.deviation_seconds == 0.0);
  CHECK(one.p99_seconds == 3.0);

  auto const few = ww::summarize({5.0, 1.0, 2.0, 100.0});
  CHECK(few.minimum_seconds == 1.0);
  CHECK(few.maximum_seconds == 100.0);
  CHECK(few.median_seconds == 3.5);
  CHECK(few.deviation_seconds == 2.0);   // of 1.5 1.5 2.5 96.5
  CHECK(few.median_low_seconds == 1.0);  // too few for a narrower interval
  CHECK(few.median_high_seconds == 100.0);

  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  auto const s = ww::summarize(hundred);
  CHECK(s.median_seconds == 50.5);
  CHECK(s.p99_seconds == 99.0);  // nearest rank
  CHECK(s.median_low_seconds == 40.0);
  CHECK(s.median_high_seconds == 61.0);
  CHECK(s.deviation_seconds == 25.0);
  CHECK(hundred.front() == 100.0);  // unchanged
}

TEST_CASE("the interval contains the median about 95 times of 100", "[tune][measure]") {
  std::uint64_t const seed = 20260131;
  INFO("seed " << seed);
  noise_source noise{seed};
  for (int const count : {7, 20, 41}) {
    int inside = 0;
    for (int trial = 0; trial < 2000; ++trial) {
      std::vector<double> samples;
      for (int i = 0; i < count; ++i) {
        double const u = noise.uniform();
        samples.push_back(u * u);  // skewed: the true median is a quarter
      }
      auto const s = ww::summarize(samples);
      if (s.median_low_seconds <= 0.25 && 0.25 <= s.median_high_seconds) ++inside;
    }
    CAPTURE(count, inside);
    CHECK(inside >= 1880);
    CHECK(inside <= 1999);
  }
}

TEST_CASE("short calls are repeated until a sample is long enough", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const call = [&] { clock.advance(1e-6); };
  auto const m =
      ww::measure(s, call, ww::measure_options{}.sample_seconds(1e-3).min_samples(5), stopwatch);
  CHECK(m.calls_per_sample >= 1000);
  CHECK(m.calls_per_sample <= 1200);
  CHECK(same(std::round(m.summary.median_seconds * 1e9), 1000.0));
  CHECK(m.converged);
  CHECK(m.samples.size() >= 5);

  // A call that is long enough is not repeated; the warm-up calls are extra.
  simulated_stopwatch fresh{clock};
  auto const slow = [&] { clock.advance(1e-2); };
  auto const once = ww::measure(
      s, slow, ww::measure_options{}.warmup_calls(4).min_samples(6).max_samples(6).precision(0.0),
      fresh);
  CHECK(once.calls_per_sample == 1);
  CHECK(once.samples.size() == 6);
  CHECK(fresh.calls() == 4 + 6);
}

TEST_CASE("sampling ends for a call that takes no time", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const call = [] {};
  auto const m = ww::measure(s, call, ww::measure_options{}.min_samples(3), stopwatch);
  CHECK(m.summary.median_seconds == 0.0);
  CHECK(m.converged);
}

TEST_CASE("sampling stops by precision, count or time", "[tune][measure]") {
  ww::stream const s;
  std::uint64_t const seed = 7;
  INFO("seed " << seed);

  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  noise_source noise{seed};
  auto const noisy = [&] { clock.advance(1e-2 * (1.0 + 0.2 * noise.uniform())); };
  auto const coarse = ww::measure(
      s, noisy, ww::measure_options{}.precision(0.10).max_samples(500).max_seconds(1e9), stopwatch);
  auto const fine = ww::measure(
      s, noisy, ww::measure_options{}.precision(0.01).max_samples(500).max_seconds(1e9), stopwatch);
  CHECK(coarse.converged);
  CHECK(fine.converged);
  CHECK(fine.samples.size() > coarse.samples.size());
  CHECK(std::fabs(fine.summary.median_seconds / 1.1e-2 - 1.0) < 0.02);

  auto const counted = ww::measure(
      s, noisy, ww::measure_options{}.precision(0.0).max_samples(12).max_seconds(1e9), stopwatch);
  CHECK(counted.samples.size() == 12);
  CHECK_FALSE(counted.converged);

  auto const timed = ww::measure(
      s, noisy, ww::measure_options{}.precision(0.0).max_samples(500).max_seconds(0.055),
      stopwatch);
  CHECK(timed.samples.size() >= 3);
  CHECK(timed.samples.size() <= 6);
  CHECK_FALSE(timed.converged);
}

TEST_CASE("setters of measure_options return a changed copy", "[tune][measure]") {
  constexpr ww::measure_options defaults;
  constexpr ww::measure_options changed = defaults.sample_seconds(1.0)
                                              .warmup_calls(2)
                                              .min_samples(3)
                                              .max_samples(4)
                                              .max_seconds(5.0)
                                              .precision(0.5);
  static_assert(changed.sample_seconds() == 1.0 && changed.warmup_calls() == 2 &&
                    changed.min_samples() == 3 && changed.max_samples() == 4 &&
                    changed.max_seconds() == 5.0 && changed.precision() == 0.5,
                "each setter changes its own member");
  static_assert(defaults.sample_seconds() == 2e-3 && defaults.min_samples() == 11,
                "the original is unchanged");
  CHECK(changed.precision(0.1).precision() == 0.1);
  CHECK(changed.precision() == 0.5);
}

TEST_CASE("options out of range throw", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const call = [] {};
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (auto const& options :
       {ww::measure_options{}.sample_seconds(-1.0), ww::measure_options{}.sample_seconds(nan),
        ww::measure_options{}.max_seconds(-1.0), ww::measure_options{}.precision(-0.1),
        ww::measure_options{}.min_samples(0),
        ww::measure_options{}.min_samples(9).max_samples(8)}) {
    CHECK_THROWS_AS(ww::measure(s, call, options, stopwatch), std::invalid_argument);
  }
  CHECK(stopwatch.calls() == 0);
}

TEST_CASE("work on a stream is measured with events", "[tune][measure]") {
  ww::stream const s;
  constexpr std::size_t count = 1 << 16;
  device_floats const x{count};
  auto const small = [&] { ww::for_each_index(s, count / 64, spin{x.data}); };
  auto const large = [&] {
    for (int i = 0; i < 24; ++i) ww::for_each_index(s, count, spin{x.data});
  };
  auto const options = ww::measure_options{}.sample_seconds(1e-3).max_seconds(0.3);
  auto const fast = ww::measure(s, small, options);
  auto const slow = ww::measure(s, large, options);
  CHECK(fast.summary.median_seconds > 0.0);
  CHECK(slow.summary.median_seconds > 3.0 * fast.summary.median_seconds);
  CHECK(fast.summary.minimum_seconds <= fast.summary.median_seconds);
  CHECK(fast.summary.median_low_seconds <= fast.summary.median_seconds);
  CHECK(fast.summary.median_high_seconds >= fast.summary.median_seconds);
  CHECK(s.done());
}

TEST_CASE("exceptions of the callable propagate", "[tune][measure]") {
  ww::stream const s;
  int calls = 0;
  auto const call = [&] {
    if (++calls == 5) throw std::runtime_error{"the fifth"};
  };
  CHECK_THROWS_WITH(ww::measure(s, call), contains("the fifth"));
  CHECK(cudaGetLastError() == cudaSuccess);
  s.synchronize();
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("failing event calls are reported with their name", "[tune][measure]") {
  ww::stream const s;
  auto const call = [] {};
  for (char const* const name : {"cudaEventCreateWithFlags", "cudaEventRecord",
                                 "cudaEventSynchronize", "cudaEventElapsedTime"}) {
    ww::testing::scoped_fault_plan const faults{
        ww::testing::fault_plan{}.fail(name, 2, cudaErrorInvalidResourceHandle)};
    CHECK_THROWS_WITH(ww::measure(s, call), contains(name));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}
#endif
