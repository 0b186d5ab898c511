// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/launch.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/measure/sm_clock.hpp>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

#include "measure/simulated_device.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using test_support::noise_source;
using test_support::simulated_clock;
using test_support::simulated_stopwatch;

// The sanitizers have these functions already, and nvcc would compile them for the device, too.
#if defined(__has_feature)
#define WARPWRIGHT_TEST_SANITIZED \
  (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WARPWRIGHT_TEST_SANITIZED 1
#else
#define WARPWRIGHT_TEST_SANITIZED 0
#endif
#define WARPWRIGHT_TEST_COUNTS (WARPWRIGHT_HOST_RUNTIME && !WARPWRIGHT_TEST_SANITIZED)
#if WARPWRIGHT_TEST_COUNTS
namespace {

std::atomic<std::size_t> allocations{0};

}  // namespace

void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

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

// Options whose limits of time count simulated time.
ww::measure_options on(simulated_clock& clock) { return ww::measure_options{}.clock(clock.ref()); }

bool same(double a, double b) { return std::fabs(a - b) <= 1e-12 * (std::fabs(a) + std::fabs(b)); }

}  // namespace

TEST_CASE("short calls are repeated until a sample is long enough", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const call = [&] { clock.advance(1e-6); };
  auto const m = ww::measure(
      s, call, on(clock).sample_seconds(1e-3).min_samples(5).min_seconds(0.0), stopwatch);
  CHECK(m.calls_per_sample >= 1000);
  CHECK(m.calls_per_sample <= 1200);
  CHECK(same(std::round(m.summary.median_seconds * 1e9), 1000.0));
  CHECK(m.reason == ww::stop_reason::precision_reached);
  CHECK(m.samples.size() == 5);

  // A call that is long enough is not repeated; the warm-up calls are extra.
  simulated_stopwatch fresh{clock};
  auto const slow = [&] { clock.advance(1e-2); };
  auto const once = ww::measure(
      s, slow, on(clock).warmup_calls(4).min_samples(6).max_samples(6).precision(0.0), fresh);
  CHECK(once.calls_per_sample == 1);
  CHECK(once.samples.size() == 6);
  CHECK(fresh.calls() == 4 + 6);
}

TEST_CASE("sampling ends for a call that takes no time", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const call = [] {};
  auto const m = ww::measure(s, call, on(clock).min_samples(3).min_seconds(0.0), stopwatch);
  CHECK(m.summary.median_seconds == 0.0);
  CHECK(m.reason == ww::stop_reason::precision_reached);
  CHECK(m.relative_half_width() == 0.0);

  auto const all = ww::measure(s, call, on(clock).max_samples(60), stopwatch);
  CHECK(all.samples.size() == 60);
}

TEST_CASE("the defaults take samples for half a second, and settle without noise",
          "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const call = [&] { clock.advance(1e-4); };
  auto const m = ww::measure(s, call, on(clock), stopwatch);
  CHECK(m.converged());
  CHECK(m.reason == ww::stop_reason::precision_reached);
  CHECK(m.elapsed_seconds >= 0.5);
  CHECK(m.elapsed_seconds <= 0.52);
  CHECK(m.warmup_samples == 0);
  CHECK(m.summary.median_low_seconds <= 1.000001e-4);
  CHECK(m.summary.median_high_seconds >= 0.999999e-4);
  CHECK(m.relative_half_width() <= 0.01 + 1e-9);
}

TEST_CASE("samples in less time than min_seconds, or fewer than 50, do not settle",
          "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const call = [&] { clock.advance(1e-3); };
  auto const options = on(clock).sample_seconds(0.0).max_samples(100);
  auto const brief = ww::measure(s, call, options, stopwatch);
  CHECK(brief.samples.size() == 100);
  CHECK(brief.stability == ww::sample_stability::too_few_samples);
  CHECK(brief.reason == ww::stop_reason::out_of_samples);
  CHECK(ww::measure(s, call, options.min_seconds(0.0), stopwatch).converged());
  auto const few = ww::measure(s, call, options.min_seconds(0.0).min_samples(49), stopwatch);
  CHECK(few.samples.size() == 49);
  CHECK(few.reason == ww::stop_reason::precision_reached);
  CHECK(few.stability == ww::sample_stability::too_few_samples);
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
      s, noisy, on(clock).precision(0.10).max_samples(2000).max_seconds(1e9), stopwatch);
  auto const fine = ww::measure(
      s, noisy, on(clock).precision(0.01).max_samples(2000).max_seconds(1e9), stopwatch);
  CHECK(coarse.reason == ww::stop_reason::precision_reached);
  CHECK(fine.reason == ww::stop_reason::precision_reached);
  CHECK(fine.relative_half_width() <= 0.01);
  CHECK(fine.samples.size() > coarse.samples.size());
  CHECK(std::fabs(fine.summary.median_seconds / 1.1e-2 - 1.0) < 0.02);

  auto const counted = ww::measure(
      s, noisy, on(clock).precision(0.0).min_samples(3).max_samples(12).max_seconds(1e9),
      stopwatch);
  CHECK(counted.samples.size() == 12);
  CHECK(counted.reason == ww::stop_reason::out_of_samples);
  CHECK(counted.stability == ww::sample_stability::too_few_samples);

  auto const timed = ww::measure(
      s, noisy, on(clock).precision(0.0).max_samples(500).max_seconds(0.075), stopwatch);
  CHECK(timed.samples.size() >= 3);
  CHECK(timed.samples.size() <= 6);
  CHECK(timed.reason == ww::stop_reason::out_of_time);
}

TEST_CASE("the limit of time counts warm-up, calibration and what the clock says",
          "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  double const begin = clock.now();
  // Ten warm-up calls would take 0.5 s: they end at a quarter of the limit.
  auto const slow = [&] { clock.advance(0.05); };
  auto const m = ww::measure(s, slow, on(clock).warmup_calls(10).max_seconds(0.4), stopwatch);
  CHECK(stopwatch.calls() == 2 + m.samples.size());
  CHECK(m.samples.size() == 6);
  CHECK(same(m.elapsed_seconds, clock.now() - begin));
  CHECK(m.elapsed_seconds <= 0.41);

  // The host's time counts, although the stopwatch does not see it.
  auto const hidden = [&](ww::stream_ref, auto& call, std::size_t) {
    call();
    clock.advance(0.1);
    return 1e-3;
  };
  auto const call = [] {};
  auto const h = ww::measure(s, call, on(clock).sample_seconds(0.0).max_seconds(1.05), hidden);
  CHECK(h.reason == ww::stop_reason::out_of_time);
  CHECK(h.samples.size() == 8);

  // A stopwatch whose clock is not that of the options counts as well.
  simulated_clock other;
  simulated_stopwatch watch{other};
  auto const aside = [&] { other.advance(0.05); };
  auto const a = ww::measure(s, aside, on(clock).max_seconds(0.39), watch);
  CHECK(a.reason == ww::stop_reason::out_of_time);
  CHECK(a.samples.size() == 6);
}

TEST_CASE("samples are discarded while calls become faster", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  std::uint64_t const seed = 8;
  INFO("seed " << seed);
  noise_source noise{seed};
  int calls = 0;
  auto const warming = [&] {
    clock.advance(1e-2 * (1.0 + std::exp(-0.2 * ++calls) + 0.001 * noise.uniform()));
  };
  auto const m = ww::measure(s, warming, on(clock), stopwatch);
  CHECK(m.warmup_samples >= 15);
  CHECK(m.warmup_samples <= 50);
  CHECK(m.samples.front() < 1.05e-2);
  CHECK(m.converged());

  // Calls that become ever faster: the warm-up ends at a quarter of max_seconds.
  double seconds = 1e-2;
  auto const ever = [&] { clock.advance(seconds *= 0.99); };
  double const begin = clock.now();
  auto const e = ww::measure(s, ever, on(clock).sample_seconds(0.0).max_seconds(0.4), stopwatch);
  CHECK(e.warmup_samples > 0);
  CHECK(e.warmup_samples <= 12);
  CHECK_FALSE(e.converged());
  CHECK(clock.now() - begin < 0.42);
}

TEST_CASE("calls that become faster after the calibration are repeated more often",
          "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  int calls = 0;
  auto const call = [&] { clock.advance(++calls <= 5 ? 2.5e-3 : 1e-4); };
  auto const m = ww::measure(s, call, on(clock).warmup_calls(3), stopwatch);
  CHECK(m.calls_per_sample >= 20);
  CHECK(m.converged());
  CHECK(std::fabs(m.summary.median_seconds / 1e-4 - 1.0) < 1e-6);
}

TEST_CASE("sampling ends when the noise has converged and the precision is out of reach",
          "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  std::uint64_t const seed = 9;
  INFO("seed " << seed);
  noise_source noise{seed};
  auto const noisy = [&] { clock.advance(2e-3 * (1.0 + noise.uniform())); };
  auto const options = on(clock).sample_seconds(0.0).max_samples(20000).max_seconds(60.0);
  auto const m = ww::measure(s, noisy, options.precision(0.0001), stopwatch);
  CHECK(m.reason == ww::stop_reason::noise_converged);
  CHECK(m.converged());
  CHECK(m.samples.size() < 2000);
  // Within reach: it goes on.
  CHECK(ww::measure(s, noisy, options.precision(0.01), stopwatch).reason ==
        ww::stop_reason::precision_reached);
  // 0 asks for all samples.
  CHECK(ww::measure(s, noisy, options.precision(0.0).max_samples(3000), stopwatch).reason ==
        ww::stop_reason::out_of_samples);
}

TEST_CASE("samples of a few distinct values settle", "[tune][measure]") {
  ww::stream const s;
  int calls = 0;
  auto const call = [] {};
  // As of a clock that counts in steps of half a microsecond.
  auto const coarse = [&](ww::stream_ref, auto& one, std::size_t) {
    one();
    return 2e-3 + (++calls % 64 == 0 ? 5e-7 : calls % 64 == 32 ? -5e-7 : 0.0);
  };
  auto const m = ww::measure(s, call, ww::measure_options{}.sample_seconds(0.0), coarse);
  CHECK(m.converged());
  CHECK(m.summary.median_low_seconds == 2e-3);
  CHECK(m.summary.median_high_seconds == 2e-3);
}

TEST_CASE("a predicate stops a measurement between samples", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  int calls = 0;
  auto const call = [&] {
    ++calls;
    clock.advance(1e-2);
  };
  for (int const last : {0, 1, 2, 3, 4, 10, 40}) {
    calls = 0;
    auto const asked = [&] { return calls >= last; };
    auto const m = ww::measure(s, call, on(clock).stop_when(asked), stopwatch);
    CAPTURE(last);
    CHECK(calls == last);
    CHECK(m.reason == ww::stop_reason::interrupted);
    CHECK_FALSE(m.converged());
    CHECK(m.samples.size() == static_cast<std::size_t>(last > 3 ? last - 3 : 0));
    CHECK(m.summary.count == m.samples.size());
  }
  CHECK_FALSE(ww::stop_predicate{}());
  auto const yes = [] { return true; };
  CHECK(ww::stop_predicate{yes}());
}

TEST_CASE("a callable with an index rotates through the inputs", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  std::vector<std::size_t> indices;
  auto const call = [&](std::size_t index) {
    indices.push_back(index);
    clock.advance(1e-3);
  };
  auto const options = on(clock).sample_seconds(0.0).max_samples(60);
  ww::measure(s, call, options.inputs(3), stopwatch);
  REQUIRE(indices.size() == 63);
  for (std::size_t i = 0; i < indices.size(); ++i) REQUIRE(indices[i] == i % 3);

  indices.clear();
  ww::measure(s, call, options, stopwatch);
  for (std::size_t const index : indices) REQUIRE(index == 0);
}

TEST_CASE("the host's time per call is that of enqueueing", "[tune][measure]") {
  simulated_clock clock;
  ww::stream const s;
  auto const call = [&] { clock.advance(2e-6); };
  // The device takes 10 us a call.
  auto const device = [&](ww::stream_ref, auto& one, std::size_t repeats) {
    for (std::size_t i = 0; i < repeats; ++i) one();
    clock.advance(8e-6 * static_cast<double>(repeats));
    return 1e-5 * static_cast<double>(repeats);
  };
  auto const m = ww::measure(s, call, on(clock), device);
  CHECK(m.calls_per_sample > 100);
  CHECK(std::fabs(m.summary.median_seconds / 1e-5 - 1.0) < 1e-6);
  CHECK(std::fabs(m.host.median_seconds / 2e-6 - 1.0) < 1e-2);  // the clock counts nanoseconds
  CHECK(m.host.count == m.samples.size());
}

TEST_CASE("samples of a throttled GPU are marked and left out", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  int calls = 0;
  std::size_t period = 4;  // every so many samples the rate falls
  double low_hz = 1.3e9;
  double hz = 0.0;
  struct clock_source {
    double& hz;
    int starts = 0;
    int stops = 0;
    void start(ww::stream_ref) { ++starts; }
    double stop(ww::stream_ref) {
      ++stops;
      return hz;
    }
  } source{hz};
  auto const call = [&] {
    bool const throttled = static_cast<std::size_t>(++calls) % period == 0;
    hz = throttled ? low_hz : 1.8e9;
    clock.advance(throttled ? 3e-3 : 2e-3);
  };
  auto const options = on(clock).sample_seconds(0.0);
  auto const m = ww::measure(s, call, options, stopwatch, source);
  CHECK(source.starts == calls);
  CHECK(source.stops == calls);
  CHECK(m.clock_hz.size() == m.samples.size());
  CHECK(m.throttled_samples >= m.samples.size() / 4);
  CHECK(m.throttled_samples <= m.samples.size() / 4 + 1);
  CHECK(m.throttled_excluded);
  CHECK(m.summary.count == m.samples.size() - m.throttled_samples);
  CHECK(same(m.summary.max_seconds, 2e-3));

  low_hz = 1.4e9;  // 78 % of the fastest
  auto const near = ww::measure(s, call, options, stopwatch, source);
  CHECK(near.throttled_samples == 0);
  CHECK_FALSE(near.throttled_excluded);
  CHECK(near.summary.count == near.samples.size());

  low_hz = 0.9e9;  // half of the samples: none is left out
  period = 2;
  auto const half =
      ww::measure(s, call, options.max_samples(100).precision(0.0), stopwatch, source);
  CHECK(half.throttled_samples == 50);
  CHECK_FALSE(half.throttled_excluded);
  CHECK(half.summary.count == 100);

  low_hz = 0.0;  // not known
  auto const unknown = ww::measure(s, call, options, stopwatch, source);
  CHECK(unknown.throttled_samples == 0);
}

#if WARPWRIGHT_TEST_COUNTS
TEST_CASE("nothing is allocated while samples are taken", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  noise_source noise{3};
  std::vector<std::size_t> counts;
  counts.reserve(2000);
  auto const call = [&] {
    counts.push_back(allocations.load());
    clock.advance(2e-3 * (1.0 + 0.5 * noise.uniform()));
  };
  ww::measure(s, call, on(clock).sample_seconds(0.0).precision(0.0), stopwatch);
  REQUIRE(counts.size() > 500);
  CHECK(counts.back() == counts.front());
}
#endif

TEST_CASE("setters of measure_options return a changed copy", "[tune][measure]") {
  constexpr ww::measure_options defaults;
  constexpr ww::measure_options changed = defaults.sample_seconds(1.0)
                                              .warmup_calls(2)
                                              .min_samples(3)
                                              .max_samples(4)
                                              .min_seconds(6.0)
                                              .max_seconds(5.0)
                                              .precision(0.5)
                                              .inputs(7);
  static_assert(changed.sample_seconds() == 1.0 && changed.warmup_calls() == 2 &&
                    changed.min_samples() == 3 && changed.max_samples() == 4 &&
                    changed.min_seconds() == 6.0 && changed.max_seconds() == 5.0 &&
                    changed.precision() == 0.5 && changed.inputs() == 7,
                "each setter changes its own member");
  static_assert(defaults.sample_seconds() == 2e-3 && defaults.min_samples() == 50 &&
                    defaults.min_seconds() == 0.5 && defaults.inputs() == 1,
                "the original is unchanged");
  CHECK(changed.precision(0.1).precision() == 0.1);
  CHECK(changed.precision() == 0.5);
  auto const yes = [] { return true; };
  CHECK(changed.stop_when(yes).stop_when()());
  CHECK_FALSE(changed.stop_when()());
}

TEST_CASE("options out of range throw", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const call = [] {};
  double const nan = std::numeric_limits<double>::quiet_NaN();
  auto const o = ww::measure_options{};
  for (auto const& options :
       {o.sample_seconds(-1.0), o.sample_seconds(nan), o.sample_seconds(1.0 / 0.0),
        o.min_seconds(-1.0), o.min_seconds(nan), o.max_seconds(-1.0), o.precision(-0.1),
        o.min_samples(0), o.min_samples(9).max_samples(8), o.max_samples(100001), o.inputs(0)}) {
    CHECK_THROWS_AS(ww::measure(s, call, options, stopwatch), std::invalid_argument);
  }
  CHECK_THROWS_WITH(ww::measure(s, call, o.max_samples(100001), stopwatch),
                    contains("max_samples 100001") && contains("at most 100000"));
  CHECK(stopwatch.calls() == 0);
}

TEST_CASE("a stopwatch that returns no time is reported at the caller's line", "[tune][measure]") {
  ww::stream const s;
  auto const call = [] {};
  double answer = 0.0;
  auto const broken = [&](ww::stream_ref, auto&, std::size_t) { return answer; };
  auto const o = ww::measure_options{}.max_samples(60);
  for (double const wrong :
       {std::numeric_limits<double>::quiet_NaN(), -1e-3, std::numeric_limits<double>::infinity()}) {
    answer = wrong;
    CHECK_THROWS_WITH(ww::measure(s, call, o, broken),
                      contains("measure_test.cpp") && contains("the stopwatch has returned"));
    auto const no_flush = [](ww::stream_ref) {};
    CHECK_THROWS_WITH(ww::measure_cold(s, no_flush, call, o, broken, ww::no_clock_source{}),
                      contains("measure_test.cpp") && contains("the stopwatch has returned"));
  }
}

TEST_CASE("a capturing stream is refused", "[tune][measure]") {
  ww::stream const s;
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal), "begin");
  CHECK_THROWS_WITH(ww::measure(s, [] {}), contains("capturing"));
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamEndCapture(s.get(), &graph), "end");
  if (graph != nullptr) ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

TEST_CASE("reasons and stabilities have names", "[tune][measure]") {
  CHECK(std::string{ww::to_string(ww::stop_reason::noise_converged)} == "noise converged");
  CHECK(std::string{ww::to_string(ww::stop_reason::interrupted)} == "interrupted");
  CHECK(std::string{ww::to_string(ww::sample_stability::converged)} == "converged");
  CHECK(std::string{ww::to_string(ww::sample_stability::correlated)} == "correlated");
  CHECK(std::string{ww::to_string(static_cast<ww::stop_reason>(99))} == "unknown");
  CHECK(std::string{ww::to_string(static_cast<ww::sample_stability>(99))} == "unknown");
}

TEST_CASE("work on a stream is measured with events", "[tune][measure]") {
  ww::stream const s;
  constexpr std::size_t count = 1 << 16;
  device_floats const x{count};
  auto const small = [&] { ww::for_each_index(s, count / 64, spin{x.data}); };
  auto const large = [&] {
    for (int i = 0; i < 24; ++i) ww::for_each_index(s, count, spin{x.data});
  };
  auto const options =
      ww::measure_options{}.sample_seconds(1e-3).min_seconds(0.05).max_seconds(0.3);
  auto const fast = ww::measure(s, small, options);
  auto const slow = ww::measure(s, large, options);
  CHECK(fast.summary.median_seconds > 0.0);
  CHECK(fast.host.median_seconds > 0.0);
  CHECK(slow.summary.median_seconds > 3.0 * fast.summary.median_seconds);
  CHECK(fast.summary.min_seconds <= fast.summary.median_seconds);
  CHECK(fast.summary.median_low_seconds <= fast.summary.median_seconds);
  CHECK(fast.summary.median_high_seconds >= fast.summary.median_seconds);
  CHECK(s.done());
}

TEST_CASE("cold calls are flushed one by one, and flushing does not count", "[tune][measure]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  std::size_t flushes = 0;
  std::vector<std::size_t> indices;
  auto const flush = [&](ww::stream_ref) {
    ++flushes;
    clock.advance(9e-5);
  };
  auto const call = [&](std::size_t index) {
    if (flushes != indices.size() + 1) FAIL("not flushed before the call");
    indices.push_back(index);
    clock.advance(1e-5);
  };
  ww::no_clock_source const no_clock;
  auto const m = ww::measure_cold(s, flush, call, on(clock).inputs(2), stopwatch, no_clock);
  CHECK(std::fabs(m.summary.median_seconds / 1e-5 - 1.0) < 1e-6);
  CHECK(m.converged());
  CHECK(flushes == stopwatch.calls());
  CHECK(indices[1] == 1);
  CHECK(indices[2] == 0);
  // 2 ms of flushes and calls together.
  CHECK(m.calls_per_sample >= 20);
  CHECK(m.calls_per_sample <= 24);
  CHECK(m.elapsed_seconds >= 0.5);
  CHECK(m.elapsed_seconds <= 0.6);
}

TEST_CASE("a flush overwrites twice the size of the L2 cache", "[tune][measure]") {
  ww::stream const s;
  ww::l2_flush flush;
  int l2_bytes = 0;
  ww::check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, 0), "cudaDeviceGetAttribute");
  CHECK(flush.size_bytes() == 2 * static_cast<std::size_t>(l2_bytes));
  flush(s);
  ww::l2_flush moved{std::move(flush)};
  CHECK(flush.size_bytes() == 0);
  flush(s);  // nothing
  CHECK(moved.size_bytes() == 2 * static_cast<std::size_t>(l2_bytes));
  device_floats const x{256};
  auto const call = [&] { ww::for_each_index(s, 256, spin{x.data}); };
  auto const m = ww::measure_cold(
      s, moved, call,
      ww::measure_options{}.sample_seconds(0.0).min_samples(3).max_samples(3).warmup_calls(1));
  CHECK(m.samples.size() == 3);
  CHECK(m.calls_per_sample == 1);
  CHECK(m.summary.median_seconds > 0.0);
  s.synchronize();
}

TEST_CASE("the clock of the multiprocessors is read around samples", "[tune][measure]") {
  ww::stream const s;
  ww::sm_clock clock;
  ww::event_stopwatch stopwatch;
  device_floats const x{1 << 16};
  auto const call = [&] { ww::for_each_index(s, 1 << 16, spin{x.data}); };
  auto const options = ww::measure_options{}.min_samples(5).max_samples(5);
  auto const m = ww::measure(s, call, options, stopwatch, clock);
  REQUIRE(m.clock_hz.size() == 5);
  for (double const hz : m.clock_hz) {
#if WARPWRIGHT_HOST_RUNTIME
    CHECK(hz == 0.0);  // not a GPU
#else
    CHECK((hz == 0.0 || (hz > 1e8 && hz < 1e10)));
#endif
  }
}

TEST_CASE("a clock rate needs two readings of one multiprocessor", "[tune][measure]") {
  using reading = ww::detail::sm_clock_reading;
  CHECK(ww::detail::sm_clock_rate(reading{1000, 0, 3}, reading{4000, 2000, 3}) == 1.5e9);
  CHECK(ww::detail::sm_clock_rate(reading{1000, 0, 3}, reading{4000, 2000, 4}) == 0.0);
  CHECK(ww::detail::sm_clock_rate(reading{4000, 0, 3}, reading{1000, 2000, 3}) == 0.0);
  CHECK(ww::detail::sm_clock_rate(reading{1000, 2000, 3}, reading{4000, 2000, 3}) == 0.0);
}

TEST_CASE("an error that is left pending is thrown, not measured", "[tune][measure]") {
  ww::stream const s;
  auto const fails = [] { static_cast<void>(cudaSetDevice(12345)); };
  CHECK_THROWS_WITH(ww::measure(s, fails), contains("the work of measure: cudaErrorInvalidDevice"));
  CHECK(cudaGetLastError() == cudaSuccess);
  auto const flush = [](ww::stream_ref) {};
  CHECK_THROWS_WITH(ww::measure_cold(s, flush, fails),
                    contains("the work of measure_cold: cudaErrorInvalidDevice"));
  CHECK(cudaGetLastError() == cudaSuccess);

  // An error from before is not attributed to the work.
  fails();
  CHECK_THROWS_WITH(ww::measure(s, [] {}), contains("a call before measure"));
  CHECK(cudaGetLastError() == cudaSuccess);
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
        ww::testing::fault_plan{}.fail(name, 2, cudaErrorUnknown)};
    CHECK_THROWS_WITH(ww::measure(s, call), contains(name));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}
#endif
