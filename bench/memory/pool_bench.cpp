// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The host time of allocating and freeing device memory: the pool, cudaMallocAsync (with the
// maximum release threshold, so that it also keeps its memory), cudaMalloc and, where it was built
// in, RMM.
#include <benchmark/benchmark.h>

#include <warpwright/memory/pool.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "peer_allocators.hpp"
#include "support/keep_busy.hpp"

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

// @param leave  whether the blocks are left to the destructor of what they came from
template <class Allocate, class Free>
void pair_among_holes(benchmark::State& state, Allocate const& allocate, Free const& free,
                      bool leave = false) {
  auto const holes = static_cast<std::size_t>(state.range(0));
  std::mt19937_64 random{42};
  std::vector<block> blocks;
  blocks.reserve(2 * holes);
  for (std::size_t i = 0; i < 2 * holes; ++i) {
    std::size_t const bytes = 256 * (1 + random() % 64);
    try {
      blocks.push_back(block{allocate(bytes), bytes});
    } catch (std::exception const& e) {  // the host runtime has less memory
      for (block const& b : blocks) free(b);
      state.SkipWithError(e.what());
      return;
    }
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
  for (auto _ : state) {
    void* const p = allocate(1024);
    benchmark::DoNotOptimize(p);
    free(block{p, 1024});
  }
  for (std::size_t i = 1; i < blocks.size() && !leave; i += 2) free(blocks[i]);
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
  pair_among_holes(
      state,
      [&](std::size_t bytes) {
        void* p = nullptr;
        ww::check(cudaMallocAsync(&p, bytes, s.get()), "cudaMallocAsync");
        return p;
      },
      [&](block const& b) { ww::check(cudaFreeAsync(b.pointer, s.get()), "cudaFreeAsync"); });
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

// --- A block that another stream has just freed
// ---------------------------------------------------
//
// handover/<limited|may_grow>/<allocator>/<idle|busy>: the time of an allocation of 1 MiB directly
// after the only free block was freed on the other stream, which is idle or has a kernel of 2 ms in
// front of the free. `limited`: there is no more memory. `may_grow`: there is, and the allocator is
// a new one each time. done_us is the time until work behind the allocation has run: with a busy
// stream it is about 2 ms where the block is handed over, and less where the allocator has grown
// instead.

constexpr unsigned busy_microseconds = 2000;

struct full_allocator {
  full_allocator(bench_support::allocator_kind const& kind, bool limited) {
    auto const most = static_cast<std::size_t>(128 * mib);
    allocator = kind.make(
        streams, limited ? std::max(most, kind.least_limit_bytes) : bench_support::unlimited);
    // From both streams in turn, so that the allocator has seen both.
    for (std::uint32_t i = 0; limited || i < 128; ++i) {
      void* const p = allocator->allocate(i % 2, static_cast<std::size_t>(mib));
      if (p == nullptr) break;
      blocks.push_back(p);
    }
    for (std::uint32_t i = 0; i < 2; ++i) bench_support::keep_busy(streams[i], 1);
    streams.synchronize();
  }
  ~full_allocator() {
    streams.synchronize();
    for (std::uint32_t i = 0; i + 1 < blocks.size(); ++i) {
      allocator->deallocate(i % 2, i % 2, blocks[i], static_cast<std::size_t>(mib));
    }
    if (!blocks.empty() && blocks.back() != nullptr) {
      allocator->deallocate(last_owner, last_owner, blocks.back(), static_cast<std::size_t>(mib));
    }
    streams.synchronize();
  }
  full_allocator(full_allocator const&) = delete;
  full_allocator& operator=(full_allocator const&) = delete;

  replay::stream_set streams{2};
  std::unique_ptr<bench_support::any_allocator> allocator;
  std::vector<void*> blocks;     // the last one is handed over
  std::uint32_t last_owner = 0;  // its stream
};

struct handed_over {
  double allocate_us;
  double done_us;
};

handed_over hand_over(full_allocator& of, bool busy) {
  using clock = std::chrono::steady_clock;
  auto const microseconds = [](clock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
  };
  std::uint32_t const from = of.last_owner;
  std::uint32_t const to = 1 - from;
  if (busy) bench_support::keep_busy(of.streams[from], busy_microseconds);
  of.allocator->deallocate(from, from, of.blocks.back(), static_cast<std::size_t>(mib));
  clock::time_point const begin = clock::now();
  of.blocks.back() = of.allocator->allocate(to, static_cast<std::size_t>(mib));
  clock::time_point const allocated = clock::now();
  of.last_owner = to;
  if (of.blocks.back() == nullptr) throw std::runtime_error{"the block was not handed over"};
  bench_support::keep_busy(of.streams[to], 0);
  of.streams[to].synchronize();
  clock::time_point const done = clock::now();
  of.streams.synchronize();
  return {microseconds(allocated - begin), microseconds(done - begin)};
}

void handover(benchmark::State& state, bench_support::allocator_kind const& kind, bool limited,
              bool busy) {
  std::vector<double> us;
  std::vector<double> done;
  try {
    std::unique_ptr<full_allocator> full;
    for (int warm_up = 0; warm_up < 3 && limited; ++warm_up) {
      if (full == nullptr) full = std::make_unique<full_allocator>(kind, limited);
      if (full->blocks.empty()) throw std::runtime_error{"no block under the limit"};
      static_cast<void>(hand_over(*full, busy));
    }
    for (auto _ : state) {
      if (!limited) full = std::make_unique<full_allocator>(kind, limited);
      handed_over const taken = hand_over(*full, busy);
      state.SetIterationTime(1e-6 * taken.allocate_us);
      us.push_back(taken.allocate_us);
      done.push_back(taken.done_us);
    }
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
    return;
  }
  std::sort(us.begin(), us.end());
  std::sort(done.begin(), done.end());
  state.counters["median_us"] = us[us.size() / 2];
  state.counters["p10_us"] = us[us.size() / 10];
  state.counters["p90_us"] = us[us.size() * 9 / 10];
  state.counters["done_us"] = done[done.size() / 2];
}

[[maybe_unused]] bool const handovers_registered = [] {
  for (bool const limited : {true, false}) {
    for (bench_support::allocator_kind const& kind : bench_support::allocator_kinds()) {
      if (kind.slack_only || (limited && !kind.takes_limit)) continue;
      if (!limited && kind.needs_limit) continue;
      for (bool const busy : {false, true}) {
        std::string const name = std::string{"handover/"} + (limited ? "limited/" : "may_grow/") +
                                 kind.name + (busy ? "/busy" : "/idle");
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&kind, limited, busy](benchmark::State& state) {
                                       handover(state, kind, limited, busy);
                                     })
            ->Iterations(limited ? 50 : 15)
            ->Repetitions(1)  // it reports the spread of its own samples
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return true;
}();

#if WARPWRIGHT_BENCH_RMM
// --- RMM
// ------------------------------------------------------------------------------------------

std::unique_ptr<rmm_peers::resource> shared_rmm;

// What an arena has in all; the others begin with 1 MiB and grow in the warm-up.
std::unique_ptr<rmm_peers::resource> make_rmm(rmm_peers::kind which) {
  return rmm_peers::make(which, static_cast<std::size_t>(mib),
                         which == rmm_peers::kind::arena ? static_cast<std::size_t>(4096 * mib)
                                                         : rmm_peers::unlimited);
}

void rmm_pair(benchmark::State& state, rmm_peers::kind which) {
  std::size_t const bytes = bytes_of(state);
  if (state.thread_index() == 0) shared_rmm = make_rmm(which);
  ww::stream const own;
  cudaStream_t const s = own.get();
  bool failed = false;
  for (auto _ : state) {
    void* const p = shared_rmm->allocate(s, bytes);
    failed |= p == nullptr;
    benchmark::DoNotOptimize(p);
    shared_rmm->deallocate(s, p, bytes);
  }
  own.synchronize();
  if (failed) state.SkipWithError("out of memory");
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) shared_rmm.reset();
}
BENCHMARK_CAPTURE(rmm_pair, pool, rmm_peers::kind::pool)->Apply(sizes_and_threads);
BENCHMARK_CAPTURE(rmm_pair, binning, rmm_peers::kind::binning)->Apply(sizes_and_threads);
BENCHMARK_CAPTURE(rmm_pair, arena, rmm_peers::kind::arena)->Apply(sizes_and_threads);
BENCHMARK_CAPTURE(rmm_pair, cuda_async, rmm_peers::kind::cuda_async)->Apply(sizes_and_threads);

void rmm_pair_among_holes(benchmark::State& state, rmm_peers::kind which) {
  ww::stream const own;
  cudaStream_t const s = own.get();
  std::unique_ptr<rmm_peers::resource> const of = make_rmm(which);
  pair_among_holes(
      state, [&](std::size_t bytes) { return of->allocate(s, bytes); },
      [&](block const& b) { of->deallocate(s, b.pointer, b.bytes); }, true);
  own.synchronize();
}
// A number of iterations, as each run of the pool at 65,536 holes takes seconds to make them.
void holes_of_rmm(benchmark::internal::Benchmark* b) {
  b->RangeMultiplier(4)->Range(64, 65536)->Iterations(1000)->Repetitions(1);
}
BENCHMARK_CAPTURE(rmm_pair_among_holes, pool, rmm_peers::kind::pool)->Apply(holes_of_rmm);
BENCHMARK_CAPTURE(rmm_pair_among_holes, arena, rmm_peers::kind::arena)->Apply(holes_of_rmm);

[[maybe_unused]] bool const rmm_version_added = [] {
  benchmark::AddCustomContext("version_RMM", rmm_peers::version());
  return true;
}();
#endif

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
