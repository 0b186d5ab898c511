// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Few sizes instead of many: a graph a size class, and the rest of the class is padding.
//
//   std::size_t const rows = ww::round_up_to(batch, {1, 2, 4, 8, 16, 32});
//   cache.run(stream, rows, step, …);
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <initializer_list>

WARPWRIGHT_BEGIN

namespace detail {

[[noreturn]] WARPWRIGHT_COLD inline void throw_no_bucket(std::size_t n, std::size_t const* buckets,
                                                         std::size_t count, source_location where) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (buckets[i] > largest) largest = buckets[i];
  }
  throw_invalid_argument(text{"round_up_to: no bucket holds "} + n + ": the largest of " + count +
                             " is " + largest + "; add a larger one, or divide the work into parts",
                         where);
}

}  // namespace detail

/// Returns the smallest bucket that holds n elements.
/// @param n        a number of elements, such as a batch size
/// @param buckets  `count` sizes, in any order; choose_buckets() finds good ones
/// @param count    number of buckets
/// @return the smallest bucket that is at least n
/// @throws std::invalid_argument  when all buckets are smaller than n, or there is none
/// **Threads:** any. **Capture:** legal. **Cost:** a comparison a bucket.
[[nodiscard]] inline std::size_t round_up_to(std::size_t n, std::size_t const* buckets,
                                             std::size_t count,
                                             source_location where = source_location::current()) {
  std::size_t const* best = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    if (buckets[i] >= n && (best == nullptr || buckets[i] < *best)) best = &buckets[i];
  }
  if (best == nullptr) detail::throw_no_bucket(n, buckets, count, where);
  return *best;
}
/// As above, of a list.
[[nodiscard]] inline std::size_t round_up_to(std::size_t n,
                                             std::initializer_list<std::size_t> buckets,
                                             source_location where = source_location::current()) {
  return round_up_to(n, buckets.begin(), buckets.size(), where);
}
/// As above, of a container with data() and size(), such as the result of choose_buckets().
template <class Buckets, class = decltype(static_cast<std::size_t const*>(
                             static_cast<Buckets const*>(nullptr)->data()))>
[[nodiscard]] std::size_t round_up_to(std::size_t n, Buckets const& buckets,
                                      source_location where = source_location::current()) {
  return round_up_to(n, buckets.data(), buckets.size(), where);
}

WARPWRIGHT_END
