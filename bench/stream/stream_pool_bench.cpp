// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Leasing a stream compared with creating one, by one thread and under contention; fork_join()
// compared with the same calls by hand.
#include <benchmark/benchmark.h>

#include <warpwright/stream/stream_pool.hpp>

#include <memory>
#include <vector>

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

// Two streams and an event a branch, kept, as fork_join() keeps them.
void fork_and_join(benchmark::State& state) {
  auto const n = static_cast<unsigned>(state.range(0));
  ww::stream_pool pool{ww::current_device(), 32};
  ww::stream parent;
  for (auto _ : state) {
    pool.fork_join(parent, n, [](ww::stream_ref, unsigned) {});
    if (state.iterations() % 64 == 0) parent.synchronize();
  }
  parent.synchronize();
}
BENCHMARK(fork_and_join)->Arg(2)->Arg(8)->UseRealTime();

void raw_fork_and_join(benchmark::State& state) {
  auto const n = static_cast<std::size_t>(state.range(0));
  ww::stream parent;
  std::vector<ww::stream> streams(n);
  std::vector<ww::event> joined(n);
  ww::event forked;
  for (auto _ : state) {
    cudaEventRecord(forked.get(), parent);
    for (std::size_t i = 0; i < n; ++i) cudaStreamWaitEvent(streams[i], forked.get(), 0);
    for (std::size_t i = 0; i < n; ++i) {
      cudaEventRecord(joined[i].get(), streams[i]);
      cudaStreamWaitEvent(parent, joined[i].get(), 0);
    }
    if (state.iterations() % 64 == 0) parent.synchronize();
  }
  parent.synchronize();
}
BENCHMARK(raw_fork_and_join)->Arg(2)->Arg(8)->UseRealTime();

}  // namespace
