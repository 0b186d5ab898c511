// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Leasing a stream compared with creating one, by one thread and under contention.
#include <benchmark/benchmark.h>

#include <warpwright/stream/stream_pool.hpp>

#include <memory>

namespace ww = warpwright;

namespace {

std::unique_ptr<ww::stream_pool> shared_pool;

void lease_and_give_back(benchmark::State& state) {
  for (auto _ : state) {
    ww::stream_lease const lease = shared_pool->lease();
    benchmark::DoNotOptimize(lease.stream().get());
  }
}
BENCHMARK(lease_and_give_back)
    ->Setup([](benchmark::State const&) {
      shared_pool = std::make_unique<ww::stream_pool>(ww::current_device(), 32U);
    })
    ->Teardown([](benchmark::State const&) { shared_pool.reset(); })
    ->ThreadRange(1, 16)
    ->UseRealTime();

void raw_stream_create_destroy(benchmark::State& state) {
  for (auto _ : state) {
    cudaStream_t s = nullptr;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    benchmark::DoNotOptimize(s);
    cudaStreamDestroy(s);
  }
}
BENCHMARK(raw_stream_create_destroy)->ThreadRange(1, 16)->UseRealTime();

}  // namespace
