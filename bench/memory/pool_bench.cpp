// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The host time of allocating and freeing device memory: the pool, cudaMallocAsync (with the
// maximum release threshold, so that it also keeps its memory) and cudaMalloc.
#include <benchmark/benchmark.h>

#include <warpwright/memory/pool.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace ww = warpwright;

namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
ww::device_id const device{0};

std::size_t bytes_of(benchmark::State const& state) {
  return static_cast<std::size_t>(state.range(0));
}

// Sets the default memory pool's release threshold to the maximum for the scope.
class keeping_default_pool {
 public:
  keeping_default_pool() {
    ww::check(cudaDeviceGetDefaultMemPool(&pool_, device.value()), "cudaDeviceGetDefaultMemPool");
    std::uint64_t most = ~std::uint64_t{0};
    ww::check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &most),
              "cudaMemPoolSetAttribute");
  }
  ~keeping_default_pool() {
    static_cast<void>(cudaDeviceSynchronize());
    static_cast<void>(cudaMemPoolTrimTo(pool_, 0));
  }
  keeping_default_pool(keeping_default_pool const&) = delete;
  keeping_default_pool& operator=(keeping_default_pool const&) = delete;

 private:
  cudaMemPool_t pool_ = nullptr;
};

std::unique_ptr<ww::memory_pool> shared_pool;
std::unique_ptr<keeping_default_pool> shared_default_pool;
std::atomic<int> threads_with_cache{0};  // of shared_pool, which must outlive the caches

void sizes_and_threads(benchmark::internal::Benchmark* b) {
  for (std::int64_t const bytes :
       {256 * std::int64_t{1}, 4 * kib, 64 * kib, mib, 16 * mib, 64 * mib}) {
    b->Arg(bytes);
  }
  b->Threads(1)->Threads(4)->Threads(16)->UseRealTime();
}

void memory_pool_pair(benchmark::State& state) {
  std::size_t const bytes = bytes_of(state);
  if (state.thread_index() == 0) {
    std::size_t const all = bytes * static_cast<std::size_t>(state.threads());
    shared_pool =
        std::make_unique<ww::memory_pool>(device, ww::memory_pool_options{}.initial_bytes(all));
  }
  ww::stream const own;
  ww::stream_ref const s = own;
  for (auto _ : state) {
    void* const p = shared_pool->allocate(s, bytes);
    benchmark::DoNotOptimize(p);
    shared_pool->deallocate(s, p, bytes);
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    state.counters["hit_rate"] = shared_pool->statistics().hit_rate();
    shared_pool.reset();
  }
}
BENCHMARK(memory_pool_pair)->Apply(sizes_and_threads);

// Through one memory_cache a thread.
void memory_cache_pair(benchmark::State& state) {
  std::size_t const bytes = bytes_of(state);
  if (state.thread_index() == 0) {
    threads_with_cache = state.threads();
    std::size_t const all = bytes * static_cast<std::size_t>(state.threads());
    shared_pool =
        std::make_unique<ww::memory_pool>(device, ww::memory_pool_options{}.initial_bytes(all));
  }
  ww::stream const own;
  std::unique_ptr<ww::memory_cache> cache;
  for (auto _ : state) {
    if (cache == nullptr) cache.reset(new ww::memory_cache{shared_pool->make_cache(own)});
    void* const p = cache->allocate(bytes);
    benchmark::DoNotOptimize(p);
    cache->deallocate(p, bytes);
  }
  cache.reset();
  --threads_with_cache;
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    while (threads_with_cache != 0) std::this_thread::yield();
    state.counters["hit_rate"] = shared_pool->statistics().hit_rate();
    shared_pool.reset();
  }
}
BENCHMARK(memory_cache_pair)->Apply(sizes_and_threads);

// Each pair timed separately, clock included: shows the spread that a mean hides.
template <class Allocate, class Free>
void time_each(benchmark::State& state, Allocate const& allocate, Free const& free) {
  using clock = std::chrono::steady_clock;
  std::vector<double> taken;
  taken.reserve(1 << 20);
  for (auto _ : state) {
    clock::time_point const begin = clock::now();
    void* const p = allocate();
    benchmark::DoNotOptimize(p);
    free(p);
    clock::time_point const end = clock::now();
    if (taken.size() < taken.capacity()) {
      taken.push_back(std::chrono::duration<double, std::nano>(end - begin).count());
    }
  }
  std::sort(taken.begin(), taken.end());
  if (taken.empty()) return;
  auto const at = [&](double part) {
    return taken[static_cast<std::size_t>(part * static_cast<double>(taken.size() - 1))];
  };
  using benchmark::Counter;
  state.counters["median_ns"] = Counter(at(0.5), Counter::kAvgThreads);
  state.counters["p99_ns"] = Counter(at(0.99), Counter::kAvgThreads);
  state.counters["p999_ns"] = Counter(at(0.999), Counter::kAvgThreads);
}

void memory_pool_pair_spread(benchmark::State& state) {
  std::size_t const bytes = bytes_of(state);
  if (state.thread_index() == 0) shared_pool = std::make_unique<ww::memory_pool>(device);
  ww::stream const own;
  ww::stream_ref const s = own;
  time_each(
      state, [&] { return shared_pool->allocate(s, bytes); },
      [&](void* p) { shared_pool->deallocate(s, p, bytes); });
  if (state.thread_index() == 0) shared_pool.reset();
}
BENCHMARK(memory_pool_pair_spread)->Arg(mib)->Threads(1)->Threads(16)->UseRealTime();

void cuda_malloc_async_pair_spread(benchmark::State& state) {
  if (state.thread_index() == 0) shared_default_pool = std::make_unique<keeping_default_pool>();
  ww::stream const s;
  std::size_t const bytes = bytes_of(state);
  time_each(
      state,
      [&] {
        void* p = nullptr;
        static_cast<void>(cudaMallocAsync(&p, bytes, s.get()));
        return p;
      },
      [&](void* p) { static_cast<void>(cudaFreeAsync(p, s.get())); });
  s.synchronize();
  if (state.thread_index() == 0) shared_default_pool.reset();
}
BENCHMARK(cuda_malloc_async_pair_spread)->Arg(mib)->Threads(1)->Threads(16)->UseRealTime();

// A raw handle costs one cuStreamGetId a call.
void memory_pool_pair_raw_handle(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::stream const own;
  std::size_t const bytes = bytes_of(state);
  for (auto _ : state) {
    void* const p = pool.allocate(own.get(), bytes);
    benchmark::DoNotOptimize(p);
    pool.deallocate(own.get(), p, bytes);
  }
}
BENCHMARK(memory_pool_pair_raw_handle)->Arg(mib);

void memory_pool_pair_checked(benchmark::State& state) {
  ww::memory_pool pool{device, ww::memory_pool_options{}.checked()};
  ww::stream const own;
  ww::stream_ref const s = own;
  std::size_t const bytes = bytes_of(state);
  for (auto _ : state) {
    void* const p = pool.allocate(s, bytes);
    benchmark::DoNotOptimize(p);
    pool.deallocate(s, p, bytes);
  }
}
BENCHMARK(memory_pool_pair_checked)->Arg(mib);

// A number of blocks of 4 KiB at once; the time is that of all.
void memory_pool_batch(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::stream const own;
  ww::stream_ref const s = own;
  auto const count = static_cast<std::size_t>(state.range(0));
  std::vector<std::size_t> const bytes(count, 4096);
  std::vector<void*> blocks(count);
  for (auto _ : state) {
    pool.allocate_batch(s, bytes.data(), blocks.data(), count);
    benchmark::DoNotOptimize(blocks.data());
    pool.deallocate_batch(s, blocks.data(), bytes.data(), count);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(memory_pool_batch)->Arg(1)->Arg(8)->Arg(64);

void cuda_malloc_async_pair(benchmark::State& state) {
  if (state.thread_index() == 0) shared_default_pool = std::make_unique<keeping_default_pool>();
  ww::stream const s;
  std::size_t const bytes = bytes_of(state);
  for (auto _ : state) {
    void* p = nullptr;
    if (cudaMallocAsync(&p, bytes, s.get()) != cudaSuccess) state.SkipWithError("cudaMallocAsync");
    benchmark::DoNotOptimize(p);
    static_cast<void>(cudaFreeAsync(p, s.get()));
  }
  s.synchronize();
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) shared_default_pool.reset();
}
BENCHMARK(cuda_malloc_async_pair)->Apply(sizes_and_threads);

void cuda_malloc_pair(benchmark::State& state) {
  std::size_t const bytes = bytes_of(state);
  for (auto _ : state) {
    void* p = nullptr;
    if (cudaMalloc(&p, bytes) != cudaSuccess) state.SkipWithError("cudaMalloc");
    benchmark::DoNotOptimize(p);
    static_cast<void>(cudaFree(p));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(cuda_malloc_pair)->Arg(256)->Arg(mib)->Arg(64 * mib)->UseRealTime();
BENCHMARK(cuda_malloc_pair)->Arg(mib)->Threads(4)->Threads(16)->UseRealTime();

// A pair of 1 KiB in a pool with a number of free blocks of mixed sizes.
struct block {
  void* pointer;
  std::size_t bytes;
};

template <class Allocate, class Free>
void pair_among_holes(benchmark::State& state, Allocate const& allocate, Free const& free) {
  auto const holes = static_cast<std::size_t>(state.range(0));
  std::mt19937_64 random{42};
  std::vector<block> blocks;
  blocks.reserve(2 * holes);
  for (std::size_t i = 0; i < 2 * holes; ++i) {
    std::size_t const bytes = 256 * (1 + random() % 64);
    blocks.push_back(block{allocate(bytes), bytes});
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
  for (auto _ : state) {
    void* const p = allocate(1024);
    benchmark::DoNotOptimize(p);
    free(block{p, 1024});
  }
  for (std::size_t i = 1; i < blocks.size(); i += 2) free(blocks[i]);
}

void memory_pool_pair_among_holes(benchmark::State& state) {
  ww::stream const own;
  ww::stream_ref const s = own;
  ww::memory_pool pool{device};
  pair_among_holes(
      state, [&](std::size_t bytes) { return pool.allocate(s, bytes); },
      [&](block const& b) { pool.deallocate(s, b.pointer, b.bytes); });
}
BENCHMARK(memory_pool_pair_among_holes)->RangeMultiplier(4)->Range(64, 65536);

// The same without caches: every call searches the heap.
void memory_pool_heap_pair_among_holes(benchmark::State& state) {
  ww::stream const own;
  ww::stream_ref const s = own;
  ww::memory_pool pool{device, ww::memory_pool_options{}.cache_bytes(0)};
  pair_among_holes(
      state, [&](std::size_t bytes) { return pool.allocate(s, bytes); },
      [&](block const& b) { pool.deallocate(s, b.pointer, b.bytes); });
}
BENCHMARK(memory_pool_heap_pair_among_holes)->RangeMultiplier(4)->Range(64, 65536);

void cuda_malloc_async_pair_among_holes(benchmark::State& state) {
  keeping_default_pool const keep;
  ww::stream const s;
  try {
    pair_among_holes(
        state,
        [&](std::size_t bytes) {
          void* p = nullptr;
          ww::check(cudaMallocAsync(&p, bytes, s.get()), "cudaMallocAsync");
          return p;
        },
        [&](block const& b) { ww::check(cudaFreeAsync(b.pointer, s.get()), "cudaFreeAsync"); });
  } catch (ww::cuda_error const& e) {  // the host runtime has less memory
    state.SkipWithError(e.what());
  }
  s.synchronize();
}
BENCHMARK(cuda_malloc_async_pair_among_holes)->RangeMultiplier(4)->Range(64, 65536);

// Every block comes from the other stream, a number at a time: one event record and one wait for
// all of them.
void memory_pool_adopt(benchmark::State& state) {
  ww::stream const first;
  ww::stream const second;
  ww::stream_ref const streams[2] = {first, second};
  auto const count = static_cast<std::size_t>(state.range(0));
  auto const bytes = static_cast<std::size_t>(2 * mib);
  ww::memory_pool pool{device, ww::memory_pool_options{}.maximum_bytes(count * bytes)};
  std::vector<void*> blocks(count);
  unsigned turn = 0;
  for (auto _ : state) {
    ww::stream_ref const s = streams[turn++ % 2];
    for (void*& b : blocks) b = pool.allocate(s, bytes);
    benchmark::DoNotOptimize(blocks.data());
    for (void* const b : blocks) pool.deallocate(s, b, bytes);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  ww::pool_statistics const figures = pool.statistics();
  state.counters["steals"] = static_cast<double>(figures.cross_stream_steals);
  state.counters["waits"] = static_cast<double>(figures.stream_waits);
}
BENCHMARK(memory_pool_adopt)->Arg(1)->Arg(8);

void cuda_malloc_async_adopt(benchmark::State& state) {
  keeping_default_pool const keep;
  ww::stream const streams[2];
  auto const count = static_cast<std::size_t>(state.range(0));
  std::vector<void*> blocks(count);
  unsigned turn = 0;
  for (auto _ : state) {
    cudaStream_t const s = streams[turn++ % 2].get();
    for (void*& b : blocks) static_cast<void>(cudaMallocAsync(&b, 2 * mib, s));
    benchmark::DoNotOptimize(blocks.data());
    for (void* const b : blocks) static_cast<void>(cudaFreeAsync(b, s));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  for (ww::stream const& s : streams) s.synchronize();
}
BENCHMARK(cuda_malloc_async_adopt)->Arg(1)->Arg(8);

void memory_pool_construction(benchmark::State& state) {
  for (auto _ : state) {
    ww::memory_pool const pool{device};
    benchmark::DoNotOptimize(&pool);
  }
}
BENCHMARK(memory_pool_construction);

cudaMemPool_t new_cuda_mem_pool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device.value();
  cudaMemPool_t pool = nullptr;
  ww::check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  return pool;
}

void cuda_mem_pool_construction(benchmark::State& state) {
  for (auto _ : state) {
    cudaMemPool_t const pool = new_cuda_mem_pool();
    ww::check(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  }
}
BENCHMARK(cuda_mem_pool_construction);

void memory_pool_first_allocation(benchmark::State& state) {
  ww::stream const own;
  ww::stream_ref const s = own;
  for (auto _ : state) {
    state.PauseTiming();
    auto pool = std::make_unique<ww::memory_pool>(device);
    state.ResumeTiming();
    benchmark::DoNotOptimize(pool->allocate(s, 1024));
    state.PauseTiming();
    pool.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(memory_pool_first_allocation)->Iterations(200);

void cuda_mem_pool_first_allocation(benchmark::State& state) {
  ww::stream const s;
  for (auto _ : state) {
    state.PauseTiming();
    cudaMemPool_t const pool = new_cuda_mem_pool();
    void* p = nullptr;
    state.ResumeTiming();
    ww::check(cudaMallocFromPoolAsync(&p, 1024, pool, s.get()), "cudaMallocFromPoolAsync");
    state.PauseTiming();
    ww::check(cudaFreeAsync(p, s.get()), "cudaFreeAsync");
    s.synchronize();
    ww::check(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
    state.ResumeTiming();
  }
}
BENCHMARK(cuda_mem_pool_first_allocation)->Iterations(200);

}  // namespace
