// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/launch.hpp>
#include <warpwright/measure/compare.hpp>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure/simulated_noise.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

ww::measure_options on(simulated_clock& clock) {
  return ww::measure_options{}.sample_seconds(0.0).clock(clock.ref());
}

// Two callables with a common disturbance and noise of their own.
template <typename Noise>
struct pair_of_calls {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  noise_source& random;
  Noise disturbance;
  double own_deviation;
  double ratio;  // time of the second / time of the first

  void run(double seconds) {
    double const own = 1.0 + own_deviation * normal(random);
    clock.advance(2e-3 * seconds * disturbance.next(random) * own);
  }
  ww::comparison compare(ww::stream const& stream) {
    disturbance.begin(random);
    auto const first = [&] { run(1.0); };
    auto const second = [&] { run(ratio); };
    return ww::compare_with(stopwatch, stream, on(clock), first, second);
  }
};

struct outcomes {
  int holds = 0;
  int converged = 0;
  int faster = 0;  // the second
  int slower = 0;
  int none = 0;
};

template <typename Noise>
outcomes compare_often(Noise const& disturbance, double own_deviation, double ratio, int trials,
                       std::uint64_t seed) {
  ww::stream const stream;
  noise_source random{seed};
  outcomes o;
  for (int trial = 0; trial < trials; ++trial) {
    pair_of_calls<Noise> calls{
        {}, simulated_stopwatch{calls.clock}, random, disturbance, own_deviation, ratio};
    auto const c = calls.compare(stream);
    auto const r = c.ratio(1, 0);
    if (r.converged()) ++o.converged;
    if (r.converged() && r.low <= ratio && ratio <= r.high) ++o.holds;
    auto const verdict = c.verdict(1, 0);
    if (verdict == ww::difference::faster) ++o.faster;
    if (verdict == ww::difference::slower) ++o.slower;
    if (verdict == ww::difference::inconclusive) ++o.none;
  }
  return o;
}

struct add_one {
  float* data;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { data[i] += 1.0F; }
};

}  // namespace

TEST_CASE("callables are sampled in the turns A B C C B A", "[tune][compare]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  std::string order;
  auto const a = [&] { order += 'a', clock.advance(1e-3); };
  auto const b = [&] { order += 'b', clock.advance(2e-3); };
  auto const c = [&] { order += 'c', clock.advance(3e-3); };
  auto const r = ww::compare_with(stopwatch, s,
                                  on(clock).warmup_calls(1).min_samples(2).max_samples(2), a, b, c);
  // The warm-up of each, a discarded turn, and two turns.
  CHECK(order ==
        "abc"
        "abccba"
        "abccba"
        "abccba");
  REQUIRE(r.samples.size() == 3);
  CHECK(r.samples[0].size() == 2);
  CHECK(std::fabs(r.samples[1][1] / 2e-3 - 1.0) < 1e-9);
  CHECK(r.calls_per_sample == std::vector<std::size_t>{1, 1, 1});
  CHECK(r.reason == ww::stop_reason::out_of_samples);
  CHECK(std::fabs(r.elapsed_seconds - 0.042) < 1e-9);
}

TEST_CASE("of three callables the fastest is found, with the ratios", "[tune][compare]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  noise_source random{4};
  auto const call = [&](double seconds) {
    return [&clock, &random, seconds] { clock.advance(seconds * (1.0 + 0.005 * normal(random))); };
  };
  auto const r =
      ww::compare_with(stopwatch, s, on(clock), call(2.0e-3), call(1.9e-3), call(2.1e-3));
  CHECK(r.fastest() == 1);
  CHECK(r.verdict(1, 0) == ww::difference::faster);
  CHECK(r.verdict(0, 1) == ww::difference::slower);
  CHECK(r.verdict(0, 2) == ww::difference::faster);
  CHECK(r.verdict(2, 2) == ww::difference::inconclusive);
  auto const ratio = r.ratio(1, 0);
  CHECK(ratio.converged());
  CHECK(ratio.low <= 0.95);
  CHECK(ratio.high >= 0.95);
  CHECK(ratio.high - ratio.low <= 0.02);
  CHECK(r.reason == ww::stop_reason::precision_reached);

  // Of two equal ones neither is.
  auto const equal = ww::compare_with(stopwatch, s, on(clock), call(2e-3), call(3e-3), call(2e-3));
  CHECK(equal.fastest() == ww::comparison::none);
  CHECK(equal.verdict(1, 0) == ww::difference::slower);
}

TEST_CASE("short calls are repeated, each as often as it needs", "[tune][compare]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  std::vector<std::size_t> indices;
  auto const a = [&] { clock.advance(1e-5); };
  auto const b = [&](std::size_t index) {
    indices.push_back(index);
    clock.advance(1e-4);
  };
  auto const r = ww::compare_with(stopwatch, s, on(clock).sample_seconds(2e-3).inputs(3), a, b);
  CHECK(r.calls_per_sample[0] >= 200);
  CHECK(r.calls_per_sample[1] >= 20);
  CHECK(r.calls_per_sample[1] <= 24);
  CHECK(r.fastest() == 0);
  for (std::size_t i = 0; i < indices.size(); ++i) REQUIRE(indices[i] == i % 3);
}

TEST_CASE("equal callables show no difference, whatever disturbs both", "[tune][compare]") {
  auto const check_equal = [](auto const& disturbance, double deviation, char const* name) {
    auto const o = compare_often(disturbance, deviation, 1.0, 500, 61);
    INFO(name << ", seed 61: converged " << o.converged << ", holds " << o.holds << ", none "
              << o.none);
    CHECK(o.none >= 475);
    CHECK(o.holds * 100 >= 93 * o.converged);
    CHECK(o.converged >= 400);
  };
  check_equal(normal_noise{0.0}, 0.002, "clean");
  check_equal(normal_noise{0.0}, 0.05, "noisy");
  check_equal(drift_noise{1e-4, 0.0}, 0.005, "drift");
  check_equal(correlated_noise{0.95, 0.02}, 0.005, "correlated");
  check_equal(phase_noise{20.0, 0.25}, 0.005, "phases");
}

TEST_CASE("a difference of 3 % is shown, and its interval holds it", "[tune][compare]") {
  auto const check_faster = [](auto const& disturbance, double deviation, char const* name) {
    auto const o = compare_often(disturbance, deviation, 0.97, 500, 62);
    INFO(name << ", seed 62: converged " << o.converged << ", holds " << o.holds << ", faster "
              << o.faster);
    CHECK(o.faster >= 450);
    CHECK(o.slower == 0);
    CHECK(o.holds * 100 >= 93 * o.converged);
  };
  check_faster(normal_noise{0.0}, 0.002, "clean");
  check_faster(normal_noise{0.0}, 0.05, "noisy");
  check_faster(drift_noise{1e-4, 0.0}, 0.005, "drift");
  check_faster(correlated_noise{0.95, 0.02}, 0.005, "correlated");
  check_faster(phase_noise{20.0, 0.25}, 0.005, "phases");
}

TEST_CASE("a ratio that drifts is unsteady, and a difference that exceeds the drift is shown",
          "[tune][compare]") {
  auto const drifts_from = [](double first) {
    simulated_clock clock;
    simulated_stopwatch stopwatch{clock};
    ww::stream const s;
    noise_source random{5};
    double slower = first;
    auto const a = [&] { clock.advance(2e-3 * (1.0 + 0.005 * normal(random))); };
    auto const b = [&] { clock.advance(2e-3 * (slower += 5e-4) * (1.0 + 0.005 * normal(random))); };
    return ww::compare_with(stopwatch, s, on(clock), b, a);
  };
  auto const none = drifts_from(1.0);
  CHECK(none.ratio(0, 1).stability == ww::sample_stability::drifting);
  CHECK(none.verdict(0, 1) == ww::difference::inconclusive);
  CHECK(none.reason == ww::stop_reason::out_of_time);

  auto const slower = drifts_from(1.5);
  CHECK_FALSE(slower.ratio(0, 1).converged());
  CHECK(slower.verdict(0, 1) == ww::difference::slower);
  CHECK(slower.verdict(1, 0) == ww::difference::faster);
}

TEST_CASE("an unsteady ratio that every turn shows is a difference, with a wide interval",
          "[tune][compare]") {
  // The plain way is in phases of 30 turns between 2 and 4 times as long.
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  noise_source random{6};
  phase_noise phases{60.0, 0.5};
  phases.begin(random);
  auto const plain = [&] { clock.advance(2e-3 * (phases.next(random) > 1.15 ? 4.0 : 2.0)); };
  auto const ours = [&] { clock.advance(2e-3 * (1.0 + 0.005 * normal(random))); };
  auto const c = ww::compare_with(stopwatch, s, on(clock), ours, plain);
  auto const r = c.ratio(0, 1);
  CHECK_FALSE(r.converged());
  CHECK(r.verdict() == ww::difference::faster);
  CHECK(r.high - r.low > 0.1);
  CHECK(c.fastest() == 0);
  INFO(ww::to_text(r));
  CHECK(ww::to_text(r).find("faster: ") == 0);
  CHECK(ww::to_text(r).find("), unsteady") != std::string::npos);
}

TEST_CASE("six turns on one side show a difference, five do not", "[tune][compare]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  noise_source random{7};
  auto const a = [&] { clock.advance(1.0 + 0.01 * normal(random)); };
  auto const b = [&] { clock.advance(2.0 + 0.02 * normal(random)); };
  auto const five = ww::compare_with(stopwatch, s, on(clock).max_samples(5).min_samples(5), a, b);
  CHECK(five.samples[0].size() == 5);
  CHECK(five.verdict(0, 1) == ww::difference::inconclusive);
  CHECK(five.ratio(0, 1).low == 0.0);
  CHECK(std::isinf(five.ratio(0, 1).high));
  CHECK(std::fabs(five.ratio(0, 1).median / 0.5 - 1.0) < 0.05);
  CHECK(ww::to_text(five.ratio(0, 1)) == "no difference shown, few turns");

  // However long the calls take, there are six.
  auto const six = ww::compare_with(stopwatch, s, on(clock), a, b);
  CHECK(six.samples[0].size() == 6);
  CHECK(six.reason == ww::stop_reason::out_of_time);
  CHECK(six.verdict(0, 1) == ww::difference::faster);
  CHECK(six.ratio(0, 1).stability == ww::sample_stability::too_few_samples);
}

TEST_CASE("ratios have texts", "[tune][compare]") {
  ww::time_ratio r;
  r.median = 0.5;
  r.low = 0.4;
  r.high = 0.625;
  r.stability = ww::sample_stability::converged;
  CHECK(ww::to_text(r) == "faster: 2.00x (1.60 to 2.50)");
  r.stability = ww::sample_stability::drifting;
  CHECK(ww::to_text(r) == "faster: 2.00x (1.60 to 2.50), unsteady");
  r.high = 1.0;
  CHECK(ww::to_text(r) == "no difference shown: 0.50x (0.40 to 1.00), unsteady");
  r.median = 2.0;
  r.low = 1.5;
  r.high = 3.0;
  r.stability = ww::sample_stability::too_few_samples;
  CHECK(ww::to_text(r) == "slower: 2.00x (1.50 to 3.00), few turns");
}

TEST_CASE("a comparison ends by time, or by a predicate", "[tune][compare]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  int calls = 0;
  auto const a = [&] { ++calls, clock.advance(1e-2); };
  auto const timed = ww::compare_with(stopwatch, s, on(clock).max_seconds(0.5), a, a);
  CHECK(timed.reason == ww::stop_reason::out_of_time);
  CHECK(timed.elapsed_seconds <= 0.55);
  CHECK_FALSE(timed.ratio(0, 1).converged());
  CHECK(timed.verdict(0, 1) == ww::difference::inconclusive);

  for (int const last : {0, 1, 5, 8, 40}) {
    calls = 0;
    auto const asked = [&] { return calls >= last; };
    auto const r = ww::compare_with(stopwatch, s, on(clock).stop_when(asked), a, a);
    CAPTURE(last);
    CHECK(calls == last);
    CHECK(r.reason == ww::stop_reason::interrupted);
    CHECK(r.samples[0].size() == r.samples[1].size());
    CHECK(r.verdict(0, 1) == ww::difference::inconclusive);
    CHECK(r.fastest() == ww::comparison::none);
  }
}

TEST_CASE("turns of less than min_seconds are not converged, and show a difference all the same",
          "[tune][compare]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const a = [&] { clock.advance(1e-4); };
  auto const b = [&] { clock.advance(2e-4); };
  auto const options = on(clock).max_samples(100);
  auto const early = ww::compare_with(stopwatch, s, options, a, b);
  CHECK_FALSE(early.long_enough);
  CHECK(early.ratio(0, 1).stability == ww::sample_stability::too_few_samples);
  CHECK(early.verdict(0, 1) == ww::difference::faster);
  auto const enough = ww::compare_with(stopwatch, s, options.min_seconds(0.0), a, b);
  CHECK(enough.ratio(0, 1).converged());
  CHECK(enough.verdict(0, 1) == ww::difference::faster);
}

TEST_CASE("calls that take no time are equal", "[tune][compare]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const nothing = [] {};
  auto const r = ww::compare_with(stopwatch, s, on(clock).min_seconds(0.0), nothing, nothing);
  CHECK(r.ratio(0, 1).median == 1.0);
  CHECK(r.verdict(0, 1) == ww::difference::inconclusive);
}

TEST_CASE("wrong arguments of comparisons throw", "[tune][compare]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  auto const a = [&] { clock.advance(1e-2); };
  CHECK_THROWS_AS(ww::compare_with(stopwatch, s, on(clock).min_samples(0), a, a),
                  std::invalid_argument);
  CHECK(stopwatch.calls() == 0);
  auto const r = ww::compare_with(stopwatch, s, on(clock).min_samples(1).max_samples(1), a, a);
  CHECK_THROWS_WITH(r.ratio(0, 2), contains("candidate 2 of 2"));
  CHECK_THROWS_WITH(r.verdict(3, 0), contains("candidate 3 of 2"));
  CHECK(ww::comparison{}.fastest() == ww::comparison::none);

  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal), "begin");
  CHECK_THROWS_WITH(ww::compare(s, a, a), contains("capturing"));
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamEndCapture(s.get(), &graph), "end");
  if (graph != nullptr) ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

TEST_CASE("an error that is left pending is thrown, not compared", "[tune][compare]") {
  ww::stream const s;
  auto const works = [] {};
  auto const fails = [] { static_cast<void>(cudaSetDevice(12345)); };
  CHECK_THROWS_WITH(ww::compare(s, works, fails),
                    contains("the work of compare: cudaErrorInvalidDevice"));
  CHECK(cudaGetLastError() == cudaSuccess);
  fails();
  CHECK_THROWS_WITH(ww::compare(s, works, works), contains("a call before compare"));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("work on a stream is compared with events", "[tune][compare]") {
  ww::stream const s;
  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, sizeof(float) << 18U), "cudaMalloc");
  ww::check(cudaMemset(memory, 0, sizeof(float) << 18U), "cudaMemset");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  add_one const f{static_cast<float*>(memory)};
  auto const small = [&] { ww::for_each_index(s, 1U << 10U, f); };
  auto const large = [&] {
    for (int i = 0; i < 8; ++i) ww::for_each_index(s, 1U << 18U, f);
  };
  auto const options = ww::measure_options{}.sample_seconds(0.0).min_seconds(0.0).max_seconds(0.5);
  auto const c = ww::compare(s, options, small, large);
  CHECK(c.summaries[0].median_seconds < c.summaries[1].median_seconds);
  CHECK(s.done());
  ww::check(cudaFree(memory), "cudaFree");
}

TEST_CASE("differences have names", "[tune][compare]") {
  CHECK(std::string{ww::to_string(ww::difference::inconclusive)} == "no difference shown");
  CHECK(std::string{ww::to_string(ww::difference::faster)} == "faster");
  CHECK(std::string{ww::to_string(ww::difference::slower)} == "slower");
  CHECK(std::string{ww::to_string(static_cast<ww::difference>(9))} == "unknown");
}
