// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a graph_cache, and its fast path. cache_steps_definitions.hpp has what other calls
// do, and cache_lists_definitions.hpp the lists of graphs.
//
// Two locks. The spin lock guards what the fast path reads, and is held for tens of nanoseconds.
// The mutex guards the policies, is taken before the spin lock, and is held across CUDA calls but
// never while the user's function runs: that may call the same cache.
#pragma once

#include <warpwright/core/detail/capture/graph_holder.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/graph/detail/cache/cached_shape.hpp>
#include <warpwright/graph/detail/cache/step_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

class capture_scope;
class graph;
class graph_exec;
enum class graph_step;
struct graph_cache_statistics;

namespace detail {

/// Graphs that are not launched any more, until their last launch has completed. That is known from
/// an event behind it, which is recorded when a call passes the stream of that launch: the stream
/// may not exist at any other time.
///
/// There are few whose stream has not been seen, few in all, and they fit a budget: others are
/// destroyed at once. CUDA then frees a running one when it has completed.
class retired_graphs : noncopyable {
 public:
  static constexpr std::size_t most = 64;
  static constexpr std::size_t most_unmarked = 8;
  ~retired_graphs() { clear(); }

  /// Makes room for `count` graphs more, so that add() cannot fail.
  void reserve(std::size_t count) { rows_.reserve(rows_.size() + count); }
  /// Takes a graph that no thread launches. @pre reserve()
  void add(cached_graph* retired) noexcept;
  /// Records events on the stream of the present call for graphs that wait for one, and destroys
  /// those whose last launch has completed, on whichever stream; then the oldest, until the rest
  /// need at most so much memory.
  void poll(cudaStream_t stream, std::uint64_t stream_id, cached_bytes const& most_bytes) noexcept;
  /// Destroys all but those that are known to run.
  void trim() noexcept;
  void clear() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

 private:
  struct row {
    cached_graph* retired;
    event* completed;
  };

  static void mark(row& r, cudaStream_t stream) noexcept;
  static bool is_complete(row const& r) noexcept;
  // The oldest first.
  template <class Condition>
  void drop_if(Condition&& condition) noexcept;
  array<row> rows_;
  cached_bytes bytes_;
};

/// The key, the function's type and the bindings of a call.
struct cache_call {
  shape_key const& key;
  void const* tag;
  binding_view words;
};

class cache_core : noncopyable {
 public:
  using body = function_ref<void(capture_scope&)>;
  enum class route : unsigned char { slow, eager, launch };

  explicit cache_core(cache_settings const& options)
      : options_{options}, lru_{options.max_entries, {options.max_bytes, options.max_pool_bytes}} {}
  ~cache_core() { clear(); }

  /// For a pool that is short of memory: destroys the graphs of the key that was not used for
  /// longest, and those that are not launched any more. @return false: there are none
  static bool release_some(void* core) noexcept;

  /// What a call does, if that can be told without the policies. `launch`: the graph is the
  /// caller's until release().
  WARPWRIGHT_ALWAYS_INLINE route fast(cache_call const& call, stream_ref stream,
                                      cached_graph*& launched) noexcept {
    for (int step = 0;; ++step) {
      lock_.lock();
      cached_shape* shape = last_;
      if (shape == nullptr || !shape->is(call.key, call.tag)) {
        shape = table_.find(call.key, call.tag);
        if (shape == nullptr) break;
        last_ = shape;
      }
      if (shape->fast_left == 0 || shape->fast == fast_mode::none) break;
      if (shape->fast == fast_mode::eager) {
        ++shape->counts.calls;
        ++shape->counts.eager;
        --shape->fast_left;
        lru_.touch_listed(*shape);
        follow(*shape, call.words);
        lock_.unlock();
        return route::eager;
      }
      cached_graph* graph = shape->graphs;
      while (graph != nullptr && !(shape->binds(*graph, call.words) && serves(*graph, stream))) {
        graph = graph->next;
      }
      if (graph == nullptr) break;
      if (!graph->busy.load(memory_order::acquire)) {
        ++shape->counts.calls;
        --shape->fast_left;
        take(*shape, *graph);
        lock_.unlock();
        launched = graph;
        return route::launch;
      }
      lock_.unlock();
      spin_wait(step);
    }
    lock_.unlock();
    return route::slow;
  }
  static void release(cached_graph& graph) noexcept {
    graph.busy.store(false, memory_order::release);
  }

  /// A call that the fast path could not do.
  graph_step run(cache_call const& call, stream_ref stream, body step, source_location where);
  /// The fast path's launch failed with `status`; the graph was released.
  graph_step launch_failed(cache_call const& call, stream_ref stream, cached_graph* graph,
                           graph_step done, cudaError_t status, body step, source_location where);
  /// Captures and instantiates without running the step.
  graph_step prewarm(cache_call const& call, stream_ref stream, body step, source_location where);

  /// Evicts the oldest keys until the rest needs at most so many bytes; 0: all.
  void trim(std::size_t bytes) noexcept;
  /// @pre no other thread is inside a call
  void clear() noexcept;
  [[nodiscard]] graph_cache_statistics statistics();

 private:
  struct target;          // the stream of a call
  struct decision;        // what it does
  class promised_sample;  // whether it is timed

  // --- under the spin lock ---

  // Whether a launch of the graph on the stream is what the step would do there.
  WARPWRIGHT_ALWAYS_INLINE bool serves(cached_graph& graph, stream_ref stream) const noexcept {
    if (!stream.has_id()) return false;
    std::uint64_t const id = stream.id();
    if (graph.stream_id == id) return true;
    if (options_.replicas != 1 || streams_.device_of(id) != graph.device) return false;
    graph.stream_id = id;
    return true;
  }
  WARPWRIGHT_ALWAYS_INLINE void take(cached_shape& shape, cached_graph& graph) noexcept {
    graph.busy.store(true, memory_order::relaxed);
    graph.last_launch = ++launches_;
    ++shape.counts.replays;
    lru_.touch(shape);
  }
  // Counts bindings that changed during eager calls: a graph would have been updated.
  WARPWRIGHT_ALWAYS_INLINE void follow(cached_shape& shape, binding_view words) noexcept {
    std::uint64_t* const last = shape.last_words.begin();
    if (!shape.new_words && same_words(last, words.words, words.count)) return;
    for (std::size_t i = 0; i < words.count; ++i) last[i] = words.words[i];
    bool const first = shape.new_words;
    shape.new_words = false;
    for (cached_graph* g = shape.graphs; g != nullptr; g = g->next) {
      if (shape.binds(*g, words)) return;
    }
    if (!first) ++shape.changes;
  }
  // The graph that a call launches; null if there is none. With several replicas each stream has
  // its own, as long as there are not too many.
  [[nodiscard]] cached_graph* find_graph(cached_shape const& shape, binding_view words,
                                         target const& t) const noexcept;
  // As find_graph(), and waits until no thread launches or changes the graph.
  cached_graph* find_idle_graph(unique_lock<spin_lock>& hot, cached_shape const& shape,
                                binding_view words, target const& t) noexcept;
  static void hold(unique_lock<spin_lock>& hot, cached_graph const& graph) noexcept;

  // --- under the mutex ---

  cached_shape* find_or_add(cache_call const& call);
  bool stays_paused(cached_shape& shape) noexcept;
  decision decide(cached_shape& shape, cache_call const& call, target const& t) noexcept;
  void take_sampled_times() noexcept;
  void link(cached_shape& shape, cached_graph& graph) noexcept;
  void unlink(cached_shape& shape, cached_graph& graph) noexcept;
  bool evict(cached_shape& shape) noexcept;
  // Evicts what `next` returns, under the spin lock, until that is null.
  template <class Next>
  void evict_while(Next&& next) noexcept {
    for (;;) {
      lru_node* node = nullptr;
      {
        unique_lock<spin_lock> const hot{lock_};
        node = next();
      }
      if (node == nullptr || !evict(static_cast<cached_shape&>(*node))) return;
    }
  }
  // Retired graphs get what the others leave of the byte budgets.
  void poll_retired(target const& t) noexcept;
  void note_failure(cached_shape& shape, std::string const& text) noexcept;

  // --- without a lock ---

  graph capture_step(target const& t, body step, unsigned char stack_fill, decision& d,
                     source_location where);
  target resolve(stream_ref stream, source_location where);
  graph_step run_eagerly(target const& t, body step, promised_sample* sample,
                         source_location where);
  graph_step launch(decision const& d, cache_call const& call, target const& t, graph_step done,
                    body step, promised_sample* sample, source_location where);
  graph capture_or_note(decision& d, target const& t, body step, source_location where,
                        unsigned char stack_fill);
  void note_failure_of(decision const& d, std::string const& text) noexcept;
  graph_step fall_back(decision const& d, target const& t, graph const& captured, body step,
                       source_location where);
  graph_step build(decision& d, cache_call const& call, target const& t, body step,
                   promised_sample* sample, source_location where);
  graph_step verify(decision& d, cache_call const& call, target const& t, body step,
                    promised_sample* sample, source_location where);

  // --- again under the mutex: they destroy and instantiate graphs ---

  graph_step adopt(decision& d, cache_call const& call, target const& t, graph& captured,
                   double started, source_location where);
  graph_exec instantiate(graph const& captured, cached_shape const& shape, source_location where);
  double now() const noexcept { return static_cast<double>(options_.clock.now()); }

  cache_settings const options_;
  spin_lock lock_;
  cached_shape* last_ = nullptr;  // of the last call
  shape_table table_;
  lru_list lru_;
  stream_table streams_;
  std::uint64_t launches_ = 0;

  mutex mutex_;
  step_timer timer_;
  retired_graphs retired_;
  // What is not counted by key, as in graph_cache_statistics:
  std::uint64_t rebuilds_by_reason_[10] = {};
  std::uint64_t legacy_calls_ = 0;
  std::uint64_t inlined_calls_ = 0;
  std::uint64_t rejected_calls_ = 0;
  graph_holder holder_{&cache_core::release_some, this};
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/cache/cache_lists_definitions.hpp>
#include <warpwright/graph/detail/cache/cache_steps_definitions.hpp>
#endif
