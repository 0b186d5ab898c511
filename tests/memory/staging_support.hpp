// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace test_support {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

using bytes_vector = std::vector<unsigned char>;

inline bytes_vector pattern(std::size_t bytes, std::uint64_t seed) {
  bytes_vector values(bytes);
  std::uint64_t x = seed * 2 + 1;
  for (unsigned char& v : values) {
    x ^= x << 13U, x ^= x >> 7U, x ^= x << 17U;
    v = static_cast<unsigned char>(x);
  }
  return values;
}

}  // namespace test_support
