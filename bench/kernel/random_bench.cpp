// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers and fp8 in expressions, beside kernels written by hand with cuRAND's device
// functions (Philox, four elements a thread) and beside the same expression without random numbers.
//
//   uniform, normal   o = draw               1 array
//   dropout           o = dropout(x, 0.1)    2 arrays; scale: o = x / 0.9
//   rounded           o = stochastic_round(x), float to bf16; cast: o = x / 2, to nearest
//   quantised         o = x / 2, float to e4m3 and back
//
// A name ends in /n: time is that of 20 launches between two events, divided by 20. The launches
// go through sets of arrays of 256 MiB or more together (at most 1,024 sets), so that none is
// found in L2; the samples of one operation and size are interleaved. Counters: median, p10, p90 of
// a launch in us, and GB/s of the median, every array counted once. Before it is timed, a path's
// first set is compared with the host's.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

#if defined(__CUDACC__)
#include <curand_kernel.h>
#endif

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::fetch;
using bench_support::rotating_pairs;

namespace {

constexpr std::uint64_t seed = 2026;
constexpr std::uint64_t offset = 3;
constexpr double drop = 0.1;
constexpr std::int64_t launches = 20;

ew::philox generator() { return ew::philox{seed, offset}; }

// What is measured, as an expression of its input.
struct uniform {
  static constexpr bool reads = false;
  template <class T, class X>
  static auto of(X const&) {
    return ew::uniform(generator());
  }
};
struct normal {
  static constexpr bool reads = false;
  template <class T, class X>
  static auto of(X const&) {
    return ew::normal(generator());
  }
};
struct dropout {
  static constexpr bool reads = true;
  template <class T, class X>
  static auto of(X const& x) {
    return ew::dropout(x, drop, generator());
  }
};
struct scale {
  static constexpr bool reads = true;
  template <class T, class X>
  static auto of(X const& x) {
    return x * (1 / (1 - drop));
  }
};
struct rounded {
  static constexpr bool reads = true;
  template <class T, class X>
  static auto of(X const& x) {
    return ew::stochastic_round<T>(x, generator());
  }
};
struct halved {
  static constexpr bool reads = true;
  template <class T, class X>
  static auto of(X const& x) {
    return x * 0.5F;
  }
};

// Compares the first 2^16 elements of set 0 bit by bit, and erases what it compared.
template <class Operation, class In, class Out>
bool verified(rotating_pairs<In, Out> const& a) {
  std::size_t const count = std::min<std::size_t>(a.n(), 65536);
  std::vector<In> const x = Operation::reads ? fetch(a.in(0), count) : std::vector<In>(count);
  std::vector<Out> expected(count);
  ew::evaluate_host(ew::out(expected.data(), count) =
                        Operation::template of<Out>(ew::in(x.data(), count)));
  std::vector<Out> const got = fetch(a.out(0), count);
  ww::check(cudaMemset(static_cast<void*>(a.out(0)), 0xff, count * sizeof(Out)), "cudaMemset");
  return std::memcmp(static_cast<void const*>(got.data()),
                     static_cast<void const*>(expected.data()), count * sizeof(Out)) == 0;
}

template <class Operation>
struct warpwright_ew {
  template <class In, class Out>
  void operator()(ww::stream_ref s, rotating_pairs<In, Out> const& a, std::size_t set) const {
    ew::run(s, ew::out(a.out(set), a.n()) =
                   Operation::template of<Out>(ew::in(static_cast<In const*>(a.in(set)), a.n())));
  }
};

#if defined(__CUDACC__)

// cuRAND's Philox at element 4t, which draws the same bits: its subsequence is our offset.
__device__ curandStatePhilox4_32_10_t curand_at(std::uint64_t t) {
  curandStatePhilox4_32_10_t state;
  curand_init(seed, offset, 4 * t, &state);
  return state;
}
__global__ void __launch_bounds__(256) curand_uniform_kernel(float4* out, std::size_t fours) {
  std::size_t const t = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (t >= fours) return;
  auto state = curand_at(t);
  uint4 const w = curand4(&state);
  out[t] = make_float4(
      static_cast<float>(w.x >> 8U) * 0x1p-24F, static_cast<float>(w.y >> 8U) * 0x1p-24F,
      static_cast<float>(w.z >> 8U) * 0x1p-24F, static_cast<float>(w.w >> 8U) * 0x1p-24F);
}
__global__ void __launch_bounds__(256)
    curand_dropout_kernel(float4 const* in, float4* out, std::size_t fours, std::uint32_t below,
                          float factor) {
  std::size_t const t = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (t >= fours) return;
  float4 const x = in[t];
  auto state = curand_at(t);
  uint4 const w = curand4(&state);
  out[t] = make_float4(w.x < below ? 0.0F : x.x * factor, w.y < below ? 0.0F : x.y * factor,
                       w.z < below ? 0.0F : x.z * factor, w.w < below ? 0.0F : x.w * factor);
}
unsigned blocks_of(std::size_t threads) { return static_cast<unsigned>((threads + 255) / 256); }

struct curand_uniform {
  void operator()(ww::stream_ref s, rotating_pairs<float, float> const& a, std::size_t set) const {
    curand_uniform_kernel<<<blocks_of(a.n() / 4), 256, 0, s.get()>>>(
        reinterpret_cast<float4*>(a.out(set)), a.n() / 4);
  }
};
struct curand_dropout {
  void operator()(ww::stream_ref s, rotating_pairs<float, float> const& a, std::size_t set) const {
    curand_dropout_kernel<<<blocks_of(a.n() / 4), 256, 0, s.get()>>>(
        reinterpret_cast<float4 const*>(a.in(set)), reinterpret_cast<float4*>(a.out(set)),
        a.n() / 4, static_cast<std::uint32_t>(drop * 0x1p32 + 0.5),
        static_cast<float>(1 / (1 - drop)));
  }
};

constexpr std::int64_t largest = std::int64_t{1} << 28U;
constexpr int samples = 60;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t largest = std::int64_t{1} << 12U;
constexpr int samples = 2;
#endif

template <class Operation, class In, class Out>
auto operation() {
  using pairs = rotating_pairs<In, Out>;
  auto all = std::make_shared<bench_support::interleaved<pairs>>(
      [](ww::stream_ref s, bench_support::shape const& of) {
        auto const n = static_cast<std::size_t>(of[0]);
        auto made = std::make_unique<pairs>(n, Operation::reads);
        for (std::size_t k = 0; Operation::reads && k < made->sets(); ++k) {
          ew::run(s, ew::out(made->in(k), n) = ew::uniform(ew::philox{k}) * 4.0F - 2.0F);
        }
        return made;
      });
  all->add("warpwright_ew", warpwright_ew<Operation>{}, verified<Operation, In, Out>);
  return all;
}

template <class In, class Out>
void add(char const* name,
         std::shared_ptr<bench_support::interleaved<rotating_pairs<In, Out>>> const& all) {
  std::vector<bench_support::sampled_size> sizes;
  for (std::int64_t n = 4096; n <= largest; n *= 16)
    sizes.push_back({{n}, launches, samples, false});
  bench_support::interleaved<rotating_pairs<In, Out>>::register_all(all, name, sizes);
}

int const registered = [] {
  using bf16 = __nv_bfloat16;
  using e4m3 = __nv_fp8_e4m3;
  auto const uniform_f32 = operation<uniform, float, float>();
  auto const dropout_f32 = operation<dropout, float, float>();
#if defined(__CUDACC__)
  uniform_f32->add("curand_four_a_thread", curand_uniform{}, verified<uniform, float, float>);
  dropout_f32->add("curand_four_a_thread", curand_dropout{}, verified<dropout, float, float>);
#endif
  add("uniform_f32", uniform_f32);
  add("normal_f32", operation<normal, float, float>());
  add("normal_bf16", operation<normal, bf16, bf16>());
  add("dropout_f32", dropout_f32);
  add("dropout_bf16", operation<dropout, bf16, bf16>());
  add("scale_f32", operation<scale, float, float>());
  add("scale_bf16", operation<scale, bf16, bf16>());
  add("rounded_f32_to_bf16", operation<rounded, float, bf16>());
  add("cast_f32_to_bf16", operation<halved, float, bf16>());
  add("quantised_f32_to_e4m3", operation<halved, float, e4m3>());
  add("quantised_e4m3_to_f32", operation<halved, e4m3, float>());
  add("quantised_e4m3_to_bf16", operation<halved, e4m3, bf16>());
  return 0;
}();

}  // namespace
