// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a call of a graph_cache does when the fast path does not serve it.
#pragma once

#include <warpwright/core/detail/capture/captured_memory.hpp>
#include <warpwright/graph/detail/cache/cache_core.hpp>
#include <warpwright/graph/detail/capture_position.hpp>

#include <new>
#include <stdexcept>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

// Bytes of padding in kernels' arguments come from the stack: the captures that are compared find
// known values there.
WARPWRIGHT_NOINLINE inline void fill_stack_below(unsigned char value) noexcept {
  unsigned char volatile bytes[16384];
  for (unsigned char volatile& byte : bytes) byte = value;
}

inline graph cache_core::capture_step(target const& t, body step, unsigned char stack_fill,
                                      decision& d, source_location where) {
  captured_memory memory;
  auto const counted = [&](capture_scope& scope) {
    memory.begin(capture_position_of(scope.stream(), where).id);
    if (options_.verify_every() != 0) fill_stack_below(stack_fill);
    step(scope);
  };
  graph captured = capture(t.stream, counted, options_.mode(), where);
  d.pool_bytes = memory.bytes();
  d.leaves_room = memory.leaves_room();
  return captured;
}

inline cache_core::target cache_core::resolve(stream_ref stream, source_location where) {
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
inline cached_shape* cache_core::find_or_add(cache_call const& call) {
  if (cached_shape* const known = table_.find(call.key, call.tag)) return known;
  if (table_.all().size() >= options_.max_shapes()) return nullptr;
  array<cached_shape*> larger = table_.grown();
  auto* const added = new cached_shape{call.key, call.tag, shape_table::hash(call.key, call.tag),
                                       call.words.count, options_};
  unique_lock<spin_lock> const hot{lock_};
  table_.insert(added, larger);
  return added;
}

inline void cache_core::take_sampled_times() noexcept {
  if (!timer_.pending()) return;
  relaxed_capture_mode const relaxed;
  timer_.poll([](void* owner, step_mode mode, double nanoseconds) {
    static_cast<cached_shape*>(owner)->gate.sampled(mode, nanoseconds);
  });
}

// Under the spin lock. A pause for evictions ends early when the key has had many calls without one
// of the oldest key of those with graphs: that loses its graphs for this one.
inline bool cache_core::stays_paused(cached_shape& shape) noexcept {
  if (!shape.guard.paused(shape.calls)) return false;
  if (!shape.guard.waits_for_room()) return true;
  if (shape.calls - shape.watched_from < thrash_guard::first_pause) return true;
  auto* const oldest = static_cast<cached_shape*>(lru_.oldest());
  std::uint64_t const calls = oldest != nullptr ? oldest->calls : 0;
  bool const unused = oldest == shape.oldest && calls == shape.oldest_calls;
  shape.oldest = oldest;
  shape.oldest_calls = calls;
  shape.watched_from = shape.calls;
  if (unused) shape.guard.resume();
  return !unused;
}

inline cache_core::decision cache_core::decide(cached_shape& shape, cache_call const& call,
                                               target const& t) noexcept {
  decision d;
  d.shape = &shape;
  unique_lock<spin_lock> hot{lock_};
  ++shape.calls;
  lru_.touch_listed(shape);
  bool const due = shape.fast_left == 0;
  if (!due) --shape.fast_left;
  if (shape.warmups > 0 || stays_paused(shape)) {
    ++shape.eager;
    follow(shape, call.words);
    if (shape.warmups > 0) {
      --shape.warmups;
    } else {
      shape.fast = fast_mode::eager;
      std::uint64_t const left = shape.guard.left(shape.calls);
      bool const looks = shape.guard.waits_for_room() && left > thrash_guard::first_pause;
      shape.fast_left = (looks ? thrash_guard::first_pause : left) - 1;
    }
    return d;
  }
  shape.failing = false;
  step_mode mode = shape.gate.mode();
  if (due) {
    shape.gate.observe(shape.calls - shape.observed_calls, shape.changes - shape.observed_changes);
    shape.observed_calls = shape.calls;
    shape.observed_changes = shape.changes;
    cost_gate::plan const plan = shape.gate.next();
    mode = plan.run;
    d.sample = plan.sample;
    shape.fast_left = plan.next - 1;
  }
  if (mode == step_mode::eager) {
    shape.fast = fast_mode::eager;
    ++shape.eager;
    follow(shape, call.words);
    return d;
  }
  shape.fast = options_.verify_every() == 0 ? fast_mode::graph : fast_mode::none;
  cached_graph* graph = find_graph(shape, call.words, t);
  while (graph != nullptr && graph->busy.load(memory_order::acquire)) {
    hold(hot, *graph);
    graph = find_graph(shape, call.words, t);
  }
  if (graph == nullptr) {
    if (shape.counts.builds > 0) ++shape.changes;
    if (shape.evicted) ++shape.refills;
    d.samples_first = shape.gate.takes_first_launches();
    d.what = action::build;
    return d;
  }
  if (options_.verify_every() != 0 && ++graph->until_verified >= options_.verify_every()) {
    graph->until_verified = 0;
    d.what = action::verify;
    return d;
  }
  graph->stream_id = t.id;
  take(shape, *graph);
  d.what = action::launch;
  d.graph = graph;
  return d;
}

inline graph_step cache_core::run(cache_call const& call, stream_ref stream, body step,
                                  source_location where) {
  if (stream.get() == cudaStreamLegacy || is_capturing(stream, where)) {
    {
      unique_lock<mutex> const policies{mutex_};
      ++(stream.get() == cudaStreamLegacy ? totals_.legacy_calls : totals_.inlined_calls);
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
      ++totals_.rejected_calls;
    }
  }
  switch (d.what) {
    case action::launch:
      return launch(d, call, t, graph_step::replayed, step, &sample, where);
    case action::build:
      return build(d, call, t, step, &sample, where);
    case action::verify:
      return verify(d, call, t, step, &sample, where);
    case action::eager:
      break;
  }
  return run_eagerly(t, step, &sample, where);
}

inline graph_step cache_core::run_eagerly(target const& t, body step, promised_sample* sample,
                                          source_location where) {
  if (sample != nullptr) sample->start(t);
  {
    capture_scope scope{t.stream, capture_scope::without_capture{}};
    step(scope);
    scope.join_all(where);
  }
  if (sample != nullptr) sample->end(t);
  return graph_step::eager;
}

inline graph_step cache_core::launch(decision const& d, cache_call const& call, target const& t,
                                     graph_step done, body step, promised_sample* sample,
                                     source_location where) {
  // The first launch of an executable graph uploads it, and is no measure of later ones.
  bool const first = done == graph_step::captured || done == graph_step::rebuilt;
  if (first && !d.samples_first) sample = nullptr;
  if (sample != nullptr) sample->start(t);
  cudaError_t const status = cudaGraphLaunch(d.graph->exec.get(), t.stream.get());
  release(*d.graph);
  if (status == cudaSuccess) {
    if (sample != nullptr) sample->end(t);
    return done;
  }
  return launch_failed(call, t.stream, d.graph, done, status, step, where);
}

inline graph_step cache_core::launch_failed(cache_call const& call, stream_ref stream,
                                            cached_graph* graph, graph_step done,
                                            cudaError_t status, body step, source_location where) {
  discard(status);
  bool const falls_back =
      options_.eager_fallback() && !is_sticky(status) && !is_capture_error(status);
  {
    unique_lock<mutex> const policies{mutex_};
    cached_shape& shape = *table_.find(call.key, call.tag);
    cached_graph* g = nullptr;
    {
      unique_lock<spin_lock> const hot{lock_};
      if (done == graph_step::replayed) --shape.replays;
      if (falls_back) ++shape.eager;
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

inline void cache_core::note_failure(cached_shape& shape, std::string const& text) noexcept {
  ++shape.counts.failures;
  unique_lock<spin_lock> const hot{lock_};
  shape.fast = fast_mode::none;
  if (options_.eager_fallback()) {
    shape.failing = true;
    shape.guard.failed(shape.replays);
  }
  try {
    shape.last_failure = text;
  } catch (...) {
    shape.last_failure.clear();
  }
}

// Null, with the reason, if the step cannot be captured and runs eagerly instead. Memory that a
// capture takes from a pool belongs to the graph, so that eagerly there may be enough, and what is
// an invalid argument in a capture may be valid without one; what the step throws in any case it
// throws again.
inline graph cache_core::capture_or_note(decision& d, target const& t, body step,
                                         source_location where, unsigned char stack_fill) {
  std::string failure;
  try {
    graph captured = capture_step(t, step, stack_fill, d, where);
    if (captured.size(where) != 0) return captured;
    failure =
        "the capture is empty: the step enqueued nothing on its stream; what it enqueued on other "
        "streams ran at once, and is no part of a graph: use the stream that it is given";
    note_failure_of(d, failure);
    return captured;
  } catch (capture_error const& error) {
    failure = error.report().summary();
    if (failure.empty()) failure = error.what();
    note_failure_of(d, failure);
    if (!options_.eager_fallback() || error.sticky()) throw;
  } catch (std::bad_alloc const& error) {
    note_failure_of(d, std::string{"in the capture: "} + error.what());
    if (!options_.eager_fallback()) throw;
  } catch (std::invalid_argument const& error) {
    note_failure_of(d, std::string{"in the capture: "} + error.what());
    if (!options_.eager_fallback()) throw;
  }
  return graph{nullptr};
}

inline void cache_core::note_failure_of(decision const& d, std::string const& text) noexcept {
  unique_lock<mutex> const policies{mutex_};
  note_failure(*d.shape, text);
}

// The step could not be captured, or its graph not be used.
// @param captured  null: the step has to run
inline graph_step cache_core::fall_back(decision const& d, target const& t, graph const& captured,
                                        body step, source_location where) {
  {
    unique_lock<spin_lock> const hot{lock_};
    ++d.shape->eager;
  }
  // The work of an empty capture has run.
  return captured.get() != nullptr ? graph_step::eager : run_eagerly(t, step, nullptr, where);
}

// Without a sample: a call of prewarm(), which does not launch.
inline graph_step cache_core::build(decision d, cache_call const& call, target const& t, body step,
                                    promised_sample* sample, source_location where) {
  double const started = now();
  graph captured = capture_or_note(d, t, step, where);
  if (captured.get() == nullptr || captured.size(where) == 0) {
    return sample != nullptr ? fall_back(d, t, captured, step, where) : graph_step::eager;
  }
  graph_step done = graph_step::eager;
  try {
    unique_lock<mutex> const policies{mutex_};
    done = adopt(d, call, t, captured, started, where);
  } catch (cuda_error const& error) {
    note_failure_of(d, error.what());
    if (!options_.eager_fallback() || error.sticky()) throw;
    return sample != nullptr ? fall_back(d, t, graph{nullptr}, step, where) : graph_step::eager;
  }
  if (sample != nullptr) return launch(d, call, t, done, step, sample, where);
  cudaError_t const status = cudaGraphUpload(d.graph->exec.get(), t.stream.get());
  discard(status);  // the first launch uploads it then
  release(*d.graph);
  return done;
}

// Makes the captured graph one of the key's executable graphs, and takes it for a launch.
inline graph_step cache_core::adopt(decision& d, cache_call const& call, target const& t,
                                    graph& captured, double started, source_location where) {
  struct holder {
    cached_graph* graph = nullptr;
    ~holder() { delete graph; }
    cached_graph* release() noexcept { return exchange(graph, nullptr); }
  };
  relaxed_capture_mode const relaxed;
  cached_shape& shape = *d.shape;
  ++shape.counts.captures;
  std::size_t const nodes = captured.size(where);
  cached_graph* target_graph = nullptr;
  std::uint64_t replays = 0;
  {
    unique_lock<spin_lock> hot{lock_};
    replays = shape.replays;
    // Another thread may have captured the same bindings meanwhile.
    while ((d.graph = find_graph(shape, call.words, t)) != nullptr &&
           d.graph->busy.load(memory_order::acquire)) {
      hold(hot, *d.graph);
    }
    if (d.graph != nullptr) {
      d.graph->stream_id = t.id;
      take(shape, *d.graph);
      return graph_step::replayed;
    }
    // A graph cannot be updated to one of another device.
    std::size_t count = 0;
    for (cached_graph* g = shape.graphs; g != nullptr; g = g->next) {
      if (g->device != t.device) continue;
      ++count;
      if (target_graph == nullptr || g->last_launch < target_graph->last_launch) target_graph = g;
    }
    if (count < std::size_t{options_.variants()} * options_.replicas()) target_graph = nullptr;
  }
  graph_step done = graph_step::captured;
  holder owned;
  if (target_graph != nullptr) {
    retired_.reserve(1);
    unlink(shape, *target_graph);
    owned.graph = target_graph;
    graph_update const update = owned.graph->exec.try_update(captured, where);
    if (update.result == graph_update_result::updated) {
      done = graph_step::updated;
      ++shape.counts.updates;
    } else {
      done = graph_step::rebuilt;
      retired_.add(owned.release());
      ++shape.counts.rebuilds;
      constexpr std::size_t reasons =
          sizeof totals_.rebuilds_by_reason / sizeof totals_.rebuilds_by_reason[0];
      auto const reason = static_cast<std::size_t>(update.reason);
      ++totals_.rebuilds_by_reason[reason < reasons ? reason : 1];
      shape.last_rebuild = update.reason_text();
      shape.last_kernel = update.kernel;
      shape.guard.rebuilt(replays);
    }
  }
  if (owned.graph == nullptr) {
    owned.graph = new cached_graph{call.words.count};
    owned.graph->exec = instantiate(captured, shape, where);
  }
  cached_graph& made = *owned.graph;
  for (std::size_t i = 0; i < call.words.count; ++i) made.words[i] = call.words.words[i];
  made.device = t.device;
  made.stream_id = t.id;
  made.nodes = nodes;
  made.bytes = {nodes * options_.bytes_per_node(), d.pool_bytes};
  if (!d.leaves_room) shape.gate.stay_with_graph();
  made.until_verified = 0;
  if (options_.verify_every() != 0) made.source = static_cast<graph&&>(captured);
  double const took = now() - started;
  if (done == graph_step::captured) {
    ++shape.counts.builds;
    shape.gate.built(took);
  }
  if (shape.counts.builds > 1 || done != graph_step::captured) {
    shape.gate.changed(took);
    shape.gate.reconsider();
  }
  shape.spent_nanoseconds += took;
  {
    unique_lock<spin_lock> const hot{lock_};
    made.busy.store(true, memory_order::relaxed);
    made.last_launch = ++launches_;
  }
  d.graph = owned.release();
  link(shape, made);
  // Not this key, whose graph is taken, even if other threads' replays have made it the oldest.
  evict_while([&] { return lru_.excess() != &shape ? lru_.excess() : nullptr; });
  poll_retired(t);
  return done;
}

// Without memory for it, other keys lose their graphs.
inline graph_exec cache_core::instantiate(graph const& captured, cached_shape const& shape,
                                          source_location where) {
  try {
    return graph_exec{captured, where};
  } catch (cuda_error const& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
  }
  evict_while([&] { return lru_.oldest() != &shape ? lru_.oldest() : nullptr; });
  retired_.clear();
  return graph_exec{captured, where};
}

inline graph_step cache_core::verify(decision d, cache_call const& call, target const& t, body step,
                                     promised_sample* sample, source_location where) {
  graph now_captured = capture_or_note(d, t, step, where);
  if (now_captured.get() == nullptr) return fall_back(d, t, now_captured, step, where);
  graph const again = capture_or_note(d, t, step, where, stack_fill_again);
  if (again.get() == nullptr) {
    now_captured = graph{nullptr};  // the memory of pools that it holds is the step's now
    return fall_back(d, t, again, step, where);
  }
  {
    unique_lock<mutex> const policies{mutex_};
    d.shape->counts.captures += 2;
    unique_lock<spin_lock> hot{lock_};
    while ((d.graph = find_graph(*d.shape, call.words, t)) != nullptr &&
           d.graph->busy.load(memory_order::acquire)) {
      hold(hot, *d.graph);
    }
    if (d.graph != nullptr) {
      hot.unlock();  // the mutex keeps the graph in the list
      graph_difference const difference =
          compare_graphs(d.graph->source, now_captured, &again, where);
      if (difference) {
        retired_.reserve(1);
        unlink(*d.shape, *d.graph);
        retired_.add(d.graph);
        throw graph_mismatch{difference, where};
      }
      hot.lock();
      hold(hot, *d.graph);
      d.graph->stream_id = t.id;
      take(*d.shape, *d.graph);
    }
  }
  if (d.graph == nullptr) return build(d, call, t, step, sample, where);
  return launch(d, call, t, graph_step::replayed, step, sample, where);
}

inline graph_step cache_core::prewarm(cache_call const& call, stream_ref stream, body step,
                                      source_location where) {
  if (stream.get() == cudaStreamLegacy || is_capturing(stream, where)) {
    throw_invalid_argument(
        "graph_cache::prewarm: the stream is the legacy default stream or is capturing: use a "
        "warpwright::stream, before a capture",
        where);
  }
  target const t = resolve(stream, where);
  decision d;
  {
    unique_lock<mutex> const policies{mutex_};
    poll_retired(t);
    d.shape = find_or_add(call);
    if (d.shape == nullptr) return graph_step::eager;
    unique_lock<spin_lock> const hot{lock_};
    d.shape->warmups = 0;
    lru_.touch_listed(*d.shape);
    if (find_graph(*d.shape, call.words, t) != nullptr) return graph_step::replayed;
  }
  return build(d, call, t, step, nullptr, where);
}

}  // namespace detail

WARPWRIGHT_END
