// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// Shell sort, with Knuth's gaps: <algorithm> is slow to compile, and std::qsort may allocate.
/// Values are moved, which must not throw.
template <typename T, typename Less>
void sort(T* values, std::size_t count, Less less) noexcept {
  std::size_t gap = 1;
  while (gap < count / 9) gap = 3 * gap + 1;
  for (; gap > 0; gap /= 3) {
    for (std::size_t i = gap; i < count; ++i) {
      T value = std::move(values[i]);
      std::size_t k = i;
      for (; k >= gap && less(value, values[k - gap]); k -= gap) {
        values[k] = std::move(values[k - gap]);
      }
      values[k] = std::move(value);
    }
  }
}

/// In ascending order.
template <typename T>
void sort(T* values, std::size_t count) noexcept {
  sort(values, count, [](T const& a, T const& b) { return a < b; });
}

}  // namespace detail

WARPWRIGHT_END
