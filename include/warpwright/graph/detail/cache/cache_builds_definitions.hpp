// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How a graph_cache captures steps, and builds, updates and verifies their graphs.
#pragma once

#include <warpwright/core/detail/capture/captured_memory.hpp>
#include <warpwright/graph/compare_graphs.hpp>
#include <warpwright/graph/detail/cache/cache_steps_definitions.hpp>
#include <warpwright/graph/detail/capture/capture_position.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>

#include <new>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

// Bytes of padding in kernels' arguments come from the stack: the captures that are compared find
// known values there.
WARPWRIGHT_NOINLINE inline void fill_stack_below(unsigned char value) noexcept {
  unsigned char volatile bytes[16384];
  for (unsigned char volatile& byte : bytes) byte = value;
}

WARPWRIGHT_INLINE graph cache_core::capture_step(target const& t, body step,
                                                 unsigned char stack_fill, decision& d,
                                                 source_location where) {
  captured_memory memory;
  auto const counted = [&](capture_scope& scope) {
    memory.begin(capture_position_of(scope.stream(), where).id);
    if (options_.verify_every != 0) fill_stack_below(stack_fill);
    step(scope);
  };
  graph captured = capture(t.stream, counted, options_.mode, where);
  d.pool_bytes = memory.bytes();
  d.leaves_room = memory.leaves_room();
  return captured;
}

// Null, with the reason, if the step cannot be captured and runs eagerly instead. Memory that a
// capture takes from a pool belongs to the graph, so that eagerly there may be enough, and what is
// an invalid argument in a capture may be valid without one; what the step throws in any case it
// throws again.
WARPWRIGHT_INLINE graph cache_core::capture_or_note(decision& d, target const& t, body step,
                                                    source_location where,
                                                    unsigned char stack_fill) {
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
    if (!options_.eager_fallback || error.sticky()) throw;
  } catch (std::bad_alloc const& error) {
    note_failure_of(d, std::string{"in the capture: "} + error.what());
    if (!options_.eager_fallback) throw;
  } catch (std::invalid_argument const& error) {
    note_failure_of(d, std::string{"in the capture: "} + error.what());
    if (!options_.eager_fallback) throw;
  }
  return graph{nullptr};
}

WARPWRIGHT_INLINE void cache_core::note_failure_of(decision const& d,
                                                   std::string const& text) noexcept {
  unique_lock<mutex> const policies{mutex_};
  note_failure(*d.shape, text);
}

// The step could not be captured, or its graph not be used.
// @param captured  null: the step has to run
WARPWRIGHT_INLINE graph_step cache_core::fall_back(decision const& d, target const& t,
                                                   graph const& captured, body step,
                                                   source_location where) {
  {
    unique_lock<spin_lock> const hot{lock_};
    ++d.shape->counts.eager;
  }
  // The work of an empty capture has run.
  return captured.get() != nullptr ? graph_step::eager : run_eagerly(t, step, nullptr, where);
}

// Without a sample: a call of prewarm(), which does not launch.
WARPWRIGHT_INLINE graph_step cache_core::build(decision& d, cache_call const& call, target const& t,
                                               body step, promised_sample* sample,
                                               source_location where) {
  double const started = now();
  graph captured = capture_or_note(d, t, step, where, stack_fill_now);
  if (captured.get() == nullptr || captured.size(where) == 0) {
    return sample != nullptr ? fall_back(d, t, captured, step, where) : graph_step::eager;
  }
  graph_step done = graph_step::eager;
  try {
    unique_lock<mutex> const policies{mutex_};
    done = adopt(d, call, t, captured, started, where);
  } catch (cuda_error const& error) {
    note_failure_of(d, error.what());
    if (!options_.eager_fallback || error.sticky()) throw;
    return sample != nullptr ? fall_back(d, t, graph{nullptr}, step, where) : graph_step::eager;
  }
  if (sample != nullptr) return launch(d, call, t, done, step, sample, where);
  cudaError_t const status = cudaGraphUpload(d.graph->exec, t.stream.get());
  discard(status);  // the first launch uploads it then
  release(*d.graph);
  return done;
}

// Makes the captured graph one of the key's executable graphs, and takes it for a launch.
WARPWRIGHT_INLINE graph_step cache_core::adopt(decision& d, cache_call const& call, target const& t,
                                               graph& captured, double started,
                                               source_location where) {
  struct holder {
    built_graph* graph = nullptr;
    ~holder() { delete graph; }
    built_graph* release() noexcept { return exchange(graph, nullptr); }
  };
  relaxed_capture_mode const relaxed;
  cached_shape& shape = *d.shape;
  ++shape.counts.captures;
  std::size_t const nodes = captured.size(where);
  cached_graph* target_graph = nullptr;
  std::uint64_t replays = 0;
  {
    unique_lock<spin_lock> hot{lock_};
    replays = shape.counts.replays;
    // Another thread may have captured the same bindings meanwhile.
    d.graph = find_idle_graph(hot, shape, call.words, t);
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
    if (count < std::size_t{options_.variants} * options_.replicas) target_graph = nullptr;
  }
  graph_step done = graph_step::captured;
  holder owned;
  if (target_graph != nullptr) {
    retired_.reserve(1);
    unlink(shape, *target_graph);
    owned.graph = static_cast<built_graph*>(target_graph);
    graph_update const update = owned.graph->owner.try_update(captured, where);
    if (update.result == graph_update_result::updated) {
      done = graph_step::updated;
      ++shape.counts.updates;
    } else {
      done = graph_step::rebuilt;
      retired_.add(owned.release());
      ++shape.counts.rebuilds;
      constexpr std::size_t reasons = sizeof rebuilds_by_reason_ / sizeof rebuilds_by_reason_[0];
      auto const reason = static_cast<std::size_t>(update.reason);
      ++rebuilds_by_reason_[reason < reasons ? reason : 1];
      shape.last_rebuild = update.reason_text();
      shape.last_kernel = update.kernel;
      shape.guard.rebuilt(replays);
    }
  }
  if (owned.graph == nullptr) {
    owned.graph = new built_graph{call.words.count, instantiate(captured, shape, where)};
  }
  built_graph& made = *owned.graph;
  for (std::size_t i = 0; i < call.words.count; ++i) made.words[i] = call.words.words[i];
  made.device = t.device;
  made.stream_id = t.id;
  made.nodes = nodes;
  made.bytes = {nodes * options_.bytes_per_node, d.pool_bytes};
  if (!d.leaves_room) shape.gate.stay_with_graph();
  made.until_verified = 0;
  if (options_.verify_every != 0) made.source = static_cast<graph&&>(captured);
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
WARPWRIGHT_INLINE graph_exec cache_core::instantiate(graph const& captured,
                                                     cached_shape const& shape,
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

WARPWRIGHT_INLINE graph_step cache_core::verify(decision& d, cache_call const& call,
                                                target const& t, body step, promised_sample* sample,
                                                source_location where) {
  graph now_captured = capture_or_note(d, t, step, where, stack_fill_now);
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
    d.graph = find_idle_graph(hot, *d.shape, call.words, t);
    if (d.graph != nullptr) {
      hot.unlock();  // the mutex keeps the graph in the list
      graph_difference const difference =
          compare_graphs(static_cast<built_graph*>(d.graph)->source, now_captured, &again, where);
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

WARPWRIGHT_INLINE graph_step cache_core::prewarm(cache_call const& call, stream_ref stream,
                                                 body step, source_location where) {
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
