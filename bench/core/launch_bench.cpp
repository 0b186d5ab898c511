// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// for_each_index beside a kernel written by hand: host time of a launch, and bytes a second.
#include <benchmark/benchmark.h>

#include <warpwright/core/launch.hpp>

#include <cstdint>

namespace ww = warpwright;

namespace {

struct scale {
  float* out;
  float const* in;
  float factor;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = factor * in[i]; }
};

struct arrays {
  explicit arrays(std::size_t n) {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, 2 * n * sizeof(float)), "cudaMalloc");
    in = static_cast<float*>(p);
    out = in + n;
    ww::check(cudaMemset(p, 0, 2 * n * sizeof(float)), "cudaMemset");
  }
  ~arrays() { cudaFree(in); }
  arrays(arrays const&) = delete;
  arrays& operator=(arrays const&) = delete;
  float* in = nullptr;
  float* out = nullptr;
};

// Host time of back-to-back launches; the queue is drained outside of the timed region.
template <class Launch>
void host_time(benchmark::State& state, Launch&& launch) {
  ww::stream s;
  arrays a{256};
  int queued = 0;
  for (auto _ : state) {
    launch(s, a);
    if (++queued == 500) {
      state.PauseTiming();
      s.synchronize();
      queued = 0;
      state.ResumeTiming();
    }
  }
  s.synchronize();
}

template <class Launch>
void device_time(benchmark::State& state, Launch&& launch) {
  auto const n = static_cast<std::size_t>(state.range(0));
  ww::stream s;
  arrays a{n};
  ww::timed_event start;
  ww::timed_event stop;
  launch(s, a, n);
  s.synchronize();
  for (auto _ : state) {
    start.record(s.get());
    launch(s, a, n);
    stop.record(s.get());
    stop.synchronize();
    state.SetIterationTime(1e-3 * static_cast<double>(stop.milliseconds_since(start)));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(2 * n * sizeof(float)));
}

void for_each_index_launch(benchmark::State& state) {
  host_time(state, [](ww::stream_ref s, arrays& a) {
    ww::for_each_index(s, 256, scale{a.out, a.in, 2.0F});
  });
}
BENCHMARK(for_each_index_launch);

void for_each_index_bandwidth(benchmark::State& state) {
  device_time(state, [](ww::stream_ref s, arrays& a, std::size_t n) {
    ww::for_each_index(s, n, scale{a.out, a.in, 2.0F});
  });
}
BENCHMARK(for_each_index_bandwidth)->RangeMultiplier(16)->Range(1 << 16, 1 << 28)->UseManualTime();

#if defined(__CUDACC__)
__global__ void scale_kernel(float* out, float const* in, float factor, std::size_t n) {
  std::size_t const i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * in[i];
}

void raw_kernel_launch(benchmark::State& state) {
  host_time(state, [](ww::stream_ref s, arrays& a) {
    scale_kernel<<<1, 256, 0, s.get()>>>(a.out, a.in, 2.0F, 256);
  });
}
BENCHMARK(raw_kernel_launch);

void raw_kernel_bandwidth(benchmark::State& state) {
  device_time(state, [](ww::stream_ref s, arrays& a, std::size_t n) {
    auto const blocks = static_cast<unsigned>((n + 255) / 256);
    scale_kernel<<<blocks, 256, 0, s.get()>>>(a.out, a.in, 2.0F, n);
  });
}
BENCHMARK(raw_kernel_bandwidth)->RangeMultiplier(16)->Range(1 << 16, 1 << 28)->UseManualTime();
#endif

}  // namespace
