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

/// @param many  vectors from which on a thread takes one
template <class... A>
void run_spread_grid(std::uint64_t many, A const&... a) {
  using fused = ew::detail::fused<A...>;
  ew::detail::operand all[fused::operands];
  fused::template describe<fused::vector>(all, warpwright::source_location::current(), a...);
  ew::detail::launch_plan plan = fused::deal_out(all, all[0].count);
  if (fused::may_spread) ew::detail::spread_out(plan, fused::vectors, many);
  fused const f{a...};
  for (unsigned b = 0; b < plan.blocks; ++b) {
    for (unsigned t = 0; t < plan.threads; ++t) {
      f.work(plan.deal.usual_vectors(), plan.deal, b, static_cast<unsigned>(plan.blocks), t,
             plan.threads);
    }
  }
}

template <class... A>
void run_grid(A const&... a) {
  run_spread_grid(ew::detail::many_vectors, a...);
}

}  // namespace kernel_test
