// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the library's statistics write to a metrics page. Templates on them, so that a file compiles
// no header of a module that it does not use. Included by observe/metrics.hpp, behind
// metrics_writer.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

struct graph_cache_statistics;
struct pinned_statistics;
struct pool_statistics;
struct prefetch_statistics;
struct step_statistics;

namespace detail {

template <class T, class... Statistics>
using if_one_of = std::enable_if_t<(std::is_same<T, Statistics>::value || ...), int>;

}  // namespace detail

/// Writes the statistics of a memory_pool, a tuning_pool or a pinned_pool; below of a graph_cache,
/// a prefetcher or result_collector, a step_timer. Writer is metrics_writer.
template <class Writer, class S, detail::if_one_of<S, pool_statistics, pinned_statistics> = 0>
void add_metrics(Writer& to, S const& s) {
  to.gauge("live_bytes", "Bytes allocated, rounded up to 256 a block.", s.live_bytes);
  to.gauge("live_blocks", "Blocks allocated.", s.live_blocks);
  to.gauge("reserved_bytes", "Bytes taken from the system.", s.reserved_bytes);
  to.gauge("largest_free_block_bytes", "The largest free block.", s.largest_free_block_bytes);
  to.gauge("cached_bytes", "Free bytes in caches.", s.cached_bytes);
  to.counter("allocations_total", "Successful allocations.", s.allocations);
  to.counter("hits_total", "Allocations served without a CUDA call.", s.hits);
  to.counter("upstream_allocations_total", "Allocations from the system.", s.upstream_allocations);
}
template <class Writer, class S, detail::if_one_of<S, graph_cache_statistics> = 0>
void add_metrics(Writer& to, S const& s) {
  to.counter("calls_total", "Calls.", s.calls);
  to.counter("replays_total", "Calls that launched a graph as it is.", s.replays);
  to.counter("eager_total", "Calls without a graph.", s.eager);
  to.counter("captures_total", "Captures.", s.captures);
  to.counter("rebuilds_total", "Instantiations as no update was possible.", s.rebuilds);
  to.counter("evictions_total", "Graphs destroyed for other keys.", s.evictions);
  to.counter("failures_total", "Captures, instantiations and launches that failed.", s.failures);
  to.gauge("graphs", "Executable graphs.", s.graphs);
  to.gauge("saved_seconds", "Time saved by replays, less captures.", s.saved_seconds);
}
template <class Writer, class S, detail::if_one_of<S, prefetch_statistics> = 0>
void add_metrics(Writer& to, S const& s) {
  to.counter("batches_total", "Batches taken.", s.batches);
  to.counter("bytes_total", "Bytes in these.", s.bytes);
  to.counter("caller_wait_seconds_total", "Time that callers waited.", s.caller_wait_seconds);
  to.counter("starved_seconds_total", "Part of it with an idle stream.", s.starved_seconds);
  to.counter("worker_wait_seconds_total", "Time that workers waited.", s.worker_wait_seconds);
}
template <class Writer, class S, detail::if_one_of<S, step_statistics> = 0>
void add_metrics(Writer& to, S const& s) {
  to.counter("steps_total", "Steps.", s.steps);
  to.counter("items_total", "Items in these.", s.items);
  to.gauge("items_per_second", "Rate over recent steps.", s.items_per_second);
  to.gauge("median_seconds", "Median of recent steps.", s.median_seconds);
  to.gauge("p99_seconds", "99th percentile of recent steps.", s.p99_seconds);
  to.gauge("slowdown_ratio", "Recent median over the baseline's; NaN: none yet.", s.slowdown);
}

WARPWRIGHT_END
