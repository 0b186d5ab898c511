// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures what a stream's device reaches:
//
//   ww::stream stream;
//   std::puts(ww::to_text(ww::measure_ceilings(stream)).c_str());
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/measure/detail/ceilings_core.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

/// Options of measure_ceilings().
class ceiling_options : public detail::options_base<ceiling_options, detail::ceiling_settings> {
 public:
  /// @param bytes  of each of two buffers, at least 1 MiB and 4 times a GPU's L2 cache; 0, the
  ///   default: 1 GiB, or a quarter of the free memory; the host runtime's: 16 MiB
  [[nodiscard]] constexpr ceiling_options bytes(std::size_t bytes) const {
    return with(&values::bytes, bytes);
  }
  /// @param seconds  of each measurement, about; default: 0.2
  [[nodiscard]] constexpr ceiling_options seconds_each(double seconds) const {
    return with(&values::seconds_each, seconds);
  }
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

namespace ceiling_kernels {

struct alignas(16) quad {
  std::uint32_t a, b, c, d;
};

#if defined(__CUDA_ARCH__)
// Past L1: other multiprocessors' reads of the same line count, too.
__device__ inline quad load_from_l2(quad const* p) {
  quad v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.a), "=r"(v.b), "=r"(v.c), "=r"(v.d)
               : "l"(p));
  return v;
}
#endif

// Four loads a thread, a quarter of the buffer apart; the sink keeps the compiler from leaving them
// out.
struct read_all {
  quad const* from;
  std::uint32_t* sink;
  std::uint64_t quarter, mask;  // mask: where only that part of it is read, again and again
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    std::uint32_t sum = 0;
    for (std::uint64_t k = 0; k < 4; ++k) {
#if defined(__CUDA_ARCH__)
      quad const v = load_from_l2(from + ((i & mask) + k * quarter));
#else
      quad const v = from[(i & mask) + k * quarter];
#endif
      sum ^= v.a ^ v.b ^ v.c ^ v.d;
    }
    if (sum == 0x9e3779b9U) *sink = sum;
  }
};
struct write_all {
  quad* to;
  std::uint64_t quarter;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    auto const value = static_cast<std::uint32_t>(i);
    for (std::uint64_t k = 0; k < 4; ++k) to[i + k * quarter] = {value, value, value, value};
  }
};

// Random bits, as zeros would let the clock rate rise: bfloat16 (or float16) in +-[0.5, 2).
struct fill_random {
  std::uint16_t* to;
  std::uint16_t sign_and_mantissa, exponent;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 32U)) * 0xd6e8feb86659fd93U;
    to[i] = static_cast<std::uint16_t>((x >> 40U & sign_and_mantissa) | exponent);
  }
};

// A fused multiply-add of one element, or of the two of a pair of 16 bits each.
template <class T>
struct fma_one {
  using type = T;
  static constexpr double flops = 2.0;
  WARPWRIGHT_HOST_DEVICE static T call(T a, T x, T y) {
#if defined(__CUDA_ARCH__)
    return fma(a, x, y);  // with -fmad=false, too
#else
    return a * x + y;
#endif
  }
  WARPWRIGHT_HOST_DEVICE static T of(float v) { return static_cast<T>(v); }
};
template <bool Bfloat16>
struct fma_pairs {
  using type = std::uint32_t;
  static constexpr double flops = 4.0;
  WARPWRIGHT_HOST_DEVICE static std::uint32_t call(std::uint32_t a, std::uint32_t x,
                                                   std::uint32_t y) {
#if defined(__CUDA_ARCH__)
    if constexpr (Bfloat16) {
#if __CUDA_ARCH__ >= 800
      asm volatile("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(a) : "r"(x), "r"(y));
#endif
    } else {
      asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a) : "r"(x), "r"(y));
    }
    return a;
#else
    return a * x + y;
#endif
  }
  // A value in [0.5, 1) of both, of its own for each of 0 to 15 and for 0.5.
  WARPWRIGHT_HOST_DEVICE static std::uint32_t of(float v) {
    std::uint32_t const half =
        (Bfloat16 ? 0x3f00U : 0x3800U) + static_cast<std::uint32_t>(2.0F * v);
    return half << 16U | half;
  }
};

template <class Fma>
struct multiply_add {
  std::uint32_t* sink;
  int rounds;
  float x, y;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    using type = typename Fma::type;
    type const by = Fma::of(x), plus = Fma::of(y);
    type a[8];
    for (int k = 0; k < 8; ++k)
      a[k] = Fma::of(static_cast<float>((i + static_cast<unsigned>(k)) & 15U));
    for (int r = 0; r < rounds; r += detail::unrolled_rounds) {
      WARPWRIGHT_UNROLL
      for (int k = 0; k < 8 * detail::unrolled_rounds; ++k) {
        a[k % 8] = Fma::call(a[k % 8], by, plus);
      }
    }
    type sum = a[0];
    for (int k = 1; k < 8; ++k) sum = Fma::call(sum, by, a[k]);
    if (sum == static_cast<type>(123456789)) *sink = 1;
  }
};

struct nothing {
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {}
};

// A cycle through all lines of 128 B, in steps that no prefetcher follows; `lines` is a power of
// two.
struct link_lines {
  std::uint32_t* all;
  std::uint32_t lines;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    auto const at = static_cast<std::uint32_t>(i);
    all[std::size_t{at} * 32] = (at * 1664525U + 1013904223U) & (lines - 1);  // Hull and Dobell
  }
};
struct follow_lines {
  std::uint32_t const* all;
  std::uint32_t* at;
  std::uint32_t steps;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    std::uint32_t line = *at;
    for (std::uint32_t s = 0; s < steps; ++s) line = all[std::size_t{line} * 32];
    *at = line;
  }
};

}  // namespace ceiling_kernels

/// Measures the ceilings of a stream's device. Other work on the device falsifies them. Peer access
/// to the others is enabled meanwhile, and disabled again where it was not.
/// @param stream  of any device; a default stream is that of the current one
/// @throws std::invalid_argument  for a capturing stream, or options out of range
/// @throws out_of_memory  also where two buffers of 4 times the L2 cache are not free
/// @throws cuda_error  when a call fails
/// **Stream:** blocks. **Capture:** not legal. **Cost:** 3 to 5 s, and 1 s more for each other
/// device: call it once, and keep the result. cuBLAS is loaded where the system finds it, as
/// libcublas.so.13 or .12.
template <class Empty = ceiling_kernels::nothing>
device_ceilings measure_ceilings(stream_ref stream, ceiling_options const& options = {},
                                 source_location where = source_location::current()) {
  namespace k = ceiling_kernels;
  detail::ceilings_core core{stream, values_of(options), where};
  auto* const from = reinterpret_cast<k::quad*>(core.source());
  auto* const to = reinterpret_cast<k::quad*>(core.target());
  std::uint32_t* const sink = core.sink();
  std::uint64_t const threads = core.bytes() / (4 * sizeof(k::quad));
  auto const bytes = static_cast<double>(core.bytes());
  core.copies();
  auto const run = [&](limit which, double work, std::uint64_t n, auto const& f) {
    core.rate(which, work, [&] { for_each_index(stream, n, f, where); });
  };
  run(limit::write, bytes, threads, k::write_all{to, threads});
  for_each_index(stream, threads, k::write_all{from, threads}, where);
  run(limit::read, bytes, threads, k::read_all{from, sink, threads, ~std::uint64_t{0}});
  if (std::uint64_t const part = core.l2_part() / (4 * sizeof(k::quad)); part != 0) {
    std::uint64_t const repeated = part * 32;
    run(limit::l2_read, static_cast<double>(repeated * 4 * sizeof(k::quad)), repeated,
        k::read_all{from, sink, part, part - 1});
  }
  auto const arithmetic = [&](limit which, auto fma) {
    using type = decltype(fma);
    std::uint64_t const n = core.resident_threads();
    int const rounds = core.rounds(which);
    run(which, type::flops * 8.0 * rounds * static_cast<double>(n), n,
        k::multiply_add<type>{sink, rounds, 0.5F, 1.0F});
  };
  arithmetic(limit::fp32, k::fma_one<float>{});
  arithmetic(limit::fp64, k::fma_one<double>{});
  arithmetic(limit::fp16, k::fma_pairs<false>{});
  if (core.has_bfloat16()) arithmetic(limit::bf16, k::fma_pairs<true>{});
  core.tensor([&](void* matrices, std::size_t count, bool bfloat16) {
    for_each_index(stream, count,
                   k::fill_random{static_cast<std::uint16_t*>(matrices),
                                  static_cast<std::uint16_t>(bfloat16 ? 0x80ffU : 0x87ffU),
                                  static_cast<std::uint16_t>(bfloat16 ? 0x3f00U : 0x3800U)},
                   where);
  });
  auto const lines = static_cast<std::uint32_t>(core.latency_lines());
  auto* const chain = reinterpret_cast<std::uint32_t*>(from);
  for_each_index(stream, lines, k::link_lines{chain, lines}, where);
  core.latency([&](std::uint32_t steps) {
    for_each_index(stream, 1, k::follow_lines{chain, sink, steps}, where);
  });
  core.launches([&](stream_ref s) { for_each_index(s, 1, Empty{}, where); });
  core.links();
  return core.finish();
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
