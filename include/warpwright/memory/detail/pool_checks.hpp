// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a memory_pool says when it is misused or exhausted. Included by pool.hpp.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

inline memory_report memory_pool::report(std::size_t requested_bytes) const noexcept {
  spin_held const lock{lock_};
  memory_report r;
  r.requested_bytes = requested_bytes;
  r.live_bytes = heap_.live_bytes();
  r.reserved_bytes = reserved_bytes_;
  r.largest_hole_bytes = heap_.largest_hole_bytes();
  r.limit_bytes = limit_bytes_;
  r.device = device_.value();
  return r;
}

inline pool_statistics memory_pool::statistics() const noexcept {
  spin_held const lock{lock_};
  pool_statistics s = counters_;
  s.live_bytes = heap_.live_bytes();
  s.live_blocks = heap_.live_blocks();
  s.reserved_bytes = reserved_bytes_;
  s.largest_hole_bytes = heap_.largest_hole_bytes();
  return s;
}

inline void memory_pool::throw_out_of_memory(std::size_t bytes, source_location where) const {
  throw out_of_memory{report(bytes), where};
}

inline void memory_pool::refuse_alignment(std::size_t alignment, source_location where) {
  detail::throw_invalid_argument(detail::text{"memory_pool: an alignment of "} + alignment +
                                     " bytes is not a power of two from 1 to " +
                                     maximum_alignment_bytes,
                                 where);
}

inline void memory_pool::check_stream(stream_ref stream, char const* verb,
                                      source_location where) const {
  // First: asking a capturing stream for its device would break the capture.
  if (detail::is_capturing(stream, where)) {
    detail::throw_invalid_argument(detail::text{"memory_pool: cannot "} + verb +
                                       " on a capturing stream: the graph would use the memory "
                                       "after the pool has given it to others; allocate before "
                                       "the capture and keep the memory as long as the graph",
                                   where);
  }
#if CUDART_VERSION >= 12080
  int device = -1;
  check(cudaStreamGetDevice(stream.get(), &device), "cudaStreamGetDevice", where);
  if (device != device_.value()) {
    detail::throw_invalid_argument(
        detail::text{"memory_pool: cannot "} + verb + " on a stream of device " + device +
            ": the pool's memory is on device " + device_.value() + "; use that device's pool",
        where);
  }
#endif
}

inline void memory_pool::remember_allocation(std::uint32_t node, source_location where) noexcept {
  if (sites_.size() < heap_.block_numbers()) {
    try {
      sites_.resize(heap_.block_numbers());
    } catch (std::bad_alloc const&) {
      return;  // a text less exact is better than a block lost
    }
  }
  sites_[node] = detail::call_site{where.file(), where.line()};
}

inline detail::call_site memory_pool::site_of(std::uint32_t node) const noexcept {
  return node < sites_.size() ? sites_[node] : detail::call_site{};
}

inline void memory_pool::remember_free(std::uint32_t node, source_location where) noexcept {
  detail::block_heap::block const& b = heap_.at(node);
  recent_frees_[next_recent_free_] = detail::freed_block{
      b.address, b.requested_bytes, site_of(node), detail::call_site{where.file(), where.line()}};
  next_recent_free_ = (next_recent_free_ + 1) % recent_frees_.size();
}

inline void memory_pool::refuse_size(spin_held& lock, std::uint32_t node, void* pointer,
                                     std::size_t bytes, source_location where) const {
  std::uint64_t const right = heap_.at(node).requested_bytes;
  detail::call_site const site = site_of(node);
  lock.unlock();
  detail::throw_invalid_argument(detail::text{"memory_pool: wrong size: "} + pointer +
                                     " is freed with " + bytes + " bytes, but " + right +
                                     " bytes were allocated at " + site + "; pass the same size",
                                 where);
}

inline void memory_pool::refuse_unknown(void* pointer, std::size_t bytes,
                                        source_location where) const {
  detail::text message =
      detail::text{"memory_pool: cannot free "} + pointer + " (" + bytes + " bytes): ";
  std::uint64_t const address = address_of(pointer);
  spin_held lock{lock_};
  for (std::size_t i = 0; i < recent_frees_.size(); ++i) {
    // Newest first, for an address is used again.
    std::size_t const at =
        (next_recent_free_ + recent_frees_.size() - 1 - i) % recent_frees_.size();
    detail::freed_block const freed = recent_frees_[at];
    if (freed.address != address) continue;
    lock.unlock();
    detail::throw_invalid_argument(message + "double free: its " + freed.requested_bytes +
                                       " bytes were allocated at " + freed.allocated +
                                       " and freed already at " + freed.freed,
                                   where);
  }
  std::uint32_t const node = heap_.find_containing(address);
  if (node != heap::none) {
    heap::block const block = heap_.at(node);
    detail::call_site const site = block.list == heap::none ? site_of(node) : detail::call_site{};
    lock.unlock();
    if (block.list != heap::none) {
      detail::throw_invalid_argument(
          message + "double free: the memory belongs to this pool and is free already" +
              (options_.checked_ ? ""
                                 : "; memory_pool_options::checked() tells where it was freed"),
          where);
    }
    message += detail::text{"it lies "} + (address - block.address) +
               " bytes inside of a block of " + block.requested_bytes + " bytes";
    if (options_.checked_) message += detail::text{" allocated at "} + site;
    detail::throw_invalid_argument(message + "; free the pointer that allocate() answered", where);
  }
  lock.unlock();
  cudaPointerAttributes attributes{};
  cudaError_t const answer = cudaPointerGetAttributes(&attributes, pointer);
  detail::discard(answer);
  message += "it is not from this pool (";
  if (answer != cudaSuccess || attributes.type == cudaMemoryTypeUnregistered) {
    message += "memory that CUDA does not know";
  } else if (attributes.type == cudaMemoryTypeHost) {
    message += "page-locked host memory";
  } else {
    message += detail::text{"memory of device "} + attributes.device;
  }
  detail::throw_invalid_argument(
      message + "; the pool is on device " + device_.value() + "); free it where it was allocated",
      where);
}

WARPWRIGHT_END
