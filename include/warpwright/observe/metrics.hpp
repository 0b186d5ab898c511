// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Counters, gauges and histograms, and the statistics of other objects, as a text for Prometheus:
//
//   ww::metrics_page page;
//   ww::metric_counter const requests = page.counter("requests_total", "Requests answered.");
//   page.add("pool", pool);  // pool_live_bytes, pool_allocations_total, …
//   requests.add();
//   std::string const text = page.to_prometheus();
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/observe/detail/metric_cells.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

/// One label of a series. The texts are copied by what takes labels.
struct metric_label {
  char const* name;   ///< letters, digits and _, not a digit first, not __ first
  char const* value;  ///< any text; bytes that are not UTF-8 become '?'
};
using metric_labels = std::initializer_list<metric_label>;  ///< {{"device", "0"}, {"model", "a"}}

/// A number that only grows, of a metrics_page, which must outlive it and its copies.
///
/// **Threads:** any number may call any member at once. **Capture:** legal. **Cost:** a thread
/// counts in memory of its own: some nanoseconds, no shared cache line, no allocation. Of more than
/// about 100 threads in a page's life some share cells, with atomic additions; a thread in the
/// place of an ended one is not a further thread.
class metric_counter {
 public:
  void add(std::uint64_t n = 1) const noexcept { cells_->add(n); }
  [[nodiscard]] std::uint64_t value() const noexcept { return cells_->total(); }

 private:
  friend class metrics_page;
  explicit metric_counter(detail::metric_cells& cells) noexcept : cells_{&cells} {}
  detail::metric_cells* cells_;
};

/// A number that goes up and down, of a metrics_page, which must outlive it and its copies.
/// **Threads, Capture:** as metric_counter. **Cost:** a store, or an atomic operation of add().
class metric_gauge {
 public:
  void set(double value) const noexcept {
    cell_->store(detail::bits_of(value), detail::memory_order::relaxed);
  }
  void add(double value) const noexcept { detail::add_to_cell(*cell_, value, false); }
  [[nodiscard]] double value() const noexcept {
    return detail::double_of(cell_->load(detail::memory_order::relaxed));
  }

 private:
  friend class metrics_page;
  explicit metric_gauge(detail::metric_cells& cells) noexcept : cell_{cells.cells} {}
  detail::metric_cell* cell_;
};

/// Counts values by size, of a metrics_page, which must outlive it and its copies. A value is in
/// the first bucket whose bound is not below it; a NaN is in the last one, and makes the sum NaN.
/// **Threads, Capture, Cost:** as metric_counter, twice.
class metric_histogram {
 public:
  void observe(double value) const noexcept { cells_->observe(value); }
  [[nodiscard]] std::uint64_t count() const noexcept { return cells_->total(); }

 private:
  friend class metrics_page;
  explicit metric_histogram(detail::metric_cells& cells) noexcept : cells_{&cells} {}
  detail::metric_cells* cells_;
};

enum class metric_kind { counter, gauge, histogram };

namespace detail {
struct metrics_core;
}  // namespace detail

/// What add_metrics() of a source writes its figures to. A name is that of the source, _, and the
/// name given here. If the same names come in the same order each time, each is found at once.
class metrics_writer {
 public:
  /// Writes a number that only grows; by convention its name ends in _total.
  /// @param labels  beside those of the source
  /// @throws std::invalid_argument  as metrics_page::counter(), while add() tries the source
  template <class Number, class = std::enable_if_t<std::is_arithmetic<Number>::value>>
  void counter(char const* name, char const* help, Number value, metric_labels labels = {}) {
    write(metric_kind::counter, name, help, static_cast<double>(value), labels);
  }
  /// Writes a number that goes up and down; as counter().
  template <class Number, class = std::enable_if_t<std::is_arithmetic<Number>::value>>
  void gauge(char const* name, char const* help, Number value, metric_labels labels = {}) {
    write(metric_kind::gauge, name, help, static_cast<double>(value), labels);
  }

 private:
  friend struct detail::metrics_core;
  explicit metrics_writer(detail::metrics_core& core) noexcept : core_{core} {}
  void write(metric_kind kind, char const* name, char const* help, double value,
             metric_labels labels);
  detail::metrics_core& core_;
};

// Templates on the statistics, so that a file compiles no header of a module that it does not use.
struct batcher_statistics;
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
/// a prefetcher or result_collector, a step_timer.
template <class S, detail::if_one_of<S, pool_statistics, pinned_statistics> = 0>
void add_metrics(metrics_writer& to, S const& s) {
  to.gauge("live_bytes", "Bytes allocated, rounded up to 256 a block.", s.live_bytes);
  to.gauge("live_blocks", "Blocks allocated.", s.live_blocks);
  to.gauge("reserved_bytes", "Bytes taken from the system.", s.reserved_bytes);
  to.gauge("largest_free_block_bytes", "The largest free block.", s.largest_free_block_bytes);
  to.gauge("cached_bytes", "Free bytes in caches.", s.cached_bytes);
  to.counter("allocations_total", "Successful allocations.", s.allocations);
  to.counter("hits_total", "Allocations served without a CUDA call.", s.hits);
  to.counter("upstream_allocations_total", "Allocations from the system.", s.upstream_allocations);
}
template <class S, detail::if_one_of<S, graph_cache_statistics> = 0>
void add_metrics(metrics_writer& to, S const& s) {
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
template <class S, detail::if_one_of<S, prefetch_statistics> = 0>
void add_metrics(metrics_writer& to, S const& s) {
  to.counter("batches_total", "Batches taken.", s.batches);
  to.counter("bytes_total", "Bytes in these.", s.bytes);
  to.counter("caller_wait_seconds_total", "Time that callers waited.", s.caller_wait_seconds);
  to.counter("starved_seconds_total", "Part of it with an idle stream.", s.starved_seconds);
  to.counter("worker_wait_seconds_total", "Time that workers waited.", s.worker_wait_seconds);
}
template <class S, detail::if_one_of<S, batcher_statistics> = 0>
void add_metrics(metrics_writer& to, S const& s) {
  to.counter("submitted_total", "Requests.", s.submitted);
  to.counter("answered_total", "Requests answered with a value.", s.answered);
  to.counter("late_total", "Requests not answered within their deadline.", s.late);
  to.counter("shed_total", "Requests refused or dropped.", s.shed);
  to.counter("cancelled_total", "Requests cancelled.", s.cancelled);
  to.counter("failed_total", "Requests whose batch failed.", s.failed);
  to.counter("closing_total", "Requests that came or waited at the end.", s.closing);
  to.gauge("queued", "Requests that wait.", s.queued);
  to.gauge("running", "Requests in batches.", s.running);
  to.counter("batches_total", "Batches.", s.batches);
  to.counter("items_total", "Requests in these.", s.items);
  to.counter("padded_items_total", "Items of these with padding.", s.padded_items);
  to.counter("wait_seconds_total", "Time of these in the queue.", s.wait_seconds);
  to.counter("busy_seconds_total", "Time of lanes with a batch.", s.busy_seconds);
  to.gauge("lanes", "Batches that can run at once.", s.lanes);
}
template <class S, detail::if_one_of<S, step_statistics> = 0>
void add_metrics(metrics_writer& to, S const& s) {
  to.counter("steps_total", "Steps.", s.steps);
  to.counter("items_total", "Items in these.", s.items);
  to.gauge("items_per_second", "Rate over recent steps.", s.items_per_second);
  to.gauge("median_seconds", "Median of recent steps.", s.median_seconds);
  to.gauge("p99_seconds", "99th percentile of recent steps.", s.p99_seconds);
  to.gauge("slowdown_ratio", "Recent median over the baseline's; NaN: none yet.", s.slowdown);
}

namespace detail {

using collect_function = void (*)(void* source, metrics_writer& to);

template <class Source, class = void>
struct metrics_source : std::false_type {};
template <class Source>
struct metrics_source<Source,
                      std::void_t<decltype(add_metrics(std::declval<metrics_writer&>(),
                                                       std::declval<Source&>().statistics()))>>
    : std::true_type {
  static void collect(void* source, metrics_writer& to) {
    add_metrics(to, static_cast<Source*>(source)->statistics());
  }
};

}  // namespace detail

/// Metrics by name, and their text for Prometheus (text format 0.0.4).
///
/// **The text is made from every source that was added: a source must outlive the page, or be
/// removed before it is destroyed. A metric that the page made must not be used behind it.**
///
/// A source is any object with a member statistics() for whose result there is a function
/// `void add_metrics(ww::metrics_writer&, result const&)`, in the namespace of the result. The
/// library has them for memory_pool, pinned_pool, tuning_pool, graph_cache, prefetcher,
/// result_collector, step_timer and monitor.
///
/// **Threads:** any number may call any member at once, also while metrics are counted; calls that
/// make the text, add or remove wait for each other. A source must not call the page. **Capture:**
/// legal, if statistics() of the sources is.
class metrics_page {
 public:
  /// The MIME type of the text.
  static constexpr char const* content_type = "text/plain; version=0.0.4; charset=utf-8";

  /// @param max_series  the most sets of labels of one metric, at least 1: labels that are made
  ///   from users' input would fill the memory of this program, and of Prometheus
  /// @throws std::invalid_argument  for 0
  explicit metrics_page(std::size_t max_series = 1000,
                        source_location where = source_location::current());
  ~metrics_page();
  metrics_page(metrics_page const&) = delete;
  metrics_page& operator=(metrics_page const&) = delete;

  /// Makes a counter, which the page owns.
  /// @param name    letters, digits, _ and :, no digit first; by convention it ends in _total
  /// @param help    one sentence, any text; of series with one name, that of the first is kept
  /// @param labels  tell the series of one name apart
  /// @throws std::invalid_argument  for an illegal name of it or a label, a name that is another
  ///   kind's, a series that is there already, or more than max_series of one name
  /// @throws std::bad_alloc         when the host has no memory for it; the text is as before
  metric_counter counter(char const* name, char const* help, metric_labels labels = {},
                         source_location where = source_location::current()) {
    return metric_counter{make(metric_kind::counter, name, help, {}, labels, where)};
  }
  /// Makes a gauge, which is 0 at first; as counter().
  metric_gauge gauge(char const* name, char const* help, metric_labels labels = {},
                     source_location where = source_location::current()) {
    return metric_gauge{make(metric_kind::gauge, name, help, {}, labels, where)};
  }
  /// Makes a histogram; as counter().
  /// @param bounds  upper bounds of buckets, 1 to 128 finite numbers in rising order; there is one
  ///   more bucket above the last one
  /// @throws std::invalid_argument  for other bounds, and for a label "le"
  metric_histogram histogram(char const* name, char const* help, std::vector<double> const& bounds,
                             metric_labels labels = {},
                             source_location where = source_location::current()) {
    return metric_histogram{make(metric_kind::histogram, name, help, bounds, labels, where)};
  }

  /// Adds what an object tells about itself, and reads it once, to try it.
  /// @param name    begins the names of its metrics: "pool" makes pool_live_bytes
  /// @param source  see above; must outlive the page, or be removed
  /// @param labels  of all of its series: two sources of one name differ by them
  /// @throws std::invalid_argument  as counter(), and what the source throws; the text is as before
  template <class Source>
  void add(char const* name, Source& source, metric_labels labels = {},
           source_location where = source_location::current()) {
    static_assert(detail::metrics_source<Source>::value,
                  "warpwright: metrics_page::add takes an object with a member statistics(), and "
                  "needs a function void add_metrics(ww::metrics_writer&, T const&) for its result "
                  "T, in the namespace of T");
    if constexpr (detail::metrics_source<Source>::value) {
      add_source(name, const_cast<void*>(static_cast<void const*>(&source)),
                 &detail::metrics_source<Source>::collect, labels, where);
    }
  }
  template <class Source>
  void add(char const*, Source const&&, metric_labels = {},
           source_location = source_location::current()) = delete;  // it is destroyed at once
  /// Removes a source. @return whether it was there
  template <class Source>
  bool remove(Source const& source) noexcept {
    return remove_source(&source);
  }

  /// @return all metrics, each name once with all its series, in the order in which they came
  /// @throws std::bad_alloc  when the host has no memory for it
  /// **Cost:** some 40 ns a line, and statistics() of each source.
  [[nodiscard]] std::string to_prometheus() const {
    std::string text;
    to_prometheus(text);
    return text;
  }
  /// Appends the same to a string: without an allocation from the second time on, if the capacity
  /// suffices and statistics() of the sources allocates nothing.
  void to_prometheus(std::string& text) const;
  /// @return why a source's figure was left out of a text, the first time: an exception of
  ///   statistics(), an illegal name, too many series; "" if none was
  [[nodiscard]] std::string problem() const;

 private:
  detail::metric_cells& make(metric_kind kind, char const* name, char const* help,
                             std::vector<double> bounds, metric_labels labels,
                             source_location where);
  void add_source(char const* name, void* source, detail::collect_function collect,
                  metric_labels labels, source_location where);
  bool remove_source(void const* source) noexcept;

  detail::metrics_core* core_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/metrics_definitions.hpp>
#endif
