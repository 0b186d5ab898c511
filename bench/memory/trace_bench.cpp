// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of recording: a pair of calls of the pool, and the same pair through a trace_recorder.
#include <benchmark/benchmark.h>

#include <warpwright/memory/pool.hpp>
#include <warpwright/memory/trace.hpp>

#include <memory>

namespace ww = warpwright;

namespace {

ww::device_id const device{0};
std::unique_ptr<ww::memory_pool> shared_pool;
std::unique_ptr<ww::trace_recorder<ww::memory_pool>> shared_recorder;

template <class Resource>
void pairs(benchmark::State& state, std::unique_ptr<Resource> const& resource) {
  ww::stream const own;
  ww::stream_ref const s = own;
  for (auto _ : state) {  // thread 0 has created the resource when the loop begins
    void* const p = resource->allocate(s, 4096);
    benchmark::DoNotOptimize(p);
    resource->deallocate(s, p, 4096);
  }
  state.SetItemsProcessed(2 * state.iterations());
}

void memory_pool_pair(benchmark::State& state) {
  if (state.thread_index() == 0) shared_pool = std::make_unique<ww::memory_pool>(device);
  pairs(state, shared_pool);
  if (state.thread_index() == 0) shared_pool.reset();
}
BENCHMARK(memory_pool_pair)->Threads(1)->Threads(4)->Threads(16)->UseRealTime();

void trace_recorder_pair(benchmark::State& state) {
  if (state.thread_index() == 0) {
    shared_pool = std::make_unique<ww::memory_pool>(device);
    shared_recorder = std::make_unique<ww::trace_recorder<ww::memory_pool>>(*shared_pool);
  }
  pairs(state, shared_recorder);
  if (state.thread_index() == 0) {
    shared_recorder.reset();
    shared_pool.reset();
  }
}
BENCHMARK(trace_recorder_pair)->Threads(1)->Threads(4)->Threads(16)->UseRealTime();

}  // namespace
