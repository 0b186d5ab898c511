// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An input and an output of different types, as often as it takes to pass L2.
#pragma once

#include <warpwright/core.hpp>

#include <algorithm>
#include <cstddef>

namespace bench_support {

/// `sets` inputs and outputs that take turns, each on a boundary of 256 bytes: 256 MiB or more
/// together (at most 1,024 sets), so that none is found in L2.
template <class In, class Out>
class rotating_pairs {
 public:
  explicit rotating_pairs(std::size_t n, bool reads = true) : n_{n}, reads_{reads} {
    in_bytes_ = reads ? (n * sizeof(In) + 255) / 256 * 256 : 0;
    pitch_ = in_bytes_ + (n * sizeof(Out) + 255) / 256 * 256;
    sets_ = std::max<std::size_t>(1, std::min<std::size_t>(1024, (256U << 20U) / pitch_));
    warpwright::check(cudaMalloc(&memory_, pitch_ * sets_), "cudaMalloc");
  }
  ~rotating_pairs() { warpwright::detail::discard(cudaFree(memory_)); }
  rotating_pairs(rotating_pairs const&) = delete;
  rotating_pairs& operator=(rotating_pairs const&) = delete;

  In* in(std::size_t set) const {
    return reinterpret_cast<In*>(static_cast<unsigned char*>(memory_) + set * pitch_);
  }
  Out* out(std::size_t set) const {
    return reinterpret_cast<Out*>(static_cast<unsigned char*>(memory_) + set * pitch_ + in_bytes_);
  }
  std::size_t n() const { return n_; }
  std::size_t sets() const { return sets_; }
  std::size_t bytes() const { return n_ * ((reads_ ? sizeof(In) : 0) + sizeof(Out)); }

 private:
  std::size_t n_;
  bool reads_;
  std::size_t in_bytes_ = 0;
  std::size_t pitch_ = 0;
  std::size_t sets_ = 0;
  void* memory_ = nullptr;
};

}  // namespace bench_support
