// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics beside prometheus-cpp, where it is installed: counting, observing, and the text of 1,000
// series, half of them counters, half gauges with a fraction.
#include <benchmark/benchmark.h>

#include <warpwright/observe/metrics.hpp>

#include <string>
#include <vector>

#if WARPWRIGHT_BENCH_PROMETHEUS
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#endif

namespace ww = warpwright;

namespace {

std::vector<double> const latency_bounds{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
                                         5e-2, 0.1,    0.25, 0.5,  1,      2.5,  5,    10};

void counter_add(benchmark::State& state) {
  static ww::metrics_page page;
  static ww::metric_counter const counter = page.counter("bench_total", "Bench.");
  for (auto _ : state) counter.add();
}
BENCHMARK(counter_add)->Threads(1)->Threads(16)->UseRealTime();

void histogram_observe(benchmark::State& state) {
  static ww::metrics_page page;
  static ww::metric_histogram const latency = page.histogram("bench", "Bench.", latency_bounds);
  double value = 1e-4;
  for (auto _ : state) {
    latency.observe(value);
    value = value < 10 ? value * 1.37 : 1e-4;
  }
}
BENCHMARK(histogram_observe)->Threads(1)->Threads(16)->UseRealTime();

void text_of_1000_series(benchmark::State& state) {
  ww::metrics_page page;
  for (int i = 0; i < 500; ++i) {
    std::string const key = std::to_string(i);
    page.counter("bench_total", "B.", {{"key", key.c_str()}}).add(static_cast<std::uint64_t>(i));
    page.gauge("bench", "B.", {{"key", key.c_str()}}).set(i * 0.137);
  }
  std::string text;
  for (auto _ : state) {
    text.clear();
    page.to_prometheus(text);
  }
  benchmark::DoNotOptimize(text.data());
}
BENCHMARK(text_of_1000_series)->Unit(benchmark::kMicrosecond);

#if WARPWRIGHT_BENCH_PROMETHEUS
void prometheus_counter_add(benchmark::State& state) {
  static prometheus::Counter counter;
  for (auto _ : state) counter.Increment();
}
BENCHMARK(prometheus_counter_add)->Threads(1)->Threads(16)->UseRealTime();

void prometheus_histogram_observe(benchmark::State& state) {
  static prometheus::Histogram latency{latency_bounds};
  double value = 1e-4;
  for (auto _ : state) {
    latency.Observe(value);
    value = value < 10 ? value * 1.37 : 1e-4;
  }
}
BENCHMARK(prometheus_histogram_observe)->Threads(1)->Threads(16)->UseRealTime();

void prometheus_text_of_1000_series(benchmark::State& state) {
  prometheus::Registry registry;
  auto& counters = prometheus::BuildCounter().Name("bench_total").Help("B.").Register(registry);
  auto& gauges = prometheus::BuildGauge().Name("bench").Help("B.").Register(registry);
  for (int i = 0; i < 500; ++i) {
    counters.Add({{"key", std::to_string(i)}}).Increment(i);
    gauges.Add({{"key", std::to_string(i)}}).Set(i * 0.137);
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(prometheus::TextSerializer{}.Serialize(registry.Collect()));
  }
}
BENCHMARK(prometheus_text_of_1000_series)->Unit(benchmark::kMicrosecond);
#endif

}  // namespace
