// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Scaled conversions: o = x * 0.125 from one element type to another.
//
//   fp8_to_f16, i8_to_f32      quantised weights and activations, unpacked
//   f32_to_fp8, f32_to_bf16    packed
//
// A name ends in /n/launches, as in evaluate_bench: time is that of `launches` launches between two
// events, divided by their number. The samples of one conversion and size are interleaved.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

#if defined(__CUDACC__) && __has_include(<cub/device/device_transform.cuh>)
#include <cub/device/device_transform.cuh>
#define CONVERSION_BENCH_HAS_CUB 1
#else
#define CONVERSION_BENCH_HAS_CUB 0
#endif

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::fetch;
using bench_support::rotating_pairs;
using bench_support::scattered;

namespace {

constexpr float factor = 0.125F;

// As the peers do it: by CUDA's own conversions.
template <class Out, class In>
WARPWRIGHT_HOST_DEVICE Out scaled(In x) {
  float const v = static_cast<float>(x) * factor;
  if constexpr (std::is_same<Out, __half>::value) {
    return __float2half_rn(v);
  } else if constexpr (std::is_same<Out, __nv_bfloat16>::value) {
    return __float2bfloat16_rn(v);
  } else if constexpr (std::is_same<Out, __nv_fp8_e4m3>::value) {
    return __nv_fp8_e4m3(v);
  } else {
    return v;
  }
}

template <class In, class Out>
struct scale {
  __host__ __device__ Out operator()(In x) const { return scaled<Out>(x); }
};

// Compares the first 2^16 elements of pair 0 bit by bit, and wipes out what it compared.
template <class In, class Out>
bool verified(rotating_pairs<In, Out> const& a) {
  std::size_t const count = std::min<std::size_t>(a.n(), 65536);
  std::vector<In> const x = fetch(a.in(0), count);
  std::vector<Out> const got = fetch(a.out(0), count);
  for (std::size_t i = 0; i < count; ++i) {
    Out const expected = scaled<Out>(x[i]);
    if (std::memcmp(static_cast<void const*>(&got[i]), static_cast<void const*>(&expected),
                    sizeof(Out)) != 0) {
      return false;
    }
  }
  ww::check(cudaMemset(a.out(0), 0xff, count * sizeof(Out)), "cudaMemset");
  return true;
}

struct warpwright_ew {
  template <class In, class Out>
  void operator()(ww::stream_ref s, rotating_pairs<In, Out> const& a, std::size_t set) const {
    ew::run(s,
            ew::out(a.out(set), a.n()) = ew::in(static_cast<In const*>(a.in(set)), a.n()) * factor);
  }
};
struct copy_of_same_traffic {
  template <class In, class Out>
  void operator()(ww::stream_ref s, rotating_pairs<In, Out> const& a, std::size_t set) const {
    std::size_t const moved = a.bytes() / 2;  // the pair, as one array
    auto* const memory = reinterpret_cast<unsigned char*>(a.in(set));
    ww::check(cudaMemcpyAsync(memory + moved, memory, moved, cudaMemcpyDeviceToDevice, s.get()),
              "cudaMemcpyAsync");
  }
};

#if defined(__CUDACC__)
// The wider side is moved 16 bytes at a time, the other in as many elements.
template <class In, class Out>
__global__ void __launch_bounds__(256) sixteen_bytes_kernel(In const* in, Out* out, std::size_t n) {
  constexpr std::size_t wider = sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out);
  constexpr std::size_t each = 16 / wider;
  struct alignas(each * sizeof(In)) ins {
    In v[each];
  };
  struct alignas(each * sizeof(Out)) outs {
    Out v[each];
  };
  std::size_t const first = std::size_t{blockIdx.x} * 512 + threadIdx.x;
  ins x[2];
#pragma unroll
  for (unsigned u = 0; u < 2; ++u) {
    if ((first + u * 256) * each < n) x[u] = reinterpret_cast<ins const*>(in)[first + u * 256];
  }
#pragma unroll
  for (unsigned u = 0; u < 2; ++u) {
    outs y;
#pragma unroll
    for (unsigned j = 0; j < each; ++j) y.v[j] = scaled<Out>(x[u].v[j]);
    if ((first + u * 256) * each < n) reinterpret_cast<outs*>(out)[first + u * 256] = y;
  }
}
struct sixteen_bytes_a_thread {
  template <class In, class Out>
  void operator()(ww::stream_ref s, rotating_pairs<In, Out> const& a, std::size_t set) const {
    constexpr std::size_t each = 16 / (sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));
    auto const blocks = static_cast<unsigned>((a.n() / each + 511) / 512);
    sixteen_bytes_kernel<<<blocks, 256, 0, s.get()>>>(a.in(set), a.out(set), a.n());
    ww::check(cudaGetLastError(), "sixteen_bytes_kernel");
  }
};
#if CONVERSION_BENCH_HAS_CUB
struct cub_device_transform {
  template <class In, class Out>
  void operator()(ww::stream_ref s, rotating_pairs<In, Out> const& a, std::size_t set) const {
    ww::check(
        cub::DeviceTransform::Transform(a.in(set), a.out(set), static_cast<std::int64_t>(a.n()),
                                        scale<In, Out>{}, s.get()),
        "cub::DeviceTransform::Transform");
  }
};
#endif
constexpr std::int64_t smallest = std::int64_t{1} << 16U;
constexpr std::int64_t largest = std::int64_t{1} << 28U;
constexpr int samples = 40;
#else
constexpr std::int64_t smallest = 1024;  // shows that the program works, never a speed
constexpr std::int64_t largest = 4096;
constexpr int samples = 2;
#endif

template <class In, class Out>
void add_pair(std::string const& name) {
  using arrays = rotating_pairs<In, Out>;
  auto const all = std::make_shared<bench_support::interleaved<arrays>>(
      [](ww::stream_ref s, bench_support::shape const& of) {
        auto const n = static_cast<std::size_t>(of[0]);
        auto made = std::make_unique<arrays>(n);
        for (std::size_t set = 0; set < made->sets(); ++set) {
          ew::run(s, ew::out(made->in(set), n) = ew::map(scattered{set}, ew::index()) * 100.0F);
        }
        return made;
      });
  auto const right = [](arrays const& a) { return verified(a); };
  all->add("warpwright_ew", warpwright_ew{}, right);
#if defined(__CUDACC__)
  all->add("sixteen_bytes_a_thread", sixteen_bytes_a_thread{}, right);
#if CONVERSION_BENCH_HAS_CUB
  all->add("cub_device_transform", cub_device_transform{}, right);
#endif
#endif
  all->add("copy_of_same_traffic", copy_of_same_traffic{}, [](arrays const&) { return true; });
  std::vector<bench_support::sampled_size> sizes;
  for (std::int64_t n = smallest; n <= largest; n *= 4) {
    sizes.push_back({{n}, n >= (std::int64_t{1} << 24U) ? 1 : 20, samples});
  }
  bench_support::interleaved<arrays>::register_all(all, name, sizes);
}

int const registered = [] {
  add_pair<__nv_fp8_e4m3, __half>("fp8_to_f16");
  add_pair<std::int8_t, float>("i8_to_f32");
  add_pair<float, __nv_fp8_e4m3>("f32_to_fp8");
  add_pair<float, __nv_bfloat16>("f32_to_bf16");
  return 0;
}();

}  // namespace
