// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements that kernels are measured on, and their way to and from float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <warpwright/core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace bench_support {

template <class T>
WARPWRIGHT_HOST_DEVICE float to_float(T v) {
  if constexpr (std::is_same<T, __half>::value) {
    return __half2float(v);
  } else if constexpr (std::is_same<T, __nv_bfloat16>::value) {
    return __bfloat162float(v);
  } else {
    return v;
  }
}
template <class T>
WARPWRIGHT_HOST_DEVICE T from_float(float v) {
  if constexpr (std::is_same<T, __half>::value) {
    return __float2half_rn(v);
  } else if constexpr (std::is_same<T, __nv_bfloat16>::value) {
    return __float2bfloat16_rn(v);
  } else {
    return v;
  }
}

// Values in [-1, 1) that differ from element to element.
struct scattered {
  std::uint64_t salt;
  WARPWRIGHT_HOST_DEVICE float operator()(std::uint64_t i) const {
    std::uint64_t const h = (i + salt) * 0x9e3779b97f4a7c15U;
    return static_cast<float>(static_cast<std::uint32_t>(h >> 40U)) * 0x1p-23F - 1.0F;
  }
};

/// Copies `count` elements from the device.
template <class T>
std::vector<T> fetch(T const* from, std::size_t count) {
  std::vector<T> values(count);
  warpwright::check(cudaMemcpy(static_cast<void*>(values.data()), from, count * sizeof(T),
                               cudaMemcpyDeviceToHost),
                    "cudaMemcpy");
  return values;
}

}  // namespace bench_support
