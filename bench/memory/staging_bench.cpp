// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies between pageable memory and the device: staging with a number of threads, the cudaMemcpy
// that it replaces, and the link's limit (cudaMemcpyAsync of page-locked memory); the first copy of
// an object, copies of several callers, and what the host's own memory allows.
#include <benchmark/benchmark.h>

#include <warpwright/memory/staging.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace ww = warpwright;

namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;

// Resident (touched) pageable memory, and device memory, for one benchmark.
class fixture {
 public:
  explicit fixture(std::size_t bytes) : host(bytes, 1) {
    ww::check(cudaMalloc(&device, bytes), "cudaMalloc");
    ww::check(cudaMemset(device, 0, bytes), "cudaMemset");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~fixture() { static_cast<void>(cudaFree(device)); }
  fixture(fixture const&) = delete;
  fixture& operator=(fixture const&) = delete;
  std::vector<unsigned char> host;
  void* device = nullptr;
};

void count(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

template <bool ToDevice>
void staging_copy(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  fixture f{bytes};
  ww::stream const s;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, ww::staging_options{}.threads(static_cast<unsigned>(state.range(1)))};
  for (auto _ : state) {
    if (ToDevice) {
      staging.copy_to_device(s, f.device, f.host.data(), bytes);
      s.synchronize();
    } else {
      staging.copy_to_host(s, f.host.data(), f.device, bytes);
    }
  }
  count(state);
}

// The first copy of an object, whose constructor is not timed.
void staging_first_copy(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  fixture f{bytes};
  ww::stream const s;
  ww::pinned_pool pinned{ww::pinned_pool_options{}.initial_bytes(64 * mib)};
  for (auto _ : state) {
    state.PauseTiming();
    {
      ww::staging staging{pinned, ww::staging_options{}.threads(8)};
      state.ResumeTiming();
      staging.copy_to_device(s, f.device, f.host.data(), bytes);
      s.synchronize();
      state.PauseTiming();
    }
    state.ResumeTiming();
  }
  count(state);
}
BENCHMARK(staging_first_copy)->Arg(16 * kib)->Arg(16 * mib)->UseRealTime();

std::unique_ptr<ww::pinned_pool> shared_pinned;
std::unique_ptr<ww::staging> shared_staging;

// Several callers of one object, each with memory and a stream of its own.
void staging_callers(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  fixture f{bytes};
  ww::stream const s;
  for (auto _ : state) {
    shared_staging->copy_to_device(s, f.device, f.host.data(), bytes);
    s.synchronize();
  }
  count(state);
}
BENCHMARK(staging_callers)
    ->Arg(mib)
    ->Arg(64 * mib)
    ->Setup([](benchmark::State const&) {
      shared_pinned = std::make_unique<ww::pinned_pool>();
      shared_staging =
          std::make_unique<ww::staging>(*shared_pinned, ww::staging_options{}.threads(8));
    })
    ->Teardown([](benchmark::State const&) {
      shared_staging.reset();
      shared_pinned.reset();
    })
    ->Threads(8)
    ->UseRealTime();

// The host's memory: as many threads as staging has copy between arrays of the host.
void host_memcpy(benchmark::State& state) {
  std::size_t const bytes = static_cast<std::size_t>(state.range(0)) / 8;
  std::vector<unsigned char> const from(bytes, 1);
  std::vector<unsigned char> to(bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
BENCHMARK(host_memcpy)->Arg(gib)->Threads(8)->UseRealTime();

void sizes_and_threads(benchmark::internal::Benchmark* b) {
  for (std::int64_t const bytes :
       {4 * kib, 16 * kib, 64 * kib, 256 * kib, 512 * kib, mib, 4 * mib, 16 * mib, 64 * mib}) {
    b->Args({bytes, 8});
    if (bytes >= 16 * mib) b->Args({bytes, 1});
  }
  for (std::int64_t const threads : {1, 2, 4, 8, 12, 16}) b->Args({gib, threads});
  b->UseRealTime();
}
BENCHMARK_TEMPLATE(staging_copy, true)->Name("staging_to_device")->Apply(sizes_and_threads);
BENCHMARK_TEMPLATE(staging_copy, false)->Name("staging_to_host")->Apply(sizes_and_threads);

template <bool ToDevice>
void pageable_copy(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  fixture f{bytes};
  for (auto _ : state) {
    if (ToDevice) {
      ww::check(cudaMemcpy(f.device, f.host.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    } else {
      ww::check(cudaMemcpy(f.host.data(), f.device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    }
  }
  count(state);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (std::int64_t const bytes :
       {4 * kib, 16 * kib, 64 * kib, 256 * kib, 512 * kib, mib, 4 * mib, 16 * mib, 64 * mib, gib}) {
    b->Arg(bytes);
  }
  b->UseRealTime();
}
BENCHMARK_TEMPLATE(pageable_copy, true)->Name("cuda_memcpy_pageable_to_device")->Apply(sizes);
BENCHMARK_TEMPLATE(pageable_copy, false)->Name("cuda_memcpy_pageable_to_host")->Apply(sizes);

template <bool ToDevice>
void pinned_copy(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  fixture f{bytes};
  ww::stream const s;
  void* host = nullptr;
  ww::check(cudaMallocHost(&host, bytes), "cudaMallocHost");
  std::memset(host, 1, bytes);
  for (auto _ : state) {
    if (ToDevice) {
      ww::check(cudaMemcpyAsync(f.device, host, bytes, cudaMemcpyHostToDevice, s.get()),
                "cudaMemcpyAsync");
    } else {
      ww::check(cudaMemcpyAsync(host, f.device, bytes, cudaMemcpyDeviceToHost, s.get()),
                "cudaMemcpyAsync");
    }
    s.synchronize();
  }
  static_cast<void>(cudaFreeHost(host));
  count(state);
}
BENCHMARK_TEMPLATE(pinned_copy, true)->Name("cuda_memcpy_pinned_to_device")->Apply(sizes);
BENCHMARK_TEMPLATE(pinned_copy, false)->Name("cuda_memcpy_pinned_to_host")->Apply(sizes);

}  // namespace
