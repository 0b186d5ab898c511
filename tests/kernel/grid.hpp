// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A kernel's own work, vectors and all, thread by thread on the host.
#pragma once

#include <warpwright/kernel.hpp>

#include <cstring>
#include <vector>

namespace kernel_test {

namespace ew = warpwright::ew;

// Host memory that starts `offset` elements past a 64-byte boundary, with guards on both sides.
template <class T>
class placed {
 public:
  placed(std::vector<T> const& values, std::size_t offset)
      : memory_(values.size() * sizeof(T) + offset * sizeof(T) + 192, poison) {
    auto const base = reinterpret_cast<std::uintptr_t>(memory_.data());
    before_ = (64 - base % 64) % 64 + 64 + offset * sizeof(T);
    bytes_ = values.size() * sizeof(T);
    if (bytes_ != 0) std::memcpy(memory_.data() + before_, values.data(), bytes_);
  }
  T* data() { return reinterpret_cast<T*>(memory_.data() + before_); }
  bool intact() const {
    for (std::size_t k = 0; k < memory_.size(); ++k) {
      if ((k < before_ || k >= before_ + bytes_) && memory_[k] != poison) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char poison = 0xa5;
  std::vector<unsigned char> memory_;
  std::size_t before_;
  std::size_t bytes_;
};

/// @tparam Bytes  of a vector: 16, or 32 as on compute capability 10.0 and newer
/// @param many    vectors from which on a thread takes one
template <int Bytes = 16, class... A>
void run_spread_grid(std::uint64_t many, A const&... a) {
  using fused = ew::detail::fused<A...>;
  ew::detail::operand all[fused::operands];
  fused::template describe<fused::template vector_of<Bytes>>(
      all, warpwright::source_location::current(), a...);
  ew::detail::launch_plan plan = fused::template deal_out<Bytes>(all, all[0].count);
  if (fused::template may_spread<Bytes>) {
    ew::detail::spread_out(plan, fused::template vectors_of<Bytes>, many);
  }
  fused const f{a...};
  for (unsigned b = 0; b < plan.blocks; ++b) {
    for (unsigned t = 0; t < plan.threads; ++t) {
      f.template work<Bytes>(plan.deal.usual_vectors(), plan.deal, b,
                             static_cast<unsigned>(plan.blocks), t, plan.threads);
    }
  }
}

template <int Bytes = 16, class... A>
void run_grid(A const&... a) {
  run_spread_grid<Bytes>(ew::detail::many_vectors * 16 / Bytes, a...);
}

#if defined(__CUDACC__)

// By 32 bytes on any GPU: one that has no such access makes two of each.
template <class Fused>
__global__ void __launch_bounds__(ew::detail::most_threads)
    wide_kernel(unsigned const usual_vectors, Fused const f, ew::detail::schedule const deal) {
  f.template work<32>(usual_vectors, deal, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}
template <class... A>
void run_wide_kernel(warpwright::stream_ref stream, A const&... a) {
  using fused = ew::detail::fused<A...>;
  ew::detail::operand all[fused::operands];
  fused::template describe<fused::template vector_of<32>>(
      all, warpwright::source_location::current(), a...);
  ew::detail::launch_plan const plan = fused::template deal_out<32>(all, all[0].count);
  wide_kernel<<<static_cast<unsigned>(plan.blocks), plan.threads, 0, stream.get()>>>(
      plan.deal.usual_vectors(), fused{a...}, plan.deal);
  warpwright::check(cudaGetLastError(), "wide_kernel");
}

#endif

// By run(), or by the kernel's own work with vectors of 16 or 32 bytes, on the host runtime thread
// by thread. On a GPU run() is by 16.
enum class way { by_run, by_16, by_32 };
#if WARPWRIGHT_HOST_RUNTIME
inline constexpr way all_ways[] = {way::by_run, way::by_16, way::by_32};
#else
inline constexpr way all_ways[] = {way::by_run, way::by_32};
#endif

// Evaluates one assignment, or several as one kernel, and waits.
template <class... A>
void evaluate(warpwright::stream const& stream, way how, A const&... a) {
  if (how == way::by_run) {
    if constexpr (sizeof...(A) == 1) {
      ew::run(stream, a...);
    } else {
      ew::run(stream, ew::tie(a...));
    }
  } else if (((a.size != 0) && ...)) {
#if WARPWRIGHT_HOST_RUNTIME
    if (how == way::by_16) run_grid<16>(a...);
    if (how == way::by_32) run_grid<32>(a...);
#else
    run_wide_kernel(stream, a...);
#endif
  }
  stream.synchronize();
}

}  // namespace kernel_test
