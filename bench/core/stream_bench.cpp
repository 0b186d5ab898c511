// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams and their ids compared with the CUDA calls.
#include <benchmark/benchmark.h>

#include <warpwright/core/stream.hpp>

namespace ww = warpwright;

namespace {

void stream_create_destroy(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ww::stream{}.get());
}
BENCHMARK(stream_create_destroy);

void raw_stream_create_destroy(benchmark::State& state) {
  for (auto _ : state) {
    cudaStream_t s = nullptr;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamDestroy(s);
  }
}
BENCHMARK(raw_stream_create_destroy);

void id_of_kept_stream_ref(benchmark::State& state) {
  ww::stream const s;
  ww::stream_ref const kept = s;
  for (auto _ : state) benchmark::DoNotOptimize(kept.id());
}
BENCHMARK(id_of_kept_stream_ref);

void id_of_raw_handle(benchmark::State& state) {
  ww::stream const s;
  for (auto _ : state) benchmark::DoNotOptimize(ww::stream_ref{s.get()}.id());
}
BENCHMARK(id_of_raw_handle);

void raw_stream_get_id(benchmark::State& state) {
  ww::stream const s;
  unsigned long long id = 0;
  for (auto _ : state) {
    cudaStreamGetId(s.get(), &id);
    benchmark::DoNotOptimize(id);
  }
}
BENCHMARK(raw_stream_get_id);

void is_capturing(benchmark::State& state) {
  ww::stream const s;
  for (auto _ : state) benchmark::DoNotOptimize(s.is_capturing());
}
BENCHMARK(is_capturing);

}  // namespace
