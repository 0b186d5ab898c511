// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

enum class capture_mode;

/// What was counted in a graph_cache, for one key or for all of them.
struct graph_cache_counts {
  std::uint64_t calls = 0;
  std::uint64_t replays = 0;    ///< calls that launched a graph as it was
  std::uint64_t eager = 0;      ///< calls that ran without a graph
  std::uint64_t captures = 0;   ///< captures, also for updates and rebuilds
  std::uint64_t builds = 0;     ///< instantiations of new bindings
  std::uint64_t updates = 0;    ///< in place
  std::uint64_t rebuilds = 0;   ///< instantiations because CUDA could not update in place
  std::uint64_t evictions = 0;  ///< executable graphs destroyed for other keys
  std::uint64_t failures = 0;   ///< captures, instantiations and launches that failed
  std::uint64_t pauses = 0;     ///< by the thrash guard, or after a failure
};

namespace detail {

/// The counts by name: of what is added up over the keys, and of reports.
struct named_count {
  using count = std::uint64_t graph_cache_counts::*;  // nvcc writes such a member in parentheses
  char const* name;
  count value;
};
inline constexpr named_count counted_fields[] = {
    {"calls", &graph_cache_counts::calls},       {"replays", &graph_cache_counts::replays},
    {"eager", &graph_cache_counts::eager},       {"captures", &graph_cache_counts::captures},
    {"builds", &graph_cache_counts::builds},     {"updates", &graph_cache_counts::updates},
    {"rebuilds", &graph_cache_counts::rebuilds}, {"evictions", &graph_cache_counts::evictions},
    {"failures", &graph_cache_counts::failures}, {"pauses", &graph_cache_counts::pauses}};

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
