// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pool/deferred_frees.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void deferred_frees::close() noexcept {
  for (pending_event const& p : pending_) discard(cudaEventDestroy(p.event));
  pending_.clear();
}

WARPWRIGHT_INLINE void deferred_frees::record_use(std::uint32_t node, std::uint64_t stream_id,
                                                  cudaStream_t handle) {
  for (shared_use const& u : uses_) {
    if (u.node == node && u.stream_id == stream_id) return;
  }
  uses_.push_back(shared_use{node, stream_id, handle});
}

WARPWRIGHT_INLINE bool deferred_frees::is_shared(std::uint32_t node,
                                                 cudaStream_t with) const noexcept {
  for (shared_use const& u : uses_) {
    if (u.node == node && (with == nullptr || u.handle == with)) return true;
  }
  return false;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void deferred_frees::abandon(std::uint32_t node) noexcept {
  for (std::size_t i = pending_.size(); i-- > 0;) {
    if (pending_[i].node != node) continue;
    events_.give_back(pending_[i].event);
    remove(pending_, i);
  }
}

WARPWRIGHT_INLINE void deferred_frees::begin(std::uint32_t node, unsigned graphs,
                                             std::uint32_t list) noexcept {
  for (std::size_t i = uses_.size(); i-- > 0;) {
    if (uses_[i].node == node) remove(uses_, i);
  }
  unsigned holds = graphs;
  for (pending_event const& p : pending_) holds += p.node == node ? 1 : 0;
  blocks_.push_back(block{node, holds, list});
  if (list != none) streams_.pin(list);
  heap_.blocks.set_tag(node, pool_heap::deferred_free);
  heap_.deferred_bytes += heap_.blocks.at(node).bytes;
  ++heap_.deferred_blocks;
  ++heap_.counters.deallocations;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void deferred_frees::release(std::uint32_t node) noexcept {
  std::size_t i = 0;
  while (blocks_[i].node != node) ++i;
  if (--blocks_[i].holds != 0) return;
  std::uint32_t const list = blocks_[i].list;
  remove(blocks_, i);
  heap_.deferred_bytes -= heap_.blocks.at(node).bytes;
  --heap_.deferred_blocks;
  if (list == none) return heap_.blocks.deallocate(node, block_heap::ready, 0);
  streams_.unpin(list);
  streams_.free(node, list);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void deferred_frees::record_events(
    heap_guard& lock, std::uint32_t node, stream_ref stream, std::uint64_t own_thread_id,
    source_location where) {
  auto const record = [&](cudaStream_t handle) {
    pending_.reserve(pending_.size() + 1);
    cudaEvent_t const event = events_.record(lock, handle, where);
    if (event == nullptr) {
      if (is_gone(heap_.driver, handle)) {
        throw_invalid_argument(
            "memory_pool: a block with record_use(), or of a graph, is freed after one of its "
            "streams was destroyed; free it before that",
            where);
      }
      throw_invalid_argument(
          "memory_pool: a block with record_use(), or of a graph, is freed while one of its "
          "streams is capturing; end the capture first",
          where);
    }
    pending_.push_back(pending_event{node, event});
  };
  try {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      shared_use const use = uses_[i];
      if (use.node != node) continue;
      // Another thread's default stream cannot be recorded; the legacy stream is ordered behind it.
      bool const of_other = use.handle == cudaStreamPerThread && use.stream_id != own_thread_id;
      record(of_other ? cudaStreamLegacy : use.handle);
    }
    record(stream.get());
  } catch (...) {
    abandon(node);
    throw;
  }
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE epoch_tracker::poll_result deferred_frees::poll(
    heap_guard& lock, bool wait, source_location where) {
  epoch_tracker::poll_result result;
  for (std::size_t i = 0; i < pending_.size();) {
    pending_event const p = pending_[i];
    if (!events_.completed(lock, p.event, wait, where)) {
      ++i;
      continue;
    }
    result.completed = true;
    events_.give_back(p.event);
    remove(pending_, i);
    release(p.node);
  }
  result.pending = !pending_.empty();
  return result;
}

WARPWRIGHT_INLINE bool deferred_frees::retire(heap_guard& lock, std::uint32_t list,
                                              source_location where) {
  for (std::size_t i = 0; i < blocks_.size();) {
    if (blocks_[i].list != list) {
      ++i;
      continue;
    }
    std::uint32_t const node = blocks_[i].node;
    pending_.reserve(pending_.size() + 1);
    cudaEvent_t const event = events_.record(lock, streams_.handle(list), where);
    if (event == nullptr) return false;
    // The lock was released: a graph may have released the block meanwhile.
    i = 0;
    while (i < blocks_.size() && (blocks_[i].node != node || blocks_[i].list != list)) ++i;
    if (i == blocks_.size()) {
      events_.give_back(event);
    } else {
      pending_.push_back(pending_event{node, event});
      ++blocks_[i].holds;
      blocks_[i].list = none;
      streams_.unpin(list);
    }
    i = 0;
  }
  return true;
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
