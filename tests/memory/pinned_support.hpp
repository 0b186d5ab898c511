// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the pinned pool share.
#pragma once

#include "memory/support.hpp"

#include <warpwright/memory/pinned.hpp>

#include <cstddef>
#include <set>
#include <vector>

namespace test_support {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

inline ww::pinned_pool_options growing_by_256_kib(std::size_t maximum) {
  return ww::pinned_pool_options{}.max_bytes(maximum).growth_bytes(256 * kib);
}

/// Options of a pool that has so much memory from the start, and never more.
inline ww::pinned_pool_options exactly(std::size_t bytes) {
  return ww::pinned_pool_options{}.initial_bytes(bytes).max_bytes(bytes);
}

inline std::vector<void*> allocate_many(ww::pinned_pool& pool, std::size_t count,
                                        std::size_t bytes) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(pool.allocate(bytes));
  return blocks;
}

inline void free_many(ww::pinned_pool& pool, std::vector<void*> const& blocks, std::size_t bytes) {
  for (void* const block : blocks) pool.deallocate(block, bytes);
}

inline void free_many(ww::pinned_pool& pool, ww::stream_ref stream,
                      std::vector<void*> const& blocks, std::size_t bytes) {
  for (void* const block : blocks) pool.deallocate(stream, block, bytes);
}

inline bool have_common(std::vector<void*> const& a, std::vector<void*> const& b) {
  std::set<void*> const first(a.begin(), a.end());
  for (void* const block : b) {
    if (first.count(block) != 0) return true;
  }
  return false;
}

}  // namespace test_support
