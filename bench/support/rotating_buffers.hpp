// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Device memory that launches go through in turn, larger than L2, so that no launch finds its
// buffers there.
#pragma once

#include <warpwright/core.hpp>

#include <algorithm>
#include <cstddef>

namespace bench_support {

/// `bytes` rounded up to a boundary of 256, where every buffer of a set begins.
constexpr std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Sets of buffers and, behind them, bytes that all sets share, in one allocation.
class rotating_buffers {
 public:
  struct limits {
    std::size_t least_sets = 1;
    std::size_t most_sets = 4096;
    std::size_t bytes = std::size_t{256}
                        << 20U;  ///< of all sets together, unless most_sets is less
  };

  rotating_buffers(std::size_t set_bytes, std::size_t shared_bytes, limits const& of)
      : set_bytes_{set_bytes},
        sets_{std::min(std::max(of.least_sets, of.bytes / set_bytes), of.most_sets)} {
    warpwright::check(cudaMalloc(&memory_, bytes() + shared_bytes), "cudaMalloc");
  }
  ~rotating_buffers() { warpwright::detail::discard(cudaFree(memory_)); }
  rotating_buffers(rotating_buffers const&) = delete;
  rotating_buffers& operator=(rotating_buffers const&) = delete;

  std::size_t sets() const { return sets_; }
  std::size_t bytes() const { return set_bytes_ * sets_; }
  /// What lies `offset` bytes behind the start of a set, or of the shared bytes.
  unsigned char* set(std::size_t index, std::size_t offset = 0) const {
    return static_cast<unsigned char*>(memory_) + index * set_bytes_ + offset;
  }
  unsigned char* shared(std::size_t offset = 0) const { return set(sets_, offset); }

 private:
  std::size_t set_bytes_;
  std::size_t sets_;
  void* memory_ = nullptr;
};

/// Sets of an input and an output of n elements each.
template <class In, class Out>
class rotating_pairs {
 public:
  explicit rotating_pairs(std::size_t n, bool reads = true)
      : n_{n},
        reads_{reads},
        in_bytes_{reads ? padded(n * sizeof(In)) : 0},
        memory_{in_bytes_ + padded(n * sizeof(Out)), 0, {1, 1024}} {}

  In* in(std::size_t set) const { return reinterpret_cast<In*>(memory_.set(set)); }
  Out* out(std::size_t set) const { return reinterpret_cast<Out*>(memory_.set(set, in_bytes_)); }
  std::size_t n() const { return n_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t bytes() const { return n_ * ((reads_ ? sizeof(In) : 0) + sizeof(Out)); }

 private:
  std::size_t n_;
  bool reads_;
  std::size_t in_bytes_;
  rotating_buffers memory_;
};

}  // namespace bench_support
