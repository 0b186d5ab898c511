// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The host time of allocating and freeing page-locked memory.
#include <benchmark/benchmark.h>

#include <warpwright/memory/pinned.hpp>

#include <cstdint>
#include <memory>

namespace ww = warpwright;

namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;

std::unique_ptr<ww::pinned_pool> shared_pool;

void pinned_pool_pair(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  if (state.thread_index() == 0) {
    std::size_t const all = bytes * static_cast<std::size_t>(state.threads());
    shared_pool = std::make_unique<ww::pinned_pool>(ww::pinned_pool_options{}.initial_bytes(all));
  }
  for (auto _ : state) {
    void* const p = shared_pool->allocate(bytes);
    benchmark::DoNotOptimize(p);
    shared_pool->deallocate(p, bytes);
  }
  if (state.thread_index() == 0) shared_pool.reset();
}
BENCHMARK(pinned_pool_pair)
    ->Arg(4 * kib)
    ->Arg(mib)
    ->Threads(1)
    ->Threads(4)
    ->Threads(16)
    ->UseRealTime();

// With the event that prevents the reuse of a block in flight.
void pinned_pool_pair_on_stream(benchmark::State& state) {
  ww::stream const own;
  ww::stream_ref const s = own;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(static_cast<std::size_t>(64 * mib))};
  auto const bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* const p = pool.allocate(bytes);
    benchmark::DoNotOptimize(p);
    pool.deallocate(s, p, bytes);
  }
}
BENCHMARK(pinned_pool_pair_on_stream)->Arg(4 * kib)->Arg(mib);

void cuda_malloc_host_pair(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* p = nullptr;
    if (cudaMallocHost(&p, bytes) != cudaSuccess) state.SkipWithError("cudaMallocHost");
    benchmark::DoNotOptimize(p);
    static_cast<void>(cudaFreeHost(p));
  }
}
BENCHMARK(cuda_malloc_host_pair)->Arg(4 * kib)->Arg(mib)->UseRealTime();

}  // namespace
