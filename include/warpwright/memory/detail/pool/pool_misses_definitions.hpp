// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What pool_core does when caches and heap do not serve an allocation.
#pragma once

#include <warpwright/core/detail/capture/graph_holder.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/detail/pool/pool_calls_definitions.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

/// @param id  no_id: the stream is capturing
WARPWRIGHT_INLINE void* pool_core::allocate_slow(stream_ref stream, std::uint64_t id,
                                                 allocation_request const& request,
                                                 source_location where) {
  bool const capturing = id == epoch_tracker::no_id || is_capturing(heap_.driver, stream, where);
  last_wait wait = capturing ? last_wait::device : last_wait::report;
  auto const attempt = [&]() -> void* {
    slow_path const section{*this, where};
    caches_.flush_all();
    heap_guard lock{heap_.lock};
    reclaim_graphs();
    std::uint32_t const node =
        capturing
            ? climb_in_capture(lock, stream, request, where)
            : climb({lock, stream, id, streams_.list_of(id, stream.get()), request, wait, where});
    return node == none ? nullptr : commit(node, where);
  };
  std::size_t graphs = count_graphs();
  void* pointer = attempt();
  for (int tries = 0; pointer == nullptr && tries < 64; ++tries) {
    // Graphs may have been reported as destroyed when the attempt was past looking.
    std::size_t const now = count_graphs();
    bool const fewer = now < graphs;
    graphs = now;
    if (!fewer) {
      if (!graphs_hold(request)) break;
      if (graph_holder::release_some()) {
        wait = last_wait::device;
      } else if (wait == last_wait::report) {
        wait = last_wait::reports;
      } else {
        break;
      }
    }
    pointer = attempt();
  }
  if (pointer == nullptr && options_.exhausted != nullptr &&
      options_.exhausted(options_.exhausted_user,
                         report(static_cast<std::size_t>(request.bytes)))) {
    pointer = attempt();
  }
  return pointer;
}

/// Of those that hold memory.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t pool_core::count_graphs() noexcept {
  heap_guard const lock{heap_.lock};
  reclaim_graphs();
  return graphs_.count();
}

/// Whether a request fits below the capacity beside what is live.
WARPWRIGHT_INLINE bool pool_core::has_room(allocation_request const& request) const noexcept {
  return request.rounded_bytes <= capacity_bytes_ &&
         heap_.live_bytes() <= capacity_bytes_ - request.rounded_bytes;
}

/// Whether there would be room for a request without the memory of graphs.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool pool_core::graphs_hold(
    allocation_request const& request) const noexcept {
  heap_guard const lock{heap_.lock};
  return graphs_.any() && has_room(request);
}

/// Tries the steps in order, each of which returns a block, or none where it does not help. In a
/// capture those are left out that make the stream wait for others.
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::climb(miss const& wanted) {
  enum condition { always, in_capture, may_wait };
  struct step {
    condition when;
    std::uint32_t (*take)(pool_core& pool, miss const& m);
  };
  static constexpr step steps[] = {
      // Free blocks of the stream, and ready ones; those that have become ready; several together.
      {always, [](auto& p, auto& m) { return p.take_available(m); }},
      {always, [](auto& p, auto& m) { return p.poll(m, false) ? p.take_available(m) : none; }},
      {always, [](auto& p, auto& m) { return p.take_coalesced(m); }},
      // A graph keeps its memory for long: what is idle, or soon will be, comes before new memory.
      {in_capture, [](auto& p, auto& m) { return p.wait_patiently(m, 20, extent::only_moving); }},
      // New memory while streams stay independent, then waits of one stream for another.
      {always, [](auto& p, auto& m) { return p.grow_within_slack(m); }},
      {in_capture, [](auto& p, auto& m) { return p.wait_for_own_stream(m); }},
      {may_wait, [](auto& p, auto& m) { return p.steal(m); }},
      // Idle memory is moved, and that of streams which complete soon; then the slack is exceeded.
      {always, [](auto& p, auto& m) { return p.take_or_grow(m, extent::by_moving); }},
      {always,
       [](auto& p, auto& m) {
         return p.may_grow(m.request) ? p.wait_patiently(m, 1, extent::by_moving) : none;
       }},
      {always, [](auto& p, auto& m) { return p.grow(m, extent::up_to_limit); }},
      // Nothing more can be reserved: all streams' blocks, behind all streams or after they are
      // done.
      {may_wait,
       [](auto& p, auto& m) {
         p.streams_.merge_into(m.lock, m.own, m.stream, m.where);
         return p.take_available(m);
       }},
      {always, [](auto& p, auto& m) { return p.wait_for_all(m); }},
      {always, [](auto& p, auto& m) { return p.compact_and_grow(m); }},
  };
  // No step can serve a request above the capacity, and trying would empty the pool.
  if (!has_room(wanted.request)) return none;
  bool const capturing = streams_.of_graph(wanted.own);
  bool const can_wait = !capturing && (wanted.stream.get() != cudaStreamLegacy ||
                                       !may_be_capturing(heap_.driver, wanted.stream.get()));
  for (step const& s : steps) {
    if ((s.when == in_capture && !capturing) || (s.when == may_wait && !can_wait)) continue;
    std::uint32_t const node = s.take(*this, wanted);
    if (node != none) return node;
  }
  return none;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::climb_in_capture(
    heap_guard& lock, stream_ref stream, allocation_request const& request, source_location where) {
  std::uint32_t const graph = graphs_.graph_of(lock, stream, where);
  if (graph == none) {
    lock.unlock();
    throw_invalid_argument(
        "memory_pool: the stream's capture was invalidated by an earlier call; end it first",
        where);
  }
  update_reasons();
  std::uint32_t const own = graphs_.list_of(graph, stream.get());
  std::uint32_t const node =
      climb(miss{lock, stream, epoch_tracker::no_id, own, request, last_wait::device, where});
  if (node == none) return none;
  std::uint64_t const used = heap_.blocks.live_bytes() + streams_.bytes_of_graphs();
  graphs_.own(node, graph, used < capacity_bytes_ ? capacity_bytes_ - used : 0);
  return node;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::take_available(miss const& m) {
  block_heap& blocks = heap_.blocks;
  std::uint64_t const bytes = m.request.rounded_bytes;
  std::uint64_t const alignment = m.request.alignment;
  std::uint32_t const node =
      blocks.better_fit(blocks.find_fit(block_heap::ready, bytes, alignment, true),
                        blocks.find_fit(m.own, bytes, alignment, true), bytes);
  return node == none ? none : blocks.allocate_from(node, bytes, alignment, m.request.bytes);
}

/// Coalesces free blocks of the stream with adjacent ready blocks where that makes room, and
/// allocates from there.
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::take_coalesced(miss const& m) {
  block_heap& blocks = heap_.blocks;
  std::uint32_t const own = m.own;
  allocation_request const& request = m.request;
  unsigned steps = 4096;  // bounds the time of a miss with many free blocks
  auto const usable = [&](std::uint32_t n) {
    return n != none && steps != 0 && --steps != 0 &&
           (blocks.at(n).list == own || blocks.at(n).list == block_heap::ready);
  };
  std::uint32_t best = none;
  std::uint64_t best_bytes = 0;
  for (std::uint32_t n = blocks.oldest(own); n != none && steps != 0; n = blocks.at(n).age_next) {
    std::uint32_t first = n;
    while (usable(blocks.at(first).previous)) first = blocks.at(first).previous;
    std::uint64_t const begin = blocks.at(first).address;
    std::uint64_t end = begin;
    for (std::uint32_t k = first; usable(k); k = blocks.at(k).next) {
      end = blocks.at(k).address + blocks.at(k).bytes;
    }
    std::uint64_t const padding = (~begin + 1) & (request.alignment - 1);
    std::uint64_t const bytes = end - begin;
    if (bytes < padding || bytes - padding < request.rounded_bytes) continue;
    if (best != none && bytes >= best_bytes) continue;
    best = first;
    best_bytes = bytes;
  }
  if (best == none) return none;
  std::uint64_t const end = blocks.at(best).address + best_bytes;
  for (std::uint32_t n = best; n != none && blocks.at(n).address < end; n = blocks.at(n).next) {
    if (blocks.at(n).list == block_heap::ready) {
      blocks.move_block(n, own, streams_.open_epoch(own));
    }
  }
  return blocks.allocate(own, request.rounded_bytes, request.alignment, true, request.bytes);
}

/// @return with `record`, whether an event is still pending; otherwise whether one has completed
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE bool pool_core::poll(miss const& m, bool record) {
  epoch_tracker::poll_result const streams = streams_.poll(m.lock, m.id, record, m.where);
  epoch_tracker::poll_result const deferred = deferred_.poll(m.lock, false, m.where);
  reclaim_graphs();
  return record ? streams.pending || deferred.pending : streams.completed || deferred.completed;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pool_core::await_graphs(miss const& m,
                                                               std::uint64_t least_ns) {
  graphs_.await_reports(m.lock, streams_.of_graph(m.own) ? 1 : 0, least_ns, m.where);
  reclaim_graphs();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::grow_within_slack(miss const& m) {
  if (options_.order != reuse_order::grow_before_wait || !may_grow(m.request)) return none;
  if (!mapped_.is_open() && streams_.of_graph(m.own)) return none;
  // Records events, so that a later miss finds what other streams have completed by then.
  static_cast<void>(poll(m, true));
  std::uint32_t const node = take_available(m);
  return node != none ? node : grow(m, extent::within_slack);
}

/// Waits for the work that the capture's stream had before it, up to 50 times max_wait_seconds()
/// from its begin, so that what a warm-up has freed serves the graph.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::wait_for_own_stream(miss const& m) {
  block_heap const& blocks = heap_.blocks;
  std::uint64_t const budget_ns = 50 * max_wait_ns();
  for (std::uint32_t list = block_heap::first_stream_list; list < streams_.end(); ++list) {
    if (streams_.handle(list) != m.stream.get()) continue;
    static_cast<void>(streams_.close_epoch(m.lock, list, epoch_tracker::no_id, m.where));
    epoch_tracker::poll_result result;
    for (;;) {
      result.pending = false;
      streams_.poll_list(m.lock, list, result, m.where);
      bool const suffices =
          blocks.bytes_in(list) + blocks.bytes_in(block_heap::ready) >= m.request.rounded_bytes;
      std::uint64_t const begin = streams_.recorded_before_capture(list);
      if (!result.pending || !suffices || monotonic_nanoseconds() - begin >= budget_ns) break;
      unlocked const released{m.lock};
      sleep_nanoseconds(20000);
    }
  }
  return take(m);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::wait_for_all(miss const& m) {
  synchronize(m.lock, m.id, m.where);
  // A running graph that is destroyed holds its memory until it has completed.
  if (m.wait == last_wait::device) streams_.await_device(m.lock, m.where);
  if (graphs_.any()) await_graphs(m, m.wait == last_wait::reports ? 50 * max_wait_ns() : 0);
  return take(m);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::compact_and_grow(miss const& m) {
  if (mapped_.is_open()) {
    mapped_.unmap_all_idle(m.lock, m.where);
  } else {
    segments_.release(m.lock, 0, m.where);
  }
  return grow(m, extent::up_to_limit);
}

/// What other streams have completed, then more memory.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::take_or_grow(miss const& m,
                                                                        extent how_far) {
  static_cast<void>(poll(m, true));
  std::uint32_t const node = take(m);
  return node != none ? node : grow(m, how_far);
}

/// Waits for streams to complete their frees, and for CUDA to report destroyed graphs, before more
/// is reserved: the wait happens once, but memory stays reserved.
/// @param divisor  of max_wait_seconds()
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::wait_patiently(miss const& m,
                                                                          unsigned divisor,
                                                                          extent how_far) {
  std::uint64_t const budget_ns = max_wait_ns() / divisor;
  std::uint64_t ready = ~std::uint64_t{0};
  if (budget_ns != 0) await_graphs(m, 0);
  std::uint64_t const begin = monotonic_nanoseconds();
  for (int pauses = 16;; pauses += pauses < 512 ? pauses : 0) {
    bool const running = poll(m, true);
    if (heap_.blocks.bytes_in(block_heap::ready) != ready) {
      ready = heap_.blocks.bytes_in(block_heap::ready);
      std::uint32_t node = take(m);
      if (node == none) node = grow(m, how_far);
      if (node != none) return node;
    }
    if (!running || monotonic_nanoseconds() - begin >= budget_ns) return none;
    unlocked const released{m.lock};
    if (pauses >= 512) sleep_nanoseconds(20000);
    for (int i = 0; pauses < 512 && i < pauses; ++i) pause_processor();
  }
}

WARPWRIGHT_COLD WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::grow(
    miss const& m, extent how_far) {
  allocation_request const& request = m.request;
  double const factor = options_.growth_factor * static_cast<double>(heap_.counters.reserved_bytes);
  std::uint64_t preferred = options_.growth_bytes;
  if (preferred == pool_settings::by_source) {
    preferred = mapped_.is_open() ? 0 : std::uint64_t{64} << 20U;
  }
  if (factor > static_cast<double>(preferred)) preferred = static_cast<std::uint64_t>(factor);
  if (mapped_.is_open()) {
    bool const ahead = options_.growth_bytes == pool_settings::by_source && preferred == 0;
    preferred &= ~(block_heap::granule_bytes - 1);
    if (preferred > request.rounded_bytes) {
      std::uint32_t const node =
          mapped_.grow(m.lock, m.own, request, preferred, how_far, ahead, m.where);
      if (node != none) return node;
    }
    return mapped_.grow(m.lock, m.own, request, request.rounded_bytes, how_far, ahead, m.where);
  }
  if (how_far == extent::only_moving) return none;
  std::uint64_t const allowed = limit_bytes_ - segments_.reserved_bytes();
  if (!segments_.grow(m.lock, request, preferred, allowed, m.where)) return none;
  return heap_.blocks.allocate(block_heap::ready, request.rounded_bytes, request.alignment, true,
                               request.bytes);
}

/// Allocates a free block of another stream and makes the caller's stream wait for the donor.
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::steal(miss const& m) {
  using order_cost = epoch_tracker::order_cost;
  block_heap& blocks = heap_.blocks;
  std::uint32_t best = none;
  order_cost best_cost = order_cost::impossible;
  for (std::uint32_t list = block_heap::first_stream_list; list < streams_.end(); ++list) {
    if (list == m.own || streams_.of_graph(list)) continue;
    std::uint32_t const node =
        blocks.find_fit(list, m.request.rounded_bytes, m.request.alignment, true);
    if (node == none) continue;
    // The cheapest first: already ordered, one wait, one record and one wait. Then the best fit.
    order_cost const cost = streams_.cost_of(m.own, list, blocks.at(node).epoch);
    if (cost == order_cost::impossible) continue;
    if (best == none || cost < best_cost ||
        (cost == best_cost && blocks.at(node).bytes < blocks.at(best).bytes)) {
      best = node;
      best_cost = cost;
    }
  }
  if (best == none) return none;
  std::uint32_t const donor = blocks.at(best).list;
  std::uint64_t const epoch = blocks.at(best).epoch;
  std::uint32_t const node =
      blocks.allocate_from(best, m.request.rounded_bytes, m.request.alignment, m.request.bytes);
  // The block is allocated while the CUDA calls are made, so no other thread can take it.
  auto const return_block = [&] {
    bool const newer = !blocks.empty(donor) && blocks.newest_epoch(donor) > epoch;
    blocks.deallocate(node, donor, newer ? blocks.newest_epoch(donor) : epoch);
  };
  bool ordered = best_cost == order_cost::none;
  try {
    if (best_cost == order_cost::wait ||
        (best_cost == order_cost::record_and_wait &&
         streams_.record(m.lock, donor, streams_.id(m.own), m.where))) {
      streams_.wait_on(m.lock, m.own, m.stream, donor, epoch, m.where);
      ordered = true;
    }
  } catch (...) {
    return_block();
    throw;
  }
  if (!ordered) {
    return_block();
    return none;
  }
  ++heap_.counters.cross_stream_steals;
  return node;
}

WARPWRIGHT_INLINE void* pool_core::try_allocate_now(stream_ref stream, std::size_t bytes,
                                                    source_location where) {
  std::uint64_t rounded = 0;
  if (bytes == 0 || !block_heap::round_up(bytes, block_heap::granule_bytes, rounded)) {
    return nullptr;
  }
  allocation_request const request{bytes, rounded, default_alignment};
  slow_path const section{*this, where, false};  // who is in it may wait for a stream
  if (!section.entered()) return nullptr;
  caches_.flush_all();
  heap_guard lock{heap_.lock};
  reclaim_graphs();
  if (!has_room(request)) return nullptr;
  std::uint64_t const id = stream.id(where);
  miss const m{lock, stream, id, streams_.list_of(id, stream.get()), request, last_wait::report,
               where};
  std::uint32_t const node = take_or_grow(m, extent::up_to_limit);
  return node == none ? nullptr : commit(node, where);
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
