// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// for_each_index beside a kernel written by hand: host time of a launch, and bytes a second. Then
// one kernel (2^16 f32, triad) by every way that there is to launch it: host time, and the time in
// the stream of one of twenty back to back. `early` lets it start before the one before it has
// ended, for which it waits itself.
#include <benchmark/benchmark.h>
#if defined(__CUDACC__)
#include <cuda.h>
#endif

#include <warpwright/core/launch.hpp>

#include <cstdint>
#include <cstring>
#include <string>

#include "support/sample_launches.hpp"

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

// As much as a fused expression of three arrays passes.
struct triad_arguments {
  float* o;
  float const* x;
  float const* y;
  float a;
  unsigned vectors;
  std::uint64_t unused[16];
};

template <bool Early>
__global__ void __launch_bounds__(256) triad_kernel(triad_arguments const p) {
#if __CUDA_ARCH__ >= 900
  if constexpr (Early) cudaGridDependencySynchronize();
#endif
  unsigned const v = blockIdx.x * 256 + threadIdx.x;
  if (v >= p.vectors) return;
  float4 const x = reinterpret_cast<float4 const*>(p.x)[v];
  float4 const y = reinterpret_cast<float4 const*>(p.y)[v];
  float4 const o{p.a * x.x + y.x, p.a * x.y + y.y, p.a * x.z + y.z, p.a * x.w + y.w};
  reinterpret_cast<float4*>(p.o)[v] = o;
}

// 341 sets of three arrays of 2^16, past L2.
class triad_sets {
 public:
  triad_sets() {
    ww::check(cudaMalloc(&memory_, sets() * bytes()), "cudaMalloc");
    ww::check(cudaMemset(memory_, 0, sets() * bytes()), "cudaMemset");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~triad_sets() { ww::detail::discard(cudaFree(memory_)); }
  triad_sets(triad_sets const&) = delete;
  triad_sets& operator=(triad_sets const&) = delete;
  static constexpr std::size_t n = 65536;
  static std::size_t sets() { return 341; }
  static std::size_t bytes() { return 3 * n * sizeof(float); }
  triad_arguments arguments(std::size_t set) const {
    float* const p = static_cast<float*>(memory_) + set * 3 * n;
    return {p + 2 * n, p, p + n, 1.5F, n / 4, {}};
  }

 private:
  void* memory_ = nullptr;
};

constexpr unsigned triad_blocks = triad_sets::n / 4 / 256;

// The ways. Each is made once, and called for every launch.
struct by_chevrons {
  void operator()(ww::stream_ref s, triad_arguments const& p) const {
    triad_kernel<false><<<triad_blocks, 256, 0, s.get()>>>(p);
  }
};

template <bool Early>
struct by_runtime {
  void operator()(ww::stream_ref s, triad_arguments const& p) const {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3{triad_blocks};
    config.blockDim = dim3{256};
    config.stream = s.get();
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = Early ? 1 : 0;
    ww::check(cudaLaunchKernelEx(&config, &triad_kernel<Early>, p), "kernel launch");
  }
};

template <class F>
F driver_function(char const* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ww::check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result),
            name);
  F f = nullptr;
  std::memcpy(&f, &found, sizeof f);
  return f;
}

// The driver's call with the kernel's handle kept; its parameters as pointers, or as one buffer.
template <bool Early, bool Buffer>
struct by_driver {
  using launch_call = CUresult (*)(CUlaunchConfig const*, CUfunction, void**, void**);
  launch_call call = driver_function<launch_call>("cuLaunchKernelEx");
  cudaFunction_t kernel = nullptr;

  by_driver() {
    ww::check(cudaGetFuncBySymbol(&kernel, reinterpret_cast<void const*>(&triad_kernel<Early>)),
              "cudaGetFuncBySymbol");
  }
  void operator()(ww::stream_ref s, triad_arguments const& p) const {
    CUlaunchConfig config{};
    config.gridDimX = triad_blocks;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 256;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = s.get();
    CUlaunchAttribute early{};
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = Early ? 1 : 0;
    auto* const at = const_cast<triad_arguments*>(&p);  // the call only reads
    void* pointers[] = {at};
    std::size_t size = sizeof p;
    void* buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, at, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                      CU_LAUNCH_PARAM_END};
    CUresult const status =
        Buffer ? call(&config, kernel, nullptr, buffer) : call(&config, kernel, pointers, nullptr);
    if (status != CUDA_SUCCESS) ww::check(cudaErrorLaunchFailure, "cuLaunchKernelEx");
  }
};

template <class Way>
void launch_host(benchmark::State& state) {
  Way const way{};
  triad_sets const a;
  triad_arguments const p = a.arguments(0);
  host_time(state, [&](ww::stream_ref s, arrays&) { way(s, p); });
}
template <class Way>
void launch_stream(benchmark::State& state) {
  Way const way{};
  triad_sets const a;
  ww::stream s;
  bench_support::sample_launches(
      state, s, a, 20, [&](ww::stream_ref stream, triad_sets const& sets, std::size_t set) {
        way(stream, sets.arguments(set));
      });
}

template <class Way>
void add(char const* name) {
  using std::string;
  benchmark::RegisterBenchmark((string{"launch_host/"} + name).c_str(), launch_host<Way>);
  benchmark::RegisterBenchmark((string{"launch_stream/"} + name).c_str(), launch_stream<Way>)
      ->UseManualTime()
      ->Iterations(200);
}
int const registered = [] {
  add<by_chevrons>("chevrons");
  add<by_runtime<false>>("runtime");
  add<by_runtime<true>>("runtime_early");
  add<by_driver<false, false>>("driver");
  add<by_driver<true, false>>("driver_early");
  add<by_driver<false, true>>("driver_buffer");
  add<by_driver<true, true>>("driver_buffer_early");
  return 0;
}();
#endif

}  // namespace
