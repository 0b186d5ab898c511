// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Events compared with the CUDA calls that they wrap.
#include <benchmark/benchmark.h>

#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>

namespace ww = warpwright;

namespace {

void event_record(benchmark::State& state) {
  ww::stream s;
  ww::event e;
  for (auto _ : state) e.record(s.get());
  s.synchronize();
}
BENCHMARK(event_record);

void raw_event_record(benchmark::State& state) {
  ww::stream s;
  cudaEvent_t e = nullptr;
  ww::check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  for (auto _ : state) benchmark::DoNotOptimize(cudaEventRecord(e, s.get()));
  s.synchronize();
  cudaEventDestroy(e);
}
BENCHMARK(raw_event_record);

void timed_event_record(benchmark::State& state) {
  ww::stream s;
  ww::timed_event e;
  for (auto _ : state) e.record(s.get());
  s.synchronize();
}
BENCHMARK(timed_event_record);

void event_query(benchmark::State& state) {
  ww::stream s;
  ww::event e;
  e.record(s.get());
  e.synchronize();
  for (auto _ : state) benchmark::DoNotOptimize(e.done());
}
BENCHMARK(event_query);

void raw_event_query(benchmark::State& state) {
  ww::stream s;
  ww::event e;
  e.record(s.get());
  e.synchronize();
  for (auto _ : state) benchmark::DoNotOptimize(cudaEventQuery(e.get()));
}
BENCHMARK(raw_event_query);

void event_create_destroy(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ww::event{}.get());
}
BENCHMARK(event_create_destroy);

void raw_event_create_destroy(benchmark::State& state) {
  for (auto _ : state) {
    cudaEvent_t e = nullptr;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaEventDestroy(e);
  }
}
BENCHMARK(raw_event_create_destroy);

}  // namespace
