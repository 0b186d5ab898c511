// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a call of a graph_cache does when the fast path does not serve it.
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/detail/cache/cache_core.hpp>
#include <warpwright/graph/graph_cache_statistics.hpp>
#include <warpwright/graph/graph_exec.hpp>

#include <string>

WARPWRIGHT_BEGIN

namespace detail {

// The owner of a cached graph's handle.
struct built_graph : cached_graph {
  built_graph(std::size_t words_count, graph_exec made)
      : cached_graph{words_count}, owner{static_cast<graph_exec&&>(made)} {
    exec = owner.get();
  }

  graph_exec owner;
  graph source{nullptr};  // kept only if replays are verified
};

struct cache_core::target {
  stream_ref stream;
  std::uint64_t id;
  int device;
};

struct cache_core::decision {
  enum class action : unsigned char { eager, launch, build, verify };
  action what = decision::action::eager;
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
class cache_core::promised_sample : noncopyable {
 public:
  explicit promised_sample(cache_core& core) noexcept : core_{core} {}
  ~promised_sample() {
    if (shape_ == nullptr) return;
    unique_lock<mutex> const policies{core_.mutex_};
    if (sample_ != nullptr) step_timer::abandon(sample_);
    shape_->gate.sampled(mode_, -1.0);
  }
  // @pre the mutex is held
  void reserve(decision const& d, target const& t) noexcept {
    if (!d.sample) return;
    shape_ = d.shape;
    mode_ = d.what == decision::action::eager ? step_mode::eager : step_mode::graph;
    sample_ = core_.timer_.reserve(t.device, shape_, mode_);
  }
  void start(target const& t) noexcept {
    if (sample_ == nullptr) return;
    started_ = step_timer::record(sample_->start, t.stream.get());
    start_ = core_.options_.clock.now();
  }
  // @pre no graph is held
  void end(target const& t) noexcept {
    if (sample_ == nullptr || !started_) return;
    double const host = static_cast<double>(core_.options_.clock.now() - start_);
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

WARPWRIGHT_INLINE cached_graph* cache_core::find_graph(cached_shape const& shape,
                                                       binding_view words,
                                                       target const& t) const noexcept {
  cached_graph* oldest = nullptr;
  unsigned found = 0;
  for (cached_graph* g = shape.graphs; g != nullptr; g = g->next) {
    if (g->device != t.device || !shape.binds(*g, words)) continue;
    if (g->stream_id == t.id) return g;
    if (oldest == nullptr || g->last_launch < oldest->last_launch) oldest = g;
    ++found;
  }
  return found >= options_.replicas ? oldest : nullptr;
}

WARPWRIGHT_INLINE cached_graph* cache_core::find_idle_graph(unique_lock<spin_lock>& hot,
                                                            cached_shape const& shape,
                                                            binding_view words,
                                                            target const& t) noexcept {
  cached_graph* found = nullptr;
  while ((found = find_graph(shape, words, t)) != nullptr &&
         found->busy.load(memory_order::acquire)) {
    hold(hot, *found);
  }
  return found;
}

WARPWRIGHT_INLINE void cache_core::poll_retired(target const& t) noexcept {
  cached_bytes const used = lru_.bytes();
  cached_bytes left{options_.max_bytes, options_.max_pool_bytes};
  left.graphs -= used.graphs < left.graphs ? used.graphs : left.graphs;
  left.pool -= used.pool < left.pool ? used.pool : left.pool;
  retired_.poll(t.stream.get(), t.id, left);
}

WARPWRIGHT_INLINE cache_core::target cache_core::resolve(stream_ref stream, source_location where) {
  std::uint64_t const id = stream.id(where);
  {
    unique_lock<spin_lock> const hot{lock_};
    int const device = streams_.device_of(id);
    if (device != stream_table::unknown) return {stream, id, device};
  }
  int const device = device_of(stream, where).value();
  unique_lock<spin_lock> const hot{lock_};
  streams_.add(id, device);
  return {stream, id, device};
}

// Null if the cache has as many keys as it admits.
WARPWRIGHT_INLINE cached_shape* cache_core::find_or_add(cache_call const& call) {
  if (cached_shape* const known = table_.find(call.key, call.tag)) return known;
  if (table_.all().size() >= options_.max_shapes) return nullptr;
  array<cached_shape*> larger = table_.grown();
  auto* const added = new cached_shape{call.key, call.tag, shape_table::hash(call.key, call.tag),
                                       call.words.count, options_};
  unique_lock<spin_lock> const hot{lock_};
  table_.insert(added, larger);
  return added;
}

WARPWRIGHT_INLINE void cache_core::take_sampled_times() noexcept {
  if (!timer_.pending()) return;
  relaxed_capture_mode const relaxed;
  timer_.poll([](void* owner, step_mode mode, double nanoseconds) {
    static_cast<cached_shape*>(owner)->gate.sampled(mode, nanoseconds);
  });
}

// Under the spin lock. A pause for evictions ends early when the key has had many calls without one
// of the oldest key of those with graphs: that loses its graphs for this one.
WARPWRIGHT_INLINE bool cache_core::stays_paused(cached_shape& shape) noexcept {
  if (!shape.guard.paused(shape.counts.calls)) return false;
  if (!shape.guard.waits_for_room()) return true;
  if (shape.counts.calls - shape.watched_from < thrash_guard::first_pause) return true;
  auto* const oldest = static_cast<cached_shape*>(lru_.oldest());
  std::uint64_t const calls = oldest != nullptr ? oldest->counts.calls : 0;
  bool const unused = oldest == shape.oldest && calls == shape.oldest_calls;
  shape.oldest = oldest;
  shape.oldest_calls = calls;
  shape.watched_from = shape.counts.calls;
  if (unused) shape.guard.resume();
  return !unused;
}

WARPWRIGHT_INLINE cache_core::decision cache_core::decide(cached_shape& shape,
                                                          cache_call const& call,
                                                          target const& t) noexcept {
  decision d;
  d.shape = &shape;
  unique_lock<spin_lock> hot{lock_};
  ++shape.counts.calls;
  lru_.touch_listed(shape);
  bool const due = shape.fast_left == 0;
  if (!due) --shape.fast_left;
  if (shape.warmups > 0 || stays_paused(shape)) {
    ++shape.counts.eager;
    follow(shape, call.words);
    if (shape.warmups > 0) {
      --shape.warmups;
    } else {
      shape.fast = fast_mode::eager;
      std::uint64_t const left = shape.guard.left(shape.counts.calls);
      bool const looks = shape.guard.waits_for_room() && left > thrash_guard::first_pause;
      shape.fast_left = (looks ? thrash_guard::first_pause : left) - 1;
    }
    return d;
  }
  shape.failing = false;
  step_mode mode = shape.gate.mode();
  if (due) {
    shape.gate.observe(shape.counts.calls - shape.observed_calls,
                       shape.changes - shape.observed_changes);
    shape.observed_calls = shape.counts.calls;
    shape.observed_changes = shape.changes;
    cost_gate::plan const plan = shape.gate.next();
    mode = plan.run;
    d.sample = plan.sample;
    shape.fast_left = plan.next - 1;
  }
  if (mode == step_mode::eager) {
    shape.fast = fast_mode::eager;
    ++shape.counts.eager;
    follow(shape, call.words);
    return d;
  }
  shape.fast = options_.verify_every == 0 ? fast_mode::graph : fast_mode::none;
  cached_graph* const graph = find_idle_graph(hot, shape, call.words, t);
  if (graph == nullptr) {
    if (shape.counts.builds > 0) ++shape.changes;
    if (shape.evicted) ++shape.refills;
    d.samples_first = shape.gate.takes_first_launches();
    d.what = decision::action::build;
    return d;
  }
  if (options_.verify_every != 0 && ++graph->until_verified >= options_.verify_every) {
    graph->until_verified = 0;
    d.what = decision::action::verify;
    return d;
  }
  graph->stream_id = t.id;
  take(shape, *graph);
  d.what = decision::action::launch;
  d.graph = graph;
  return d;
}

WARPWRIGHT_INLINE graph_step cache_core::run(cache_call const& call, stream_ref stream, body step,
                                             source_location where) {
  if (stream.get() == cudaStreamLegacy || is_capturing(stream, where)) {
    {
      unique_lock<mutex> const policies{mutex_};
      ++(stream.get() == cudaStreamLegacy ? legacy_calls_ : inlined_calls_);
    }
    return run_eagerly({stream, 0, 0}, step, nullptr, where);
  }
  target const t = resolve(stream, where);
  decision d;
  promised_sample sample{*this};
  {
    unique_lock<mutex> const policies{mutex_};
    poll_retired(t);
    take_sampled_times();
    if (cached_shape* const shape = find_or_add(call)) {
      d = decide(*shape, call, t);
      sample.reserve(d, t);
    } else {
      ++rejected_calls_;
    }
  }
  switch (d.what) {
    case decision::action::launch:
      return launch(d, call, t, graph_step::replayed, step, &sample, where);
    case decision::action::build:
      return build(d, call, t, step, &sample, where);
    case decision::action::verify:
      return verify(d, call, t, step, &sample, where);
    case decision::action::eager:
      break;
  }
  return run_eagerly(t, step, &sample, where);
}

WARPWRIGHT_INLINE graph_step cache_core::run_eagerly(target const& t, body step,
                                                     promised_sample* sample,
                                                     source_location where) {
  bool const had_error = cudaPeekAtLastError() != cudaSuccess;
  if (sample != nullptr) sample->start(t);
  {
    capture_scope scope{t.stream, capture_scope::without_capture{}};
    step(scope);
    scope.join_all(where);
  }
  // A capture could not tell it from an error of its own body.
  if (!had_error) check_pending("the step of graph_cache", where);
  if (sample != nullptr) sample->end(t);
  return graph_step::eager;
}

WARPWRIGHT_INLINE graph_step cache_core::launch(decision const& d, cache_call const& call,
                                                target const& t, graph_step done, body step,
                                                promised_sample* sample, source_location where) {
  // The first launch of an executable graph uploads it, and is no measure of later ones.
  bool const first = done == graph_step::captured || done == graph_step::rebuilt;
  if (first && !d.samples_first) sample = nullptr;
  if (sample != nullptr) sample->start(t);
  cudaError_t const status = cudaGraphLaunch(d.graph->exec, t.stream.get());
  release(*d.graph);
  if (status == cudaSuccess) {
    if (sample != nullptr) sample->end(t);
    return done;
  }
  return launch_failed(call, t.stream, d.graph, done, status, step, where);
}

WARPWRIGHT_INLINE graph_step cache_core::launch_failed(cache_call const& call, stream_ref stream,
                                                       cached_graph* graph, graph_step done,
                                                       cudaError_t status, body step,
                                                       source_location where) {
  discard(status);
  bool const falls_back =
      options_.eager_fallback && !is_sticky(status) && !is_capture_error(status);
  {
    unique_lock<mutex> const policies{mutex_};
    cached_shape& shape = *table_.find(call.key, call.tag);
    cached_graph* g = nullptr;
    {
      unique_lock<spin_lock> const hot{lock_};
      if (done == graph_step::replayed) --shape.counts.replays;
      if (falls_back) ++shape.counts.eager;
      // Another thread may have destroyed the graph since.
      for (g = shape.graphs; g != nullptr && g != graph;) g = g->next;
    }
    note_failure(shape, (text{"cudaGraphLaunch: "} + cudaGetErrorName(status)).c_str());
    if (g != nullptr) {
      unlink(shape, *g);
      relaxed_capture_mode const relaxed;
      delete g;
    }
  }
  if (!falls_back) check(status, "cudaGraphLaunch", where);
  return run_eagerly({stream, 0, 0}, step, nullptr, where);
}

WARPWRIGHT_INLINE void cache_core::note_failure(cached_shape& shape,
                                                std::string const& text) noexcept {
  ++shape.counts.failures;
  unique_lock<spin_lock> const hot{lock_};
  shape.fast = fast_mode::none;
  if (options_.eager_fallback) {
    shape.failing = true;
    shape.guard.failed(shape.counts.replays);
  }
  try {
    shape.last_failure = text;
  } catch (...) {
    shape.last_failure.clear();
  }
}

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/cache/cache_builds_definitions.hpp>
#endif
