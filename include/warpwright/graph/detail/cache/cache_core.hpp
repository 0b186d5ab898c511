// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a graph_cache, and its fast path. cache_steps.hpp has what other calls do, and
// cache_lists.hpp the lists of graphs.
//
// Two locks. The spin lock guards what the fast path reads, and is held for tens of nanoseconds.
// The mutex guards the policies, is taken before the spin lock, and is held across CUDA calls but
// never while the user's function runs: that may call the same cache.
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/capture/graph_holder.hpp>
#include <warpwright/core/detail/capture/stream_device.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/compare_graphs.hpp>
#include <warpwright/graph/detail/cache/cached_shape.hpp>
#include <warpwright/graph/detail/cache/retired_graphs.hpp>
#include <warpwright/graph/detail/cache/step_timer.hpp>
#include <warpwright/graph/detail/cache/stream_table.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The key, the function's type and the bindings of a call.
struct cache_call {
  shape_key const& key;
  void const* tag;
  binding_view words;
};

class cache_core {
 public:
  using body = function_ref<void(capture_scope&)>;
  enum class route : unsigned char { slow, eager, launch };

  cache_core(graph_cache_options const& options, source_location where)
      : options_{options},
        lru_{options.max_entries(), {options.max_bytes(), options.max_pool_bytes()}} {
    options.check(where);
  }
  cache_core(cache_core const&) = delete;
  cache_core& operator=(cache_core const&) = delete;
  ~cache_core() { clear(); }

  /// For a pool that is short of memory: destroys the graphs of the key that was not used for
  /// longest, and those that are not launched any more. @return false: there are none
  static bool release_some(void* core) noexcept {
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
        ++shape->calls;
        ++shape->eager;
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
        ++shape->calls;
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
  void trim(std::size_t bytes) noexcept {
    unique_lock<mutex> const policies{mutex_};
    evict_while(
        [&] { return lru_.bytes().graphs > bytes || bytes == 0 ? lru_.oldest() : nullptr; });
    retired_.trim();
  }
  /// @pre no other thread is inside a call
  void clear() noexcept {
    unique_lock<mutex> const policies{mutex_};
    relaxed_capture_mode const relaxed;
    timer_.clear();
    for (cached_shape* const shape : table_.all()) lru_.remove(*shape);
    last_ = nullptr;
    table_.clear();
    retired_.clear();
    totals_ = graph_cache_statistics{};
  }
  [[nodiscard]] graph_cache_statistics statistics();
  [[nodiscard]] graph_cache_options const& options() const noexcept { return options_; }

 private:
  /// The stream of a call.
  struct target {
    stream_ref stream;
    std::uint64_t id;
    int device;
  };
  enum class action : unsigned char { eager, launch, build, verify };
  struct decision {
    action what = action::eager;
    bool sample = false;
    bool samples_first = false;  // the first launch of a new graph is a sample
    cached_shape* shape = nullptr;
    cached_graph* graph = nullptr;  // of a launch: taken
    std::size_t pool_bytes = 0;     // of a capture
    bool leaves_room = true;        // pools have as much left as the capture takes
  };
  // A sample that the gate has asked for: lost unless the call ends. A graph is busy between
  // start() and end(), so that start() must not wait for the mutex, whose holder may wait for the
  // graph.
  class promised_sample {
   public:
    explicit promised_sample(cache_core& core) noexcept : core_{core} {}
    ~promised_sample() {
      if (shape_ == nullptr) return;
      unique_lock<mutex> const policies{core_.mutex_};
      if (sample_ != nullptr) step_timer::abandon(sample_);
      shape_->gate.sampled(mode_, -1.0);
    }
    promised_sample(promised_sample const&) = delete;
    promised_sample& operator=(promised_sample const&) = delete;
    // @pre the mutex is held
    void reserve(decision const& d, target const& t) noexcept {
      if (!d.sample) return;
      shape_ = d.shape;
      mode_ = d.what == action::eager ? step_mode::eager : step_mode::graph;
      sample_ = core_.timer_.reserve(t.device, shape_, mode_);
    }
    void start(target const& t) noexcept {
      if (sample_ == nullptr) return;
      started_ = step_timer::record(sample_->start, t.stream.get());
      start_ = core_.options_.clock().now();
    }
    // @pre no graph is held
    void end(target const& t) noexcept {
      if (sample_ == nullptr || !started_) return;
      double const host = static_cast<double>(core_.options_.clock().now() - start_);
      if (!step_timer::record(sample_->stop, t.stream.get())) return;
      unique_lock<mutex> const policies{core_.mutex_};
      core_.timer_.commit(sample_, host);
      shape_ = nullptr;
    }

   private:
    cache_core& core_;
    cached_shape* shape_ = nullptr;
    step_mode mode_ = step_mode::eager;
    step_timer::sample* sample_ = nullptr;
    bool started_ = false;
    std::uint64_t start_ = 0;
  };

  // --- under the spin lock ---

  // Whether a launch of the graph on the stream is what the step would do there.
  WARPWRIGHT_ALWAYS_INLINE bool serves(cached_graph& graph, stream_ref stream) const noexcept {
    if (!stream.has_id()) return false;
    std::uint64_t const id = stream.id();
    if (graph.stream_id == id) return true;
    if (options_.replicas() != 1 || streams_.device_of(id) != graph.device) return false;
    graph.stream_id = id;
    return true;
  }
  WARPWRIGHT_ALWAYS_INLINE void take(cached_shape& shape, cached_graph& graph) noexcept {
    graph.busy.store(true, memory_order::relaxed);
    graph.last_launch = ++launches_;
    ++shape.replays;
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
                                         target const& t) const noexcept {
    cached_graph* oldest = nullptr;
    unsigned found = 0;
    for (cached_graph* g = shape.graphs; g != nullptr; g = g->next) {
      if (g->device != t.device || !shape.binds(*g, words)) continue;
      if (g->stream_id == t.id) return g;
      if (oldest == nullptr || g->last_launch < oldest->last_launch) oldest = g;
      ++found;
    }
    return found >= options_.replicas() ? oldest : nullptr;
  }

  // --- under the mutex ---

  void hold(unique_lock<spin_lock>& hot, cached_graph const& graph) noexcept {
    for (int step = 0; graph.busy.load(memory_order::acquire); ++step) {
      hot.unlock();
      spin_wait(step);
      hot.lock();
    }
  }
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
  void poll_retired(target const& t) noexcept {
    cached_bytes const used = lru_.bytes();
    cached_bytes left{options_.max_bytes(), options_.max_pool_bytes()};
    left.graphs -= used.graphs < left.graphs ? used.graphs : left.graphs;
    left.pool -= used.pool < left.pool ? used.pool : left.pool;
    retired_.poll(t.stream.get(), t.id, left);
  }
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
                        unsigned char stack_fill = stack_fill_now);
  void note_failure_of(decision const& d, std::string const& text) noexcept;
  graph_step fall_back(decision const& d, target const& t, graph const& captured, body step,
                       source_location where);
  graph_step build(decision d, cache_call const& call, target const& t, body step,
                   promised_sample* sample, source_location where);
  graph_step verify(decision d, cache_call const& call, target const& t, body step,
                    promised_sample* sample, source_location where);

  // --- again under the mutex: they destroy and instantiate graphs ---

  graph_step adopt(decision& d, cache_call const& call, target const& t, graph& captured,
                   double started, source_location where);
  graph_exec instantiate(graph const& captured, cached_shape const& shape, source_location where);
  double now() const noexcept { return static_cast<double>(options_.clock().now()); }

  graph_cache_options const options_;
  spin_lock lock_;
  cached_shape* last_ = nullptr;  // of the last call
  shape_table table_;
  lru_list lru_;
  stream_table streams_;
  std::uint64_t launches_ = 0;

  mutex mutex_;
  step_timer timer_;
  retired_graphs retired_;
  graph_cache_statistics totals_;  // what is not counted by key
  graph_holder holder_{&cache_core::release_some, this};
};

}  // namespace detail

WARPWRIGHT_END

#include <warpwright/graph/detail/cache/cache_lists.hpp>
#include <warpwright/graph/detail/cache/cache_steps.hpp>
