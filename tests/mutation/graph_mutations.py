#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks the cache of graphs and captures in many small ways, and checks that a test fails for each.

Works on a copy of the checkout, on the host runtime. Not part of CI: all mutations take about half
an hour on two cores.

  tests/mutation/graph_mutations.py --check        each mutation still applies
  tests/mutation/graph_mutations.py                all; exit status 1 if one survives
  tests/mutation/graph_mutations.py lru gate       those whose file or text contains a word
"""
import sys

import pool_mutations

GRAPH = "include/warpwright/graph/"
CACHE = GRAPH + "graph_cache.hpp"
CAPTURE = GRAPH + "capture.hpp"
CAPTURE_STEPS = GRAPH + "detail/capture_definitions.hpp"
COMPARE = GRAPH + "compare_graphs.hpp"
ROUND = GRAPH + "round_up_to.hpp"
DETAIL = GRAPH + "detail/cache/"
BINDINGS = DETAIL + "bindings.hpp"
GATE = DETAIL + "cost_gate.hpp"
GUARD = DETAIL + "cost_gate.hpp"
LRU = DETAIL + "cached_shape.hpp"
WINDOW = DETAIL + "cost_gate.hpp"
TIMER = DETAIL + "step_timer.hpp"
SHAPE = DETAIL + "cached_shape.hpp"
MEMORY = "include/warpwright/core/detail/capture/captured_memory.hpp"
POOL = "include/warpwright/memory/detail/pool/graph_memory_definitions.hpp"
CORE = DETAIL + "cache_core.hpp"
STEPS = DETAIL + "cache_steps_definitions.hpp"
LISTS = DETAIL + "cache_lists_definitions.hpp"
BUILDS = DETAIL + "cache_builds_definitions.hpp"
GATE_STEPS = DETAIL + "cost_gate_definitions.hpp"
TIMER_STEPS = DETAIL + "step_timer_definitions.hpp"
COMPARE_STEPS = GRAPH + "detail/compare_graphs_definitions.hpp"
TEXT = GRAPH + "detail/graph_cache_statistics_definitions.hpp"

# In this order: the first that fails ends a mutation's run.
TESTS = [
    "graph_cache_policies", "graph_round_up_to", "graph_cache", "graph_cache_limits",
    "graph_cache_faults", "graph_compare_graphs", "graph_cache_memory", "graph_cache_threads", "graph_cache_random", "graph_capture",
]  # fmt: skip

# (file, text, replacement); the text occurs once in the file.
MUTATIONS = [
    # Bindings.
    (BINDINGS, "    if (a[i] != b[i]) return false;", "    if (i > 0 && a[i] != b[i]) return false;"),
    (BINDINGS, "      to[1] = static_cast<std::uint64_t>(value.size());", "      to[1] = 0;"),
    (BINDINGS, "      by_range ? 2 : (by_address || by_number ? 1 : words_of_bytes<T>);",
     "      by_range ? 2 : 1;"),
    # The order of use, and the budgets.
    (LRU, "    if (&node != newest_) move_to_front(node);", "    if (!node.listed) move_to_front(node);"),
    (LRU, "size_ > most_entries_ || !bytes_.fits(most_bytes_)", "size_ > most_entries_"),
    (LRU, "size_ > most_entries_ || !bytes_.fits(most_bytes_)", "!bytes_.fits(most_bytes_)"),
    (LRU, "    bytes_ -= node.bytes;\n    bytes_ += bytes;\n", ""),
    (LRU, "    --size_;\n    bytes_ -= node.bytes;\n", "    --size_;\n"),
    (LRU, "graphs <= most.graphs && pool <= most.pool", "graphs <= most.graphs"),
    (LRU, "graphs <= most.graphs && pool <= most.pool", "pool <= most.pool"),
    (LRU, "    pool -= less.pool;\n", ""),
    (MEMORY, "at->most_) at->most_ = at->live_;", "at->most_) at->most_ += more;"),
    (MEMORY, "    if (at->capture_ != capture) continue;\n", ""),
    (POOL, "    captured_memory::freed(graphs_[number].capture_id, heap_.blocks.at(node).bytes);\n", ""),
    (BUILDS, "  evict_while([&] { return lru_.excess() != &shape ? lru_.excess() : nullptr; });\n", ""),
    (LISTS, "    retired_.add(graph);\n", "    delete graph;\n"),
    (LISTS, "cudaEventQuery(r.completed->get())) != cudaErrorNotReady;", "cudaEventQuery(r.completed->get())), true;"),
    (LISTS, "r.completed == nullptr && r.retired->stream_id == stream_id", "stream_id == 0"),
    (LISTS, "(known || unmarked <= most_unmarked)", "true"),
    (LISTS, "bytes_.fits(most_bytes)", "(bytes_.fits(most_bytes) || true)"),
    (LISTS, "r.completed == nullptr || is_complete(r);", "is_complete(r);"),
    (LISTS, "r.completed == nullptr || is_complete(r);", "r.completed == nullptr;"),
    (LISTS, "      bytes_ -= rows_[i].retired->bytes;\n", ""),
    (LISTS, "  retired_.trim();\n", ""),
    (BUILDS, "nullptr; });\n  poll_retired(t);\n", "nullptr; });\n"),
    # The thrash guard.
    (GUARD, "    if (++streak_ >= limit_) pause();", "    if (++streak_ > limit_) pause();"),
    (GUARD, "    streak_ = 0;\n", ""),
    (GUARD, "    if (pause_ < longest_pause) pause_ *= 2;", ""),
    (GUARD, "    pausing_ = started_ = false;\n", ""),
    (GUARD, "    streak_ = limit_ > 0 ? limit_ - 1 : 0;", "    streak_ = 0;"),
    (BUILDS, "      shape.guard.rebuilt(replays);\n", ""),
    (GUARD, "    if (clean >= first_pause) pause_ = first_pause;\n", ""),
    (GUARD, "paid : limit_) || pausing_) return;", "paid : limit_)) return;"),
    (GUARD, "    for_room_ = pausing_;\n", ""),
    (GUARD, "replays > replays_before_ ? replays - replays_before_ : 0;", "replays - replays_before_;"),
    (LISTS, "  if (misses) shape.guard.evicted(", "  if (misses && !had_graphs) shape.guard.evicted("),
    (STEPS, "  if (unused) shape.guard.resume();\n  return !unused;", "  return unused || !unused;"),
    (STEPS, "oldest == shape.oldest && calls == shape.oldest_calls", "oldest == shape.oldest"),
    (STEPS, "    if (shape.evicted) ++shape.refills;\n", ""),
    (GATE, "return lost_ >= round;", "return false;"),
    # The cost gate.
    (GATE_STEPS, "  if (other * hysteresis < mine) {", "  if (other > hysteresis * mine) {"),
    (GATE, "    return replay + change_rate() * change_time();", "    return replay;"),
    (GATE_STEPS, "  compare(eager, replay);\n  bool const same", "  bool const same"),
    (GATE_STEPS, "  } else if (since_round_ >= period_) {", "  } else if (false) {"),
    (GATE_STEPS, "  } else if (measuring_) {\n    ++to_issue_[index(mode)];\n", "  } else if (false) {\n"),
    (GATE_STEPS, "difference > bound || ", "true || "),
    (GATE_STEPS, " || difference + bound < (hysteresis - 1.0) * least", ""),
    (GATE_STEPS, "    changed_calls_ *= 256.0 / calls_;\n    calls_ = 256.0;\n", ""),
    (WINDOW, "return sort_deviations(sorted, 0.0) ? middle(sorted) : 0.0;",
     "return sort_deviations(sorted, 0.0) ? sorted[count_ - 1] : 0.0;"),
    (TIMER_STEPS, "device > s->host_nanoseconds ? device : s->host_nanoseconds", "device"),
    (TIMER_STEPS, "    if (status == cudaErrorNotReady) continue;\n", ""),
    # What a call does.
    (CORE, "graph.stream_id == id) return true;\n    if (options_.replicas != 1 ||",
     "graph.stream_id == id) return true;\n    if ("),
    (CORE, "    if (options_.replicas != 1 || streams_.device_of(id) != graph.device) return false;",
     "    if (options_.replicas != 1) return false;"),
    (STEPS, "    if (g->device != t.device || !shape.binds(*g, words)) continue;",
     "    if (!shape.binds(*g, words)) continue;"),
    (STEPS, "  return found >= options_.replicas ? oldest : nullptr;", "  return oldest;"),
    (CORE, "    graph.busy.store(true, memory_order::relaxed);\n    graph.last_launch = ++launches_;",
     "    graph.busy.store(true, memory_order::relaxed);"),
    (CORE, "    lru_.touch(shape);\n", ""),
    (CORE, "        lru_.touch_listed(*shape);\n", ""),
    (STEPS, "  lru_.touch_listed(shape);\n", ""),
    (BUILDS, "    lru_.touch_listed(*d.shape);\n", ""),
    (CORE, "    if (!first) ++shape.changes;", ""),
    (SHAPE, "    return tag == function_tag && key == shape;", "    return key == shape;"),
    (SHAPE, "    return tag == function_tag && key == shape;", "    return tag == function_tag;"),
    (STEPS, "  if (table_.all().size() >= options_.max_shapes) return nullptr;\n", ""),
    (STEPS, "stream.get() == cudaStreamLegacy || is_capturing(stream, where)) {\n    {",
     "stream.get() == cudaStreamLegacy) {\n    {"),
    (BUILDS, "target_graph == nullptr || g->last_launch < target_graph->last_launch", "target_graph == nullptr"),
    (BUILDS, "      if (g->device != t.device) continue;\n", ""),
    (BUILDS, "    if (captured.size(where) != 0) return captured;\n", "    return captured;\n"),
    (BUILDS, "    if (!options_.eager_fallback) throw;\n  } catch (std::invalid_argument",
     "    throw;\n  } catch (std::invalid_argument"),
    (BUILDS, "  return captured.get() != nullptr ? graph_step::eager : run_eagerly(",
     "  return captured.get() == nullptr ? graph_step::eager : run_eagerly("),
    (BUILDS, "        unlink(*d.shape, *d.graph);\n        retired_.add(d.graph);\n", ""),
    (BUILDS, "  for (std::size_t i = 0; i < call.words.count; ++i) made.words[i] = call.words.words[i];\n", ""),
    (STEPS, "    if (done == graph_step::replayed) --shape.counts.replays;\n", ""),
    (STEPS, "options_.eager_fallback && !is_sticky(status)", "options_.eager_fallback"),
    (STEPS, "    shape.guard.failed(shape.counts.replays);\n", ""),
    (BUILDS, "    if (error.code() != cudaErrorMemoryAllocation) throw;", "    throw;"),
    (BUILDS, "      if (difference) {", "      if (difference && where.line() < 0) {"),
    (STEPS, "  if (first && !d.samples_first) sample = nullptr;\n", "  static_cast<void>(first);\n"),
    (STEPS, "  if (first && !d.samples_first) sample = nullptr;\n", "  if (first) sample = nullptr;\n"),
    (BUILDS, "    d.shape->warmups = 0;\n", ""),
    # The comparison of graphs.
    (COMPARE_STEPS, "width == 8 && std::memcmp(b + at, c + at, 8) != 0 &&", "true &&"),
    (COMPARE_STEPS, "    for (range const& r : own) {", "    for (range const& r : array<range>{}) {"),
    (COMPARE_STEPS, "  if (a.kernel != b.kernel) ", "  if (false) "),
    (COMPARE_STEPS, "if (!same(a.block, b.block)) {", "if (false) {"),
    (COMPARE_STEPS, "if (a.shared_bytes != b.shared_bytes) {", "if (false) {"),
    (COMPARE_STEPS, "    if (a != b) difference(\"the bytes", "    if (false) difference(\"the bytes"),
    (COMPARE_STEPS, "if (events[0] != events[1]) ", "if (false) "),
    (COMPARE_STEPS, "if (before_.edges.size() != now_.edges.size()) {", "if (false) {"),
    (COMPARE_STEPS, "return now == stack_fill_now && again == stack_fill_again;", "return now != again;"),
    (COMPARE_STEPS, "graphs[0], graphs[1], graphs[2], where_}", "graphs[0], graphs[1], nullptr, where_}"),
    (ROUND, "buckets[i] >= n && (best == nullptr", "buckets[i] > n && (best == nullptr"),
    (ROUND, "|| buckets[i] < *best)", ")"),
    # Reports.
    (TEXT, "k.calls >= 64 && k.change_rate > 0.25", "false"),
    # Captures, as the cache uses them.
    (CAPTURE, "capture_scope(stream_ref stream, without_capture) noexcept : stream_{stream} {}",
     "capture_scope(stream_ref stream, without_capture) noexcept : stream_{stream}, active_{true} {}"),
    (CAPTURE_STEPS, "  counted_.begin();\n", ""),
    (CAPTURE_STEPS, "active_ = status != cudaSuccess && detail::may_be_capturing(stream_.get());", "active_ = false;"),
]

if __name__ == "__main__":
    pool_mutations.__doc__ = __doc__
    pool_mutations.TESTS = TESTS
    pool_mutations.MUTATIONS = MUTATIONS
    sys.exit(pool_mutations.main())
