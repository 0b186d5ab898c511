// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// for_each_index beside a kernel written by hand: host time of a launch, and bytes a second. Then
// one kernel (2^16 f32, triad) by every way that there is to launch it, in turns: `launch`/way/n/1
// is of one launch at a time, /20 of twenty back to back. `early` lets it start before the one
// before it has ended, for which it waits itself.
#include <benchmark/benchmark.h>

#include <warpwright/core/launch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "support/turns.hpp"
#include "support/values.hpp"

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
  std::uint64_t unused[8];
};

template <bool Early>
__global__ void __launch_bounds__(256) triad_kernel(triad_arguments const p) {
  if constexpr (Early) ww::detail::await_predecessors();
  unsigned const v = blockIdx.x * 256 + threadIdx.x;
  if (v >= p.vectors) return;
  float4 const x = reinterpret_cast<float4 const*>(p.x)[v];
  float4 const y = reinterpret_cast<float4 const*>(p.y)[v];
  float4 const o{p.a * x.x + y.x, p.a * x.y + y.y, p.a * x.z + y.z, p.a * x.w + y.w};
  reinterpret_cast<float4*>(p.o)[v] = o;
}

// Sets of three arrays, past L2.
class triad_sets {
 public:
  triad_sets(ww::stream_ref, std::size_t n) : n_{n} {
    ww::check(cudaMalloc(&memory_, sets() * bytes()), "cudaMalloc");
    ww::check(cudaMemset(memory_, 0x3f, sets() * bytes()), "cudaMemset");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~triad_sets() { ww::detail::discard(cudaFree(memory_)); }
  triad_sets(triad_sets const&) = delete;
  triad_sets& operator=(triad_sets const&) = delete;
  std::size_t sets() const { return (std::size_t{256} << 20U) / bytes(); }
  std::size_t bytes() const { return 3 * n_ * sizeof(float); }
  unsigned blocks() const { return static_cast<unsigned>(n_ / 4 / 256); }
  // Of set 0, whose outputs it wipes out.
  bool right() const {
    std::vector<float> const out = bench_support::fetch(arguments(0).o, n_);
    ww::check(cudaMemset(arguments(0).o, 0, n_ * sizeof(float)), "cudaMemset");
    float input = 0;
    std::memset(&input, 0x3f, sizeof input);
    return std::all_of(out.begin(), out.end(), [&](float o) { return o == 2.5F * input; });
  }
  triad_arguments arguments(std::size_t set) const {
    float* const p = static_cast<float*>(memory_) + set * 3 * n_;
    return {p + 2 * n_, p, p + n_, 1.5F, static_cast<unsigned>(n_ / 4), {}};
  }

 private:
  std::size_t n_;
  void* memory_ = nullptr;
};

// The ways. Each is made once, and called for every launch.
struct by_chevrons {
  void operator()(ww::stream_ref s, triad_sets const& a, std::size_t set) const {
    triad_kernel<false><<<a.blocks(), 256, 0, s.get()>>>(a.arguments(set));
  }
};

template <bool Early>
struct configuration {
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute early{};
  configuration(ww::stream_ref s, triad_sets const& a) {
    config.gridDim = dim3{a.blocks()};
    config.blockDim = dim3{256};
    config.stream = s.get();
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = Early ? 1 : 0;
  }
  configuration(configuration const&) = delete;  // the one points to the other
  configuration& operator=(configuration const&) = delete;
};

template <bool Early>
struct by_runtime {
  void operator()(ww::stream_ref s, triad_sets const& a, std::size_t set) const {
    configuration<Early> const c{s, a};
    ww::check(cudaLaunchKernelEx(&c.config, &triad_kernel<Early>, a.arguments(set)),
              "kernel launch");
  }
};

// The driver's call: with the function of a context, or with the kernel's handle in all contexts.
template <bool Early, bool Function>
struct by_driver {
  int (*call)(cudaLaunchConfig_t const*, void*, void**, void**) = nullptr;
  void* kernel = nullptr;

  by_driver() {
    auto const* const symbol = reinterpret_cast<void const*>(&triad_kernel<Early>);
    if (!ww::detail::find_driver_function("cuLaunchKernelEx", call)) {
      ww::check(cudaErrorSymbolNotFound, "cuLaunchKernelEx");
    }
    if constexpr (Function) {
      cudaFunction_t function = nullptr;
      ww::check(cudaGetFuncBySymbol(&function, symbol), "cudaGetFuncBySymbol");
      kernel = function;
    } else {
      cudaKernel_t handle = nullptr;
      ww::check(cudaGetKernel(&handle, symbol), "cudaGetKernel");
      kernel = handle;
    }
  }
  void operator()(ww::stream_ref s, triad_sets const& a, std::size_t set) const {
    configuration<Early> const c{s, a};
    triad_arguments p = a.arguments(set);
    void* arguments[] = {&p};
    if (call(&c.config, kernel, arguments, nullptr) != 0) {
      ww::check(cudaErrorLaunchFailure, "cuLaunchKernelEx");
    }
  }
};

struct by_warpwright {
  void operator()(ww::stream_ref s, triad_sets const& a, std::size_t set) const {
    ww::detail::launch_kernel<by_warpwright>(&triad_kernel<true>, dim3{a.blocks()}, dim3{256}, 0, s,
                                             ww::source_location::current(), a.arguments(set));
  }
};

int const registered = [] {
  using all_ways = bench_support::turns<triad_sets>;
  auto const all = std::make_shared<all_ways>(
      [](ww::stream_ref s, std::size_t n) { return std::make_unique<triad_sets>(s, n); });
  auto const right = [](triad_sets const& a) { return a.right(); };
  all->add("chevrons", by_chevrons{}, right)
      .add("runtime", by_runtime<false>{}, right)
      .add("runtime_early", by_runtime<true>{}, right)
      .add("driver_function", by_driver<false, true>{}, right)
      .add("driver_function_early", by_driver<true, true>{}, right)
      .add("driver_kernel_early", by_driver<true, false>{}, right)
      .add("warpwright", by_warpwright{}, right);
  all_ways::register_all(all, "launch", {{65536, 1, 300}, {65536, 20, 300}});
  return 0;
}();
#endif

}  // namespace
