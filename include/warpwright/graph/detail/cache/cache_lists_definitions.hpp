// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The lists of a graph_cache's graphs, also of retired ones, and the copy of all figures.
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/graph/detail/cache/cache_core.hpp>
#include <warpwright/graph/graph_cache_statistics.hpp>

WARPWRIGHT_BEGIN

namespace detail {

template <class Condition>
void retired_graphs::drop_if(Condition&& condition) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (condition(rows_[i])) {
      bytes_ -= rows_[i].retired->bytes;
      delete rows_[i].completed;
      delete rows_[i].retired;
    } else {
      rows_[kept++] = rows_[i];
    }
  }
  while (rows_.size() > kept) rows_.pop_back();
}

WARPWRIGHT_INLINE void retired_graphs::add(cached_graph* retired) noexcept {
  if (retired->last_launch == 0) {
    relaxed_capture_mode const relaxed;
    delete retired;
    return;
  }
  rows_.emplace_back(row{retired, nullptr});
  bytes_ += retired->bytes;
}

WARPWRIGHT_INLINE void retired_graphs::poll(cudaStream_t stream, std::uint64_t stream_id,
                                            cached_bytes const& most_bytes) noexcept {
  if (rows_.empty()) return;
  relaxed_capture_mode const relaxed;
  for (row& r : rows_) {
    if (r.completed == nullptr && r.retired->stream_id == stream_id) mark(r, stream);
  }
  drop_if([](row const& r) { return is_complete(r); });
  std::size_t left = rows_.size();
  std::size_t unmarked = 0;
  for (row const& r : rows_) unmarked += r.completed == nullptr ? 1 : 0;
  drop_if([&](row const& r) {
    bool const known = r.completed != nullptr;
    bool const fits = left <= most && bytes_.fits(most_bytes);
    if (fits && (known || unmarked <= most_unmarked)) return false;
    --left;
    if (!known) --unmarked;
    return true;
  });
}

WARPWRIGHT_INLINE void retired_graphs::trim() noexcept {
  if (rows_.empty()) return;
  relaxed_capture_mode const relaxed;
  drop_if([](row const& r) { return r.completed == nullptr || is_complete(r); });
}

WARPWRIGHT_INLINE void retired_graphs::clear() noexcept {
  if (rows_.empty()) return;
  relaxed_capture_mode const relaxed;
  drop_if([](row const&) { return true; });
}

WARPWRIGHT_INLINE void retired_graphs::mark(row& r, cudaStream_t stream) noexcept {
  try {
    scoped_device const scope{device_id{r.retired->device}};
    r.completed = new event{};
    r.completed->record(stream);
  } catch (...) {
    delete r.completed;
    r.completed = nullptr;
  }
}

WARPWRIGHT_INLINE bool retired_graphs::is_complete(row const& r) noexcept {
  if (r.completed == nullptr) return false;
  return discard(cudaEventQuery(r.completed->get())) != cudaErrorNotReady;
}

WARPWRIGHT_INLINE void cache_core::hold(unique_lock<spin_lock>& hot,
                                        cached_graph const& graph) noexcept {
  for (int step = 0; graph.busy.load(memory_order::acquire); ++step) {
    hot.unlock();
    spin_wait(step);
    hot.lock();
  }
}

WARPWRIGHT_INLINE void cache_core::link(cached_shape& shape, cached_graph& graph) noexcept {
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
WARPWRIGHT_INLINE void cache_core::unlink(cached_shape& shape, cached_graph& graph) noexcept {
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
WARPWRIGHT_INLINE bool cache_core::evict(cached_shape& shape) noexcept {
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
  if (misses) shape.guard.evicted(shape.counts.replays, shape.gate.paid_after());
  shape.oldest = nullptr;
  shape.watched_from = shape.counts.calls;
  return true;
}

WARPWRIGHT_INLINE bool cache_core::release_some(void* core) noexcept {
  auto& self = *static_cast<cache_core*>(core);
  unique_lock<mutex> const policies{self.mutex_};
  std::size_t const before = self.lru_.size() + self.retired_.size();
  bool first = true;
  self.evict_while([&]() -> lru_node* {
    if (!exchange(first, false)) return nullptr;
    lru_node* holder = self.lru_.oldest();  // others have no memory of a pool
    while (holder != nullptr && holder->bytes.pool == 0) holder = holder->newer;
    return holder;
  });
  self.retired_.clear();
  return before != self.lru_.size() + self.retired_.size();
}

WARPWRIGHT_INLINE void cache_core::trim(std::size_t bytes) noexcept {
  unique_lock<mutex> const policies{mutex_};
  evict_while([&] { return lru_.bytes().graphs > bytes || bytes == 0 ? lru_.oldest() : nullptr; });
  retired_.trim();
}

WARPWRIGHT_INLINE void cache_core::clear() noexcept {
  unique_lock<mutex> const policies{mutex_};
  relaxed_capture_mode const relaxed;
  timer_.clear();
  for (cached_shape* const shape : table_.all()) lru_.remove(*shape);
  last_ = nullptr;
  table_.clear();
  retired_.clear();
  for (std::uint64_t& each : rebuilds_by_reason_) each = 0;
  legacy_calls_ = inlined_calls_ = rejected_calls_ = 0;
}

WARPWRIGHT_INLINE graph_cache_statistics cache_core::statistics() {
  unique_lock<mutex> const policies{mutex_};
  take_sampled_times();
  graph_cache_statistics all;
  for (std::size_t i = 0; i < sizeof rebuilds_by_reason_ / sizeof rebuilds_by_reason_[0]; ++i) {
    all.rebuilds_by_reason[i] = rebuilds_by_reason_[i];
  }
  all.legacy_calls = legacy_calls_;
  all.inlined_calls = inlined_calls_;
  all.rejected_calls = rejected_calls_;
  all.calls = all.legacy_calls + all.inlined_calls + all.rejected_calls;
  all.eager = all.legacy_calls + all.rejected_calls;
  all.retired_graphs = retired_.size();
  all.keys.reserve(table_.all().size());
  for (cached_shape* const shape : table_.all()) {
    graph_key_statistics k;
    k.key = shape->key.to_text();
    std::uint64_t changes = 0;
    {
      unique_lock<spin_lock> const hot{lock_};
      changes = shape->changes - shape->refills;
      static_cast<graph_cache_counts&>(k) = shape->counts;
      k.graphs = shape->count;
      k.nodes = shape->nodes;
      k.bytes = shape->bytes.graphs;
      k.pool_bytes = shape->bytes.pool;
    }
    k.pauses = shape->guard.pauses();
    k.eager_seconds = 1e-9 * shape->gate.eager_time();
    k.replay_seconds = 1e-9 * shape->gate.replay_time();
    k.build_seconds = 1e-9 * shape->gate.build_time();
    k.change_seconds = 1e-9 * shape->gate.change_time();
    k.change_rate =
        k.calls != 0 ? static_cast<double>(changes) / static_cast<double>(k.calls) : 0.0;
    k.break_even_calls = shape->gate.break_even();
    if (k.eager_seconds > 0.0 && k.replay_seconds > 0.0) {
      k.saved_seconds = static_cast<double>(k.replays) * (k.eager_seconds - k.replay_seconds) -
                        1e-9 * shape->spent_nanoseconds;
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
    for (named_count const& each : counted_fields) all.*each.value += k.*each.value;
    all.graphs += k.graphs;
    all.bytes += k.bytes;
    all.pool_bytes += k.pool_bytes;
    all.saved_seconds += k.saved_seconds;
    all.keys.push_back(static_cast<graph_key_statistics&&>(k));
  }
  return all;
}

}  // namespace detail

WARPWRIGHT_END
