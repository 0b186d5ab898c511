// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

enum class capture_mode;

namespace detail {

/// The values of graph_cache_options, which documents them.
struct cache_settings {
  std::size_t max_entries = 256;
  std::size_t max_bytes = std::size_t{256} << 20;
  std::size_t max_pool_bytes = ~std::size_t{0};
  std::size_t bytes_per_node = 3600;
  std::size_t max_shapes = 4096;
  std::uint64_t verify_every = 0;
  unsigned variants = 2;
  unsigned replicas = 1;
  unsigned warmups = 2;
  unsigned thrash_limit = 4;
  bool cost_gate = true;
  bool eager_fallback = true;
  capture_mode mode{};  // capture_mode::thread
  clock_ref clock{};
};

}  // namespace detail

WARPWRIGHT_END
