// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What pool_core does when caches and heap do not serve an allocation.
#pragma once

#include <warpwright/core/detail/capture/graph_holder.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/detail/pool/pool_calls.hpp>

#include <time.h>

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
            : climb(lock, stream, id, streams_.list_of(id, stream.get()), request, wait, where);
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
  if (pointer == nullptr && options_.exhausted_ != nullptr &&
      options_.exhausted_(options_.exhausted_user_,
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

/// Whether there would be room for a request without the memory of graphs.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool pool_core::graphs_hold(
    allocation_request const& request) const noexcept {
  heap_guard const lock{heap_.lock};
  return graphs_.any() && request.rounded_bytes <= capacity_bytes_ &&
         heap_.live_bytes() <= capacity_bytes_ - request.rounded_bytes;
}

/// Tries the steps in order. In a capture those are left out that make the stream wait for others.
/// @param own  the list of the stream, or of what its capture has freed there
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::climb(
    heap_guard& lock, stream_ref stream, std::uint64_t id, std::uint32_t own,
    allocation_request const& request, last_wait wait, source_location where) {
  // No step below can serve a request above the capacity, and trying would empty the pool.
  if (request.rounded_bytes > capacity_bytes_ ||
      heap_.live_bytes() > capacity_bytes_ - request.rounded_bytes) {
    return none;
  }
  bool const capturing = streams_.of_graph(own);
  bool const can_wait = !capturing && (stream.get() != cudaStreamLegacy ||
                                       !may_be_capturing(heap_.driver, stream.get()));
  std::uint32_t node = take_available(own, request);
  if (node != none) return node;
  if (poll(lock, id, false, where)) {
    node = take_available(own, request);
    if (node != none) return node;
  }
  node = take_coalesced(own, request);
  if (node != none) return node;
  bool const grows_first = options_.order_ == reuse_order::grow_before_wait && may_grow(request);
  std::uint64_t const wait_ns = std::uint64_t{options_.maximum_wait_us_} * 1000;
  if (capturing) {
    // Its graph keeps the memory for long: what is idle, or soon will be, comes before new memory.
    node = wait_patiently(lock, own, id, request, wait_ns / 20, extent::only_moving, where);
    if (node != none) return node;
  }
  if (grows_first && (mapped_.is_open() || !capturing)) {
    // Records events, so that a later miss finds what other streams have completed by then.
    static_cast<void>(poll(lock, id, true, where));
    node = take_available(own, request);
    if (node != none) return node;
    node = grow(lock, own, request, extent::within_slack, where);
    if (node != none) return node;
  }
  if (capturing) {
    node = wait_for_own_stream(lock, own, stream, request, where);
    if (node != none) return node;
  }
  if (can_wait) {
    node = steal(lock, own, stream, request, where);
    if (node != none) return node;
  }
  static_cast<void>(poll(lock, id, true, where));
  node = take_available(own, request);
  if (node == none) node = take_coalesced(own, request);
  if (node == none) node = grow(lock, own, request, extent::by_moving, where);
  if (node == none && may_grow(request)) {
    node = wait_patiently(lock, own, id, request, wait_ns, extent::by_moving, where);
  }
  if (node == none) node = grow(lock, own, request, extent::up_to_limit, where);
  if (node != none) return node;
  if (can_wait) streams_.merge_into(lock, own, stream, where);
  node = take_available(own, request);
  if (node != none) return node;
  synchronize(lock, id, where);
  // A running graph that is destroyed holds its memory until it has completed.
  if (wait == last_wait::device) streams_.await_device(lock, where);
  if (graphs_.any()) {
    await_graphs(lock, own, wait == last_wait::reports ? 50 * wait_ns : 0, where);
  }
  node = take_available(own, request);
  if (node == none) node = take_coalesced(own, request);
  if (node != none) return node;
  compact(lock, where);
  return grow(lock, own, request, extent::up_to_limit, where);
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
      climb(lock, stream, epoch_tracker::no_id, own, request, last_wait::device, where);
  if (node == none) return none;
  std::uint64_t const used = heap_.blocks.live_bytes() + streams_.bytes_of_graphs();
  graphs_.own(node, graph, used < capacity_bytes_ ? capacity_bytes_ - used : 0);
  return node;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::take_available(
    std::uint32_t own, allocation_request const& request) {
  block_heap& blocks = heap_.blocks;
  std::uint64_t const bytes = request.rounded_bytes;
  std::uint32_t const node =
      blocks.better_fit(blocks.find_fit(block_heap::ready, bytes, request.alignment, true),
                        blocks.find_fit(own, bytes, request.alignment, true), bytes);
  if (node == none) return none;
  return blocks.allocate_from(node, bytes, request.alignment, request.bytes);
}

/// Coalesces free blocks of the stream with adjacent ready blocks where that makes room, and
/// allocates from there.
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::take_coalesced(
    std::uint32_t own, allocation_request const& request) {
  block_heap& blocks = heap_.blocks;
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
    for (std::uint32_t m = first; usable(m); m = blocks.at(m).next) {
      end = blocks.at(m).address + blocks.at(m).bytes;
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
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE bool pool_core::poll(heap_guard& lock, std::uint64_t own_id,
                                                           bool record, source_location where) {
  epoch_tracker::poll_result const streams = streams_.poll(lock, own_id, record, where);
  epoch_tracker::poll_result const deferred = deferred_.poll(lock, false, where);
  reclaim_graphs();
  return record ? streams.pending || deferred.pending : streams.completed || deferred.completed;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pool_core::await_graphs(heap_guard& lock, std::uint32_t own,
                                                               std::uint64_t least_ns,
                                                               source_location where) {
  graphs_.await_reports(lock, streams_.of_graph(own) ? 1 : 0, least_ns, where);
  reclaim_graphs();
}

/// Waits for the work that the capture's stream had before it, up to 50 times maximum_wait_us()
/// from its begin, so that what a warm-up has freed serves the graph.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::wait_for_own_stream(
    heap_guard& lock, std::uint32_t own, stream_ref stream, allocation_request const& request,
    source_location where) {
  block_heap const& blocks = heap_.blocks;
  std::uint64_t const budget_ns = std::uint64_t{options_.maximum_wait_us_} * 50000;
  for (std::uint32_t list = block_heap::first_stream_list; list < streams_.end(); ++list) {
    if (streams_.handle(list) != stream.get()) continue;
    static_cast<void>(streams_.close_epoch(lock, list, epoch_tracker::no_id, where));
    epoch_tracker::poll_result result;
    for (;;) {
      result.pending = false;
      streams_.poll_list(lock, list, result, where);
      bool const suffices =
          blocks.bytes_in(list) + blocks.bytes_in(block_heap::ready) >= request.rounded_bytes;
      std::uint64_t const begin = streams_.recorded_before_capture(list);
      if (!result.pending || !suffices || monotonic_nanoseconds() - begin >= budget_ns) break;
      unlocked const released{lock};
      timespec const pause{0, 20000};
      nanosleep(&pause, nullptr);
    }
  }
  std::uint32_t const node = take_available(own, request);
  return node != none ? node : take_coalesced(own, request);
}

/// Waits for streams to complete their frees, and for CUDA to report destroyed graphs, before more
/// is reserved: the wait happens once, but memory stays reserved.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pool_core::wait_patiently(
    heap_guard& lock, std::uint32_t own, std::uint64_t id, allocation_request const& request,
    std::uint64_t budget_ns, extent how_far, source_location where) {
  std::uint64_t ready = ~std::uint64_t{0};
  if (budget_ns != 0) await_graphs(lock, own, 0, where);
  std::uint64_t const begin = monotonic_nanoseconds();
  for (int pauses = 16;; pauses += pauses < 512 ? pauses : 0) {
    bool const running = poll(lock, id, true, where);
    if (heap_.blocks.bytes_in(block_heap::ready) != ready) {
      ready = heap_.blocks.bytes_in(block_heap::ready);
      std::uint32_t node = take_available(own, request);
      if (node == none) node = take_coalesced(own, request);
      if (node == none) node = grow(lock, own, request, how_far, where);
      if (node != none) return node;
    }
    if (!running || monotonic_nanoseconds() - begin >= budget_ns) return none;
    unlocked const released{lock};
    if (pauses < 512) {
      for (int i = 0; i < pauses; ++i) pause_processor();
    } else {
      timespec const pause{0, 20000};
      nanosleep(&pause, nullptr);
    }
  }
}

WARPWRIGHT_COLD WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::grow(
    heap_guard& lock, std::uint32_t own, allocation_request const& request, extent how_far,
    source_location where) {
  double const factor =
      options_.growth_factor_ * static_cast<double>(heap_.counters.reserved_bytes);
  std::uint64_t preferred = options_.growth_bytes_;
  if (preferred == memory_pool_options::by_source) {
    preferred = mapped_.is_open() ? 0 : std::uint64_t{64} << 20U;
  }
  if (factor > static_cast<double>(preferred)) preferred = static_cast<std::uint64_t>(factor);
  if (mapped_.is_open()) {
    bool const ahead = options_.growth_bytes_ == memory_pool_options::by_source && preferred == 0;
    preferred &= ~(block_heap::granule_bytes - 1);
    if (preferred > request.rounded_bytes) {
      std::uint32_t const node = mapped_.grow(lock, own, request, preferred, how_far, ahead, where);
      if (node != none) return node;
    }
    return mapped_.grow(lock, own, request, request.rounded_bytes, how_far, ahead, where);
  }
  if (how_far == extent::only_moving) return none;
  std::uint64_t const allowed = limit_bytes_ - segments_.reserved_bytes();
  if (!segments_.grow(lock, request, preferred, allowed, where)) return none;
  return heap_.blocks.allocate(block_heap::ready, request.rounded_bytes, request.alignment, true,
                               request.bytes);
}

/// Allocates a free block of another stream and makes the caller's stream wait for the donor.
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::steal(
    heap_guard& lock, std::uint32_t own, stream_ref stream, allocation_request const& request,
    source_location where) {
  using order_cost = epoch_tracker::order_cost;
  block_heap& blocks = heap_.blocks;
  std::uint32_t best = none;
  order_cost best_cost = order_cost::impossible;
  for (std::uint32_t list = block_heap::first_stream_list; list < streams_.end(); ++list) {
    if (list == own || streams_.of_graph(list)) continue;
    std::uint32_t const node =
        blocks.find_fit(list, request.rounded_bytes, request.alignment, true);
    if (node == none) continue;
    // The cheapest first: already ordered, one wait, one record and one wait. Then the best fit.
    order_cost const cost = streams_.cost_of(own, list, blocks.at(node).epoch);
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
      blocks.allocate_from(best, request.rounded_bytes, request.alignment, request.bytes);
  // The block is allocated while the CUDA calls are made, so no other thread can take it.
  auto const return_block = [&] {
    bool const newer = !blocks.empty(donor) && blocks.newest_epoch(donor) > epoch;
    blocks.deallocate(node, donor, newer ? blocks.newest_epoch(donor) : epoch);
  };
  bool ordered = best_cost == order_cost::none;
  try {
    if (best_cost == order_cost::wait || (best_cost == order_cost::record_and_wait &&
                                          streams_.record(lock, donor, streams_.id(own), where))) {
      streams_.wait_on(lock, own, stream, donor, epoch, where);
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
  if (rounded > capacity_bytes_ || heap_.live_bytes() > capacity_bytes_ - rounded) return nullptr;
  std::uint64_t const id = stream.id(where);
  std::uint32_t const own = streams_.list_of(id, stream.get());
  static_cast<void>(poll(lock, id, true, where));
  std::uint32_t node = take_available(own, request);
  if (node == none) node = take_coalesced(own, request);
  if (node == none) node = grow(lock, own, request, extent::up_to_limit, where);
  return node == none ? nullptr : commit(node, where);
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
