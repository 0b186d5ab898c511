// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies between pageable memory and the device: staging with a number of threads, the cudaMemcpy
// that it replaces, and the link's limit (cudaMemcpyAsync of page-locked memory).
#include <benchmark/benchmark.h>

#include <warpwright/memory/staging.hpp>

#include <cstdint>
#include <cstring>
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

void sizes_and_threads(benchmark::internal::Benchmark* b) {
  for (std::int64_t const bytes : {16 * kib, 256 * kib, mib, 16 * mib}) b->Args({bytes, 8});
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
  for (std::int64_t const bytes : {16 * kib, 256 * kib, mib, 16 * mib, gib}) b->Arg(bytes);
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
