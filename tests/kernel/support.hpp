// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of every element type, and device arrays that notice a write beside them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/guarded_array.hpp"

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

template <class T>
using guarded = test_support::guarded_array<T>;

/// Evaluates one assignment, or several as one kernel, and waits.
template <class... A>
void evaluate_on(ww::stream_ref stream, A const&... a) {
  if constexpr (sizeof...(A) == 1) {
    ww::ew::run(stream, a...);
  } else {
    ww::ew::run(stream, ww::ew::tie(a...));
  }
  stream.synchronize();
}
template <class... A>
void evaluate(A const&... a) {
  ww::stream const stream;
  evaluate_on(stream, a...);
}

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

// Whether the blocks of a cluster share a long row; the host adds in their order.
inline bool has_clusters() {
#if defined(__CUDACC__) && !WARPWRIGHT_HOST_RUNTIME
  int major = 0;
  warpwright::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
                    "attribute");
  return major >= 9 && warpwright::detail::this_build::some_wait;
#else
  return true;
#endif
}

}  // namespace kernel_test
