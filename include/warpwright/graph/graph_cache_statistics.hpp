// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/graph/detail/cache/cache_settings.hpp>
#include <warpwright/graph/graph_exec.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// How a call of graph_cache::run was done.
enum class graph_step {
  eager,     ///< without a graph
  captured,  ///< captured, instantiated and launched: the first time of these bindings
  replayed,  ///< launched as it is
  updated,   ///< captured again, updated in place and launched
  rebuilt    ///< captured again and instantiated again, as CUDA could not update it, and launched
};

/// Why a key of a graph_cache runs as it does.
enum class graph_key_state {
  warming_up,   ///< its first calls run eagerly, or are measured
  replaying,    ///< it has graphs, which are launched
  eager_wins,   ///< it runs eagerly, which is faster
  paused,       ///< its graphs were instantiated too often: it runs eagerly for a while
  unsupported,  ///< it could not be captured: it runs eagerly, and is tried again after a while
  evicted       ///< its graphs were destroyed for others; the next call captures it again
};

/// @return the state in words
[[nodiscard]] constexpr char const* to_string(graph_key_state state) noexcept {
  constexpr char const* names[] = {"warming up", "replaying",      "eager is faster",
                                   "paused",     "not capturable", "evicted"};
  return detail::enum_name(names, state);
}

/// What a graph_cache knows about one key. Times are medians, in microseconds, of sampled calls;
/// 0 means that it was not measured.
struct graph_key_statistics : graph_cache_counts {
  std::string key;  ///< the extents, as shape_key::to_text()
  graph_key_state state = graph_key_state::warming_up;
  std::size_t graphs = 0;      ///< executable graphs at present
  std::size_t nodes = 0;       ///< in all of them
  std::size_t bytes = 0;       ///< of all of them, estimated
  std::size_t pool_bytes = 0;  ///< memory of pools that belongs to them
  double eager_seconds = 0.0;
  double replay_seconds = 0.0;
  double build_seconds = 0.0;   ///< capture and instantiation
  double change_seconds = 0.0;  ///< capture and update, or instantiation, when bindings change
  double change_rate = 0.0;     ///< the fraction of calls with bindings that no graph had
  /// Calls after which a graph has saved the time that it took to build; 0: not known, infinity:
  /// eager calls are faster.
  double break_even_calls = 0.0;
  /// Replays times the time that each saves, less captures and instantiations.
  double saved_seconds = 0.0;
  std::string last_rebuild;  ///< why CUDA did not update in place the last time; "" if it never did
  std::string last_kernel;   ///< the kernel, mangled, at which it stopped; "" if not known
  std::string last_failure;  ///< the report of the last failed capture; "" if there was none
};

/// The state of a graph_cache, a copy.
struct graph_cache_statistics : graph_cache_counts {
  /// Rebuilds by reason, at the index of CUDA's cudaGraphExecUpdateResult.
  std::uint64_t rebuilds_by_reason[10] = {};
  std::uint64_t legacy_calls = 0;    ///< eager, as the legacy default stream cannot be captured
  std::uint64_t inlined_calls = 0;   ///< made a part of a capture that was under way
  std::uint64_t rejected_calls = 0;  ///< eager, because there were max_shapes() keys
  std::size_t graphs = 0;            ///< executable graphs at present
  std::size_t bytes = 0;             ///< of all of them, estimated
  std::size_t pool_bytes = 0;        ///< memory of pools that belongs to them
  std::size_t retired_graphs = 0;    ///< evicted, and not destroyed yet as they may be running
  double saved_seconds = 0.0;        ///< the sum over all keys
  std::vector<graph_key_statistics> keys;  ///< in the order of their first calls

  /// Tells what keeps graphs from helping, and the remedy.
  /// @return a sentence a problem; empty if there is none
  [[nodiscard]] std::vector<std::string> warnings() const;
  /// @return the totals, a line per key, and the warnings
  [[nodiscard]] std::string to_text() const;
  /// @return all figures as one JSON object; times in microseconds, infinity as null
  [[nodiscard]] std::string to_json() const;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/graph_cache_statistics_definitions.hpp>
#endif
