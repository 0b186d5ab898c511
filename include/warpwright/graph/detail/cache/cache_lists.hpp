// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The lists of a graph_cache's graphs, what they need together, and the copy of all figures.
#pragma once

#include <warpwright/graph/detail/cache/cache_core.hpp>

WARPWRIGHT_BEGIN

namespace detail {

inline void cache_core::link(cached_shape& shape, cached_graph& graph) noexcept {
  unique_lock<spin_lock> const hot{lock_};
  graph.next = shape.graphs;
  shape.graphs = &graph;
  ++shape.count;
  shape.nodes += graph.nodes;
  lru_.remove(shape);
  shape.bytes += graph.bytes;
  lru_.touch(shape);
  shape.evicted = false;
}

// No thread finds the graph afterwards, or launches it.
inline void cache_core::unlink(cached_shape& shape, cached_graph& graph) noexcept {
  unique_lock<spin_lock> hot{lock_};
  hold(hot, graph);
  cached_graph** place = &shape.graphs;
  while (*place != &graph) place = &(*place)->next;
  *place = graph.next;
  graph.next = nullptr;
  --shape.count;
  shape.nodes -= graph.nodes;
  cached_bytes bytes = shape.bytes;
  bytes -= graph.bytes;
  lru_.resize(shape, bytes);
  if (shape.count == 0) lru_.remove(shape);
}

// Retires all graphs of a key; false if there is no memory to do so.
inline bool cache_core::evict(cached_shape& shape) noexcept {
  try {
    retired_.reserve(shape.count);
  } catch (...) {
    return false;
  }
  // A key that runs eagerly, as that is faster, has not missed its graphs.
  bool const misses = !shape.gate.decided() || shape.gate.mode() == step_mode::graph;
  bool const had_graphs = shape.graphs != nullptr;
  while (shape.graphs != nullptr) {
    cached_graph* const graph = shape.graphs;
    unlink(shape, *graph);
    retired_.add(graph);
    ++shape.counts.evictions;
  }
  if (!had_graphs) return true;
  shape.evicted = true;
  unique_lock<spin_lock> const hot{lock_};
  if (misses) shape.guard.evicted(shape.replays, shape.gate.paid_after());
  shape.oldest = nullptr;
  shape.watched_from = shape.calls;
  return true;
}

inline graph_cache_statistics cache_core::statistics() {
  unique_lock<mutex> const policies{mutex_};
  take_sampled_times();
  graph_cache_statistics all = totals_;
  all.calls = all.legacy_calls + all.inlined_calls + all.rejected_calls;
  all.eager = all.legacy_calls + all.rejected_calls;
  all.retired_graphs = retired_.size();
  all.keys.reserve(table_.all().size());
  for (cached_shape* const shape : table_.all()) {
    graph_key_statistics k;
    static_cast<graph_cache_counts&>(k) = shape->counts;
    k.key = shape->key.text();
    std::uint64_t changes = 0;
    {
      unique_lock<spin_lock> const hot{lock_};
      changes = shape->changes - shape->refills;
      k.calls = shape->calls;
      k.replays = shape->replays;
      k.eager = shape->eager;
      k.graphs = shape->count;
      k.nodes = shape->nodes;
      k.bytes = shape->bytes.graphs;
      k.pool_bytes = shape->bytes.pool;
    }
    k.pauses = shape->guard.pauses();
    k.eager_us = 1e-3 * shape->gate.eager_time();
    k.replay_us = 1e-3 * shape->gate.replay_time();
    k.build_us = 1e-3 * shape->gate.build_time();
    k.change_us = 1e-3 * shape->gate.change_time();
    k.change_rate =
        k.calls != 0 ? static_cast<double>(changes) / static_cast<double>(k.calls) : 0.0;
    k.break_even_calls = shape->gate.break_even();
    if (k.eager_us > 0.0 && k.replay_us > 0.0) {
      k.saved_ms = 1e-3 * static_cast<double>(k.replays) * (k.eager_us - k.replay_us) -
                   1e-6 * shape->spent_nanoseconds;
    }
    k.last_rebuild = shape->last_rebuild;
    k.last_kernel = shape->last_kernel;
    k.last_failure = shape->last_failure;
    if (shape->guard.is_paused()) {
      k.state = shape->failing ? graph_key_state::unsupported : graph_key_state::paused;
    } else if (shape->gate.decided() && shape->gate.mode() == step_mode::eager) {
      k.state = graph_key_state::eager_wins;
    } else if (k.graphs != 0) {
      k.state = graph_key_state::replaying;
    } else if (k.builds != 0) {
      k.state = graph_key_state::evicted;
    }
    all.calls += k.calls;
    all.replays += k.replays;
    all.eager += k.eager;
    all.captures += k.captures;
    all.builds += k.builds;
    all.updates += k.updates;
    all.rebuilds += k.rebuilds;
    all.evictions += k.evictions;
    all.failures += k.failures;
    all.pauses += k.pauses;
    all.graphs += k.graphs;
    all.bytes += k.bytes;
    all.pool_bytes += k.pool_bytes;
    all.saved_ms += k.saved_ms;
    all.keys.push_back(static_cast<graph_key_statistics&&>(k));
  }
  return all;
}

}  // namespace detail

WARPWRIGHT_END
