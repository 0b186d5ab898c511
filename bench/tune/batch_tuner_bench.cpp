// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of a tune compared with a loop over powers of two, in calls of the workload and in
// time of a simulated clock, and the throughput that each finds.
#include <benchmark/benchmark.h>

#include <warpwright/tune/batch_tuner.hpp>

namespace ww = warpwright;

namespace {

struct clock_stopwatch {
  double now = 0.0;
  std::size_t calls = 0;
  template <typename Call>
  double operator()(ww::stream_ref, Call const& call, std::size_t repeats) {
    double const begin = now;
    for (std::size_t i = 0; i < repeats; ++i) call();
    calls += repeats;
    return now - begin;
  }
};

double seconds(std::size_t batch) { return 1e-4 + 1e-6 * static_cast<double>(batch); }
double rate(std::size_t batch) { return static_cast<double>(batch) / seconds(batch); }

void tune(benchmark::State& state) {
  ww::stream const s;
  std::size_t chosen = 0;
  double device_seconds = 0.0;
  std::size_t calls = 0;
  for (auto _ : state) {
    clock_stopwatch clock;
    auto const r = ww::batch_tuner{}.range(1, 8192).tune_with(
        clock, s, [&](std::size_t batch, ww::stream_ref) { clock.now += seconds(batch); },
        ww::no_memory_probe{});
    chosen = r.chosen().batch;
    device_seconds = clock.now;
    calls = clock.calls;
  }
  state.counters["chosen"] = static_cast<double>(chosen);
  state.counters["share_of_best"] = rate(chosen) / rate(8192);
  state.counters["device_seconds"] = device_seconds;
  state.counters["calls"] = static_cast<double>(calls);
}
BENCHMARK(tune);

// The peer: fifty calls at every power of two; the fastest size is chosen, which is the largest.
void powers_of_two(benchmark::State& state) {
  ww::stream const s;
  std::size_t chosen = 0;
  double device_seconds = 0.0;
  std::size_t calls = 0;
  for (auto _ : state) {
    clock_stopwatch clock;
    double best = 0.0;
    for (std::size_t batch = 1; batch <= 8192; batch *= 2) {
      auto const call = [&] { clock.now += seconds(batch); };
      double const measured = 50.0 * static_cast<double>(batch) / clock(s, call, 50);
      if (measured > best) {
        best = measured;
        chosen = batch;
      }
    }
    device_seconds = clock.now;
    calls = clock.calls;
    benchmark::DoNotOptimize(chosen);
  }
  state.counters["chosen"] = static_cast<double>(chosen);
  state.counters["share_of_best"] = rate(chosen) / rate(8192);
  state.counters["device_seconds"] = device_seconds;
  state.counters["calls"] = static_cast<double>(calls);
}
BENCHMARK(powers_of_two);

}  // namespace
