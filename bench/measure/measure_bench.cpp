// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// measure() compared with the same loop over events written by hand: the cost of the statistics.
#include <benchmark/benchmark.h>

#include <warpwright/core/launch.hpp>
#include <warpwright/measure/measure.hpp>

namespace ww = warpwright;

namespace {

struct nothing {
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {}
};

constexpr std::size_t samples = 50;

void one_sample(benchmark::State& state) {
  ww::stream const s;
  ww::event_stopwatch stopwatch;
  auto call = [&] { ww::for_each_index(s, 256, nothing{}); };
  for (auto _ : state) benchmark::DoNotOptimize(stopwatch(s, call, 1));
}
BENCHMARK(one_sample);

void raw_one_sample(benchmark::State& state) {
  ww::stream const s;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  ww::check(cudaEventCreate(&begin), "cudaEventCreate");
  ww::check(cudaEventCreate(&end), "cudaEventCreate");
  for (auto _ : state) {
    float milliseconds = 0.0F;
    cudaEventRecord(begin, s.get());
    ww::for_each_index(s, 256, nothing{});
    cudaEventRecord(end, s.get());
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&milliseconds, begin, end);
    benchmark::DoNotOptimize(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}
BENCHMARK(raw_one_sample);

// Fifty samples of one call each, with all statistics.
void measure_fifty(benchmark::State& state) {
  ww::stream const s;
  auto const options = ww::measure_options{}
                           .sample_seconds(0.0)
                           .warmup_calls(1)
                           .min_samples(samples)
                           .max_samples(samples)
                           .precision(0.0);
  auto const call = [&] { ww::for_each_index(s, 256, nothing{}); };
  for (auto _ : state) {
    benchmark::DoNotOptimize(ww::measure(s, call, options).summary.median_seconds);
  }
}
BENCHMARK(measure_fifty);

void raw_fifty(benchmark::State& state) {
  ww::stream const s;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  ww::check(cudaEventCreate(&begin), "cudaEventCreate");
  ww::check(cudaEventCreate(&end), "cudaEventCreate");
  for (auto _ : state) {
    float total = 0.0F;
    for (std::size_t i = 0; i < samples + 1; ++i) {  // one for the warm-up
      float milliseconds = 0.0F;
      cudaEventRecord(begin, s.get());
      ww::for_each_index(s, 256, nothing{});
      cudaEventRecord(end, s.get());
      cudaEventSynchronize(end);
      cudaEventElapsedTime(&milliseconds, begin, end);
      total += milliseconds;
    }
    benchmark::DoNotOptimize(total);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}
BENCHMARK(raw_fifty);

void summarize(benchmark::State& state) {
  std::vector<double> values;
  unsigned x = 1;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    x = x * 1664525u + 1013904223u;
    values.push_back(x);
  }
  for (auto _ : state) benchmark::DoNotOptimize(ww::summarize(values).median_seconds);
}
BENCHMARK(summarize)->Arg(11)->Arg(100)->Arg(300);

// What measure() does with its samples before it decides whether to go on.
void analyze(benchmark::State& state) {
  std::vector<double> values;
  unsigned x = 1;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    x = x * 1664525u + 1013904223u;
    values.push_back(1.0 + 1e-12 * x);
  }
  ww::detail::series_analyzer analyzer;
  analyzer.reserve(values.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(analyzer(values.data(), values.size(), 0.01).low);
  }
}
BENCHMARK(analyze)->Arg(50)->Arg(250)->Arg(1000);

void upper_bound_of_quantile(benchmark::State& state) {
  std::vector<double> values;
  unsigned x = 1;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    x = x * 1664525u + 1013904223u;
    values.push_back(x);
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(ww::upper_bound_of_quantile(values, 0.99, 0.95));
  }
}
BENCHMARK(upper_bound_of_quantile)->Arg(299)->Arg(10000);

}  // namespace
