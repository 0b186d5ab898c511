// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// for_each_index compared with a kernel written by hand: host time of a launch, and time on the
// device of one launch at a time (bandwidth/<path>/<n>/1). Then one kernel (2^16 f32, triad) with
// every method of launching it: launch/<method>/<n>/1 is one launch at a time, /20 twenty back to
// back. `early` is a programmatic dependent launch: it starts before the previous kernel has ended,
// and waits for that itself. Times on the device are of interleaved samples, over arrays of 256 MiB
// or more together.
#include <benchmark/benchmark.h>

#include <warpwright/core/detail/launch/driver_function.hpp>
#include <warpwright/core/launch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

namespace ww = warpwright;

namespace {

struct scale {
  float* out;
  float const* in;
  float factor;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = factor * in[i]; }
};

struct fill {
  float* out;
  float value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = value; }
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

void for_each_index_launch(benchmark::State& state) {
  host_time(state, [](ww::stream_ref s, arrays& a) {
    ww::for_each_index(s, 256, scale{a.out, a.in, 2.0F});
  });
}
BENCHMARK(for_each_index_launch);

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

#endif

// ---- Time on the device ----

// Sets of an input and an output.
using scaled_arrays = bench_support::rotating_pairs<float, float>;

struct for_each_index_of_ours {
  void operator()(ww::stream_ref s, scaled_arrays const& a, std::size_t set) const {
    ww::for_each_index(s, a.n(), scale{a.out(set), a.in(set), 2.0F});
  }
};
#if defined(__CUDACC__)
struct raw_kernel {
  void operator()(ww::stream_ref s, scaled_arrays const& a, std::size_t set) const {
    auto const blocks = static_cast<unsigned>((a.n() + 255) / 256);
    scale_kernel<<<blocks, 256, 0, s.get()>>>(a.out(set), a.in(set), 2.0F, a.n());
  }
};
constexpr std::int64_t largest = std::int64_t{1} << 28U;
constexpr int samples = 60;
#else
constexpr std::int64_t largest = std::int64_t{1} << 16U;  // shows that it works, never a speed
constexpr int samples = 2;
#endif

// Compares set 0 with twice its input, 3, and erases it.
bool is_doubled(scaled_arrays const& a) {
  std::vector<float> const out = bench_support::fetch(a.out(0), a.n());
  ww::check(cudaMemset(a.out(0), 0xff, a.n() * sizeof(float)), "cudaMemset");
  return std::all_of(out.begin(), out.end(), [](float o) { return o == 6.0F; });
}

int const bandwidth_registered = [] {
  using paths = bench_support::interleaved<scaled_arrays>;
  auto const all = std::make_shared<paths>([](ww::stream_ref s, bench_support::shape const& of) {
    auto const n = static_cast<std::size_t>(of[0]);
    auto made = std::make_unique<scaled_arrays>(n);
    for (std::size_t set = 0; set < made->sets(); ++set) {
      ww::for_each_index(s, n, fill{made->in(set), 3.0F});
    }
    return made;
  });
  all->add("for_each_index", for_each_index_of_ours{}, is_doubled);
#if defined(__CUDACC__)
  all->add("raw_kernel", raw_kernel{}, is_doubled);
#endif
  std::vector<bench_support::sampled_size> sizes;
  for (std::int64_t n = 1 << 16; n <= largest; n *= 16) sizes.push_back({{n}, 1, samples});
  paths::register_all(all, "bandwidth", sizes);
  return 0;
}();

#if defined(__CUDACC__)
// As much as a fused expression of three arrays passes.
struct triad_arguments {
  float* o;
  float const* x;
  float const* y;
  float a;
  unsigned vectors;
  std::uint64_t unused[8];
};

WARPWRIGHT_HOST_DEVICE inline void triad(triad_arguments const& p, unsigned v) {
  if (v >= p.vectors) return;
  float4 const x = reinterpret_cast<float4 const*>(p.x)[v];
  float4 const y = reinterpret_cast<float4 const*>(p.y)[v];
  float4 const o{p.a * x.x + y.x, p.a * x.y + y.y, p.a * x.z + y.z, p.a * x.w + y.w};
  reinterpret_cast<float4*>(p.o)[v] = o;
}

template <bool Early>
__global__ void __launch_bounds__(256) triad_kernel(triad_arguments const p) {
  if constexpr (Early) ww::detail::pdl_wait();
  triad(p, blockIdx.x * 256 + threadIdx.x);
}

// The same as a kernel of the library.
struct triad_block_kernel : ww::detail::kernel_base<256> {
  triad_arguments p;
  explicit triad_block_kernel(triad_arguments const& arguments) : p{arguments} {}
  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned t) { triad(p, block.index() * 256 + t); });
  }
};

// Sets of three arrays, past L2.
class triad_sets {
 public:
  triad_sets(ww::stream_ref, std::size_t n) : n_{n}, memory_{3 * n * sizeof(float), 0, {}} {
    ww::check(cudaMemset(memory_.set(0), 0x3f, memory_.bytes()), "cudaMemset");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  std::size_t sets() const { return memory_.sets(); }
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
    auto* const p = reinterpret_cast<float*>(memory_.set(set));
    return {p + 2 * n_, p, p + n_, 1.5F, static_cast<unsigned>(n_ / 4), {}};
  }

 private:
  std::size_t n_;
  bench_support::rotating_buffers memory_;
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
struct driver_kernel {
  int (*call)(cudaLaunchConfig_t const*, void*, void**, void**) = nullptr;
  void* kernel = nullptr;

  driver_kernel() {
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
};
template <bool Early, bool Function>
struct by_driver {
  void operator()(ww::stream_ref s, triad_sets const& a, std::size_t set) const {
    static driver_kernel<Early, Function> const triad;
    configuration<Early> const c{s, a};
    triad_arguments p = a.arguments(set);
    void* arguments[] = {&p};
    if (triad.call(&c.config, triad.kernel, arguments, nullptr) != 0) {
      ww::check(cudaErrorLaunchFailure, "cuLaunchKernelEx");
    }
  }
};

struct by_warpwright {
  void operator()(ww::stream_ref s, triad_sets const& a, std::size_t set) const {
    ww::detail::launch_blocks(s, a.blocks(), 256, triad_block_kernel{a.arguments(set)}, "triad",
                              ww::source_location::current());
  }
};

int const ways_registered = [] {
  using all_ways = bench_support::interleaved<triad_sets>;
  auto const all = std::make_shared<all_ways>([](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<triad_sets>(s, static_cast<std::size_t>(of[0]));
  });
  auto const right = [](triad_sets const& a) { return a.right(); };
  all->add("chevrons", by_chevrons{}, right)
      .add("runtime", by_runtime<false>{}, right)
      .add("runtime_early", by_runtime<true>{}, right)
      .add("driver_function", by_driver<false, true>{}, right)
      .add("driver_function_early", by_driver<true, true>{}, right)
      .add("driver_kernel_early", by_driver<true, false>{}, right)
      .add("warpwright", by_warpwright{}, right);
  all_ways::register_all(all, "launch", {{{65536}, 1, 300}, {{65536}, 20, 300}});
  return 0;
}();
#endif

}  // namespace
