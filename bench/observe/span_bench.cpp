// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A span where nobody listens, and recorded, beside NVTX's push and pop; a clock reading, of which
// a recorded span needs two; and an empty loop, to subtract.
#include <benchmark/benchmark.h>

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/observe/span.hpp>
#include <warpwright/observe/trace.hpp>

#include <memory>
#include <string>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace ww = warpwright;

namespace {

void empty_loop(benchmark::State& state) {
  for (auto _ : state) benchmark::ClobberMemory();
}
BENCHMARK(empty_loop);

void span_off(benchmark::State& state) {
  for (auto _ : state) {
    ww::span const range{"range"};
    benchmark::ClobberMemory();
  }
}
BENCHMARK(span_off);
BENCHMARK(span_off)->Threads(2);

void span_off_with_made_name(benchmark::State& state) {
  int i = 0;
  for (auto _ : state) {
    ww::span const range{[&] { return "range " + std::to_string(i); }};
    benchmark::ClobberMemory();
    ++i;
  }
}
BENCHMARK(span_off_with_made_name);

#if __has_include(<nvtx3/nvToolsExt.h>)
void nvtx_push_pop_off(benchmark::State& state) {
  for (auto _ : state) {
    nvtxRangePushA("range");
    benchmark::ClobberMemory();
    nvtxRangePop();
  }
}
BENCHMARK(nvtx_push_pop_off);
#endif

void clock_reading(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ww::detail::monotonic_nanoseconds());
}
BENCHMARK(clock_reading);

// As many as there is room for; the library's path keeps CUPTI out.
constexpr int spans = 1 << 20;
template <class Body>
void recorded(benchmark::State& state, Body body) {
  static std::unique_ptr<ww::trace> trace;
  trace = nullptr;
  trace =
      std::make_unique<ww::trace>(ww::trace_options{}.max_spans(2 * spans).library("/nonexistent"));
  {
    auto const turn = trace->step();
    for (auto _ : state) body();
  }
  if (trace->summary().dropped_spans != 0) state.SkipWithError("spans were dropped");
}

void span_recorded(benchmark::State& state) {
  recorded(state, [] {
    ww::span const range{"range"};
    benchmark::ClobberMemory();
  });
}
BENCHMARK(span_recorded)->Iterations(spans);

void span_recorded_with_made_name(benchmark::State& state) {
  recorded(state, [] {
    ww::span const range{[] { return std::string{"a made name"}; }};
    benchmark::ClobberMemory();
  });
}
BENCHMARK(span_recorded_with_made_name)->Iterations(spans);

}  // namespace
