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

// As many blocks as streams have in flight at this rate, for each thread.
std::size_t pool_bytes(benchmark::State const& state, std::size_t blocks) {
  std::size_t const bytes = blocks * static_cast<std::size_t>(state.range(0));
  return bytes * static_cast<std::size_t>(state.threads());
}

// With the events that prevent the reuse of blocks in flight; each thread has its own stream.
void pinned_pool_pair_on_stream(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  std::size_t const blocks = bytes < static_cast<std::size_t>(mib) ? 2048 : 512;
  if (state.thread_index() == 0) {
    shared_pool = std::make_unique<ww::pinned_pool>(
        ww::pinned_pool_options{}.initial_bytes(pool_bytes(state, blocks)));
  }
  ww::stream const own;
  ww::stream_ref const s = own;
  for (auto _ : state) {
    void* const p = shared_pool->allocate(bytes);
    benchmark::DoNotOptimize(p);
    shared_pool->deallocate(s, p, bytes);
  }
  // Other threads may still retire theirs: the next benchmark replaces the pool.
  shared_pool->retire(s);
  if (state.thread_index() == 0) {
    state.counters["pool_bytes"] = static_cast<double>(shared_pool->statistics().reserved_bytes);
  }
}
BENCHMARK(pinned_pool_pair_on_stream)
    ->Arg(4 * kib)
    ->Arg(mib)
    ->Threads(1)
    ->Threads(4)
    ->Threads(16)
    ->UseRealTime();

void pinned_pool_pair(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  if (state.thread_index() == 0) {
    shared_pool = std::make_unique<ww::pinned_pool>(
        ww::pinned_pool_options{}.initial_bytes(pool_bytes(state, 16)));
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

// Page-locks memory; it is released outside of the measurement.
void pinned_pool_reserve(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    auto pool = std::make_unique<ww::pinned_pool>(ww::pinned_pool_options{}.initial_bytes(bytes));
    state.PauseTiming();
    pool.reset();
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(pinned_pool_reserve)
    ->Arg(1024 * mib)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void cuda_malloc_host_reserve(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* p = nullptr;
    if (cudaMallocHost(&p, bytes) != cudaSuccess) state.SkipWithError("cudaMallocHost");
    state.PauseTiming();
    static_cast<void>(cudaFreeHost(p));
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(cuda_malloc_host_reserve)
    ->Arg(1024 * mib)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
