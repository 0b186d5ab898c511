// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of every element type, and device arrays that notice a write beside them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <warpwright/core.hpp>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace kernel_test {

namespace ww = warpwright;

/// What a call says that refuses its arguments, or "accepted".
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "accepted";
}

template <class T>
T number(double value) {
  if constexpr (std::is_same<T, __half>::value) {
    return __float2half_rn(static_cast<float>(value));
  } else if constexpr (std::is_same<T, __nv_bfloat16>::value) {
    return __float2bfloat16_rn(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
double as_double(T value) {
  if constexpr (std::is_same<T, __half>::value) {
    return static_cast<double>(__half2float(value));
  } else if constexpr (std::is_same<T, __nv_bfloat16>::value) {
    return static_cast<double>(__bfloat162float(value));
  } else {
    return static_cast<double>(value);
  }
}

inline constexpr unsigned char poison = 0xa5;
/// Whether all of `bytes`, at least one, are that: each is like the one before it.
inline bool is_poison(unsigned char const* p, std::size_t bytes) {
  return p[0] == poison && std::memcmp(p, p + 1, bytes - 1) == 0;
}

/// `size` elements of device memory that start `offset` elements past a 256-byte boundary, with
/// poisoned guards on both sides.
template <class T>
class guarded {
 public:
  guarded(std::size_t size, std::size_t offset)
      : size_{size}, before_{256 + offset * sizeof(T)}, bytes_{before_ + size * sizeof(T) + 256} {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, bytes_), "cudaMalloc");
    base_ = static_cast<unsigned char*>(p);
    ww::check(cudaMemset(base_, poison, bytes_), "cudaMemset");
    wait();
  }
  guarded(std::vector<T> const& values, std::size_t offset) : guarded(values.size(), offset) {
    assign(values);
  }
  guarded(guarded const&) = delete;
  guarded& operator=(guarded const&) = delete;
  ~guarded() { ww::detail::discard(cudaFree(base_)); }

  T* data() const { return reinterpret_cast<T*>(base_ + before_); }
  std::size_t size() const { return size_; }

  void assign(std::vector<T> const& values) {
    if (values.empty()) return;
    ww::check(cudaMemcpy(data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              "cudaMemcpy");
    wait();
  }
  /// Waits for `stream`, then copies the elements to the host.
  std::vector<T> fetch(ww::stream_ref stream) const {
    std::vector<unsigned char> const all = fetch_bytes(stream);
    std::vector<T> values(size_);
    if (size_ != 0) {
      std::memcpy(static_cast<void*>(values.data()), all.data() + before_, size_ * sizeof(T));
    }
    return values;
  }
  /// Waits for `stream`, then tells whether both guards are as they were.
  bool intact(ww::stream_ref stream) const {
    std::vector<unsigned char> const all = fetch_bytes(stream);
    std::size_t const end = before_ + size_ * sizeof(T);
    return is_poison(all.data(), before_) && is_poison(all.data() + end, bytes_ - end);
  }

 private:
  // cudaMemset and a copy from pageable memory may return early, and no non-blocking stream waits.
  static void wait() { ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  std::vector<unsigned char> fetch_bytes(ww::stream_ref stream) const {
    stream.synchronize();
    std::vector<unsigned char> all(bytes_);
    ww::check(cudaMemcpy(all.data(), base_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return all;
  }

  std::size_t size_;
  std::size_t before_;
  std::size_t bytes_;
  unsigned char* base_ = nullptr;
};

/// Numbers from a seed, the same everywhere.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : state_{seed} {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30U) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27U) * 0x94d049bb133111ebU;
    return z ^ z >> 31U;
  }
  /// @return an integer in [0, limit)
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }
  /// @return a number in [0, 1)
  double unit() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

template <class T>
std::vector<T> small_integers(std::size_t size, unsigned limit, std::uint64_t seed) {
  random_numbers random{seed};
  std::vector<T> values(size);
  for (T& value : values) value = number<T>(static_cast<double>(random.below(limit)));
  return values;
}

}  // namespace kernel_test
