// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a memory_pool says about misuse and exhaustion.
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/memory/detail/pool/call_sites.hpp>
#include <warpwright/memory/detail/pool/epoch_tracker.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE call_sites::call_sites(bool enabled) {
  if (enabled) frees_.resize(256);
}

WARPWRIGHT_INLINE void call_sites::record_allocation(pool_heap const& heap, std::uint32_t node,
                                                     source_location where) noexcept {
  if (!enabled()) return;
  if (sites_.size() < heap.blocks.node_count_bound()) {
    try {
      sites_.resize(heap.blocks.node_count_bound());
    } catch (std::bad_alloc const&) {
      return;  // a less exact error message is better than a lost block
    }
  }
  sites_[node] = call_site{where.file(), where.line()};
}

WARPWRIGHT_INLINE void call_sites::record_free(pool_heap const& heap, std::uint32_t node,
                                               source_location where) noexcept {
  if (!enabled()) return;
  block_heap::block const& b = heap.blocks.at(node);
  frees_[next_free_] =
      freed_block{b.address, b.requested_bytes, of(node), call_site{where.file(), where.line()}};
  next_free_ = (next_free_ + 1) % frees_.size();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE call_site call_sites::of(std::uint32_t node) const noexcept {
  return node < sites_.size() ? sites_[node] : call_site{};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE call_sites::freed_block const* call_sites::last_free_of(
    std::uint64_t address) const noexcept {
  for (std::size_t i = 0; i < frees_.size(); ++i) {
    // Newest first, because addresses are reused.
    freed_block const& freed = frees_[(next_free_ + frees_.size() - 1 - i) % frees_.size()];
    if (freed.address == address) return &freed;
  }
  return nullptr;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE text call_sites::largest(pool_heap const& heap,
                                                           unsigned shown) const noexcept {
  // No allocation, as the host may have no memory, and no sorting, as hits wait for the lock. First
  // the locations of more than a 64th of all bytes are found (Metwally et al., "Efficient
  // Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005), then their bytes.
  constexpr unsigned size = 64;
  struct {
    call_site from;
    std::uint64_t bytes = 0;
  } table[size];
  unsigned used = 0;
  for (bool const counting : {false, true}) {
    if (counting) {
      for (auto& entry : table) entry.bytes = 0;
    }
    heap.blocks.for_each([&](std::uint32_t node, block_heap::block const& b) {
      if (b.list != block_heap::none || b.tag == pool_heap::deferred_free) return;
      call_site const from = of(node);
      unsigned i = 0;
      while (i < used &&
             (table[i].from.line != from.line || std::strcmp(table[i].from.file, from.file) != 0)) {
        ++i;
      }
      if (i == used && counting) return;
      if (i == size) {
        i = 0;
        for (unsigned k = 1; k < size; ++k) i = table[k].bytes < table[i].bytes ? k : i;
      } else if (i == used) {
        ++used;
      }
      table[i].from = from;
      table[i].bytes += b.bytes;
    });
  }
  text list = "";
  for (unsigned i = 0; i < shown && i < used; ++i) {
    unsigned most = i;
    for (unsigned k = i + 1; k < used; ++k) most = table[k].bytes > table[most].bytes ? k : most;
    list += text{i == 0 ? ". Live, allocated at: " : ", "} + table[most].from + " " +
            table[most].bytes + " bytes";
    table[most] = table[i];
  }
  return list;
}

/// @throws std::invalid_argument  for a stream of another device
WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_device(stream_ref stream, device_id pool,
                                                    char const* verb, source_location where) {
  int const device = device_of_any(stream, where).value();
  if (device != pool.value()) {
    throw_invalid_argument(text{"memory_pool: cannot "} + verb + " on a stream of device " +
                               device + ": the pool's memory is on device " + pool.value() +
                               "; use that device's pool",
                           where);
  }
}

[[noreturn]] WARPWRIGHT_COLD WARPWRIGHT_INLINE void throw_wrong_size(
    heap_guard& lock, pool_heap const& heap, call_sites const& sites, std::uint32_t node,
    void* pointer, std::size_t bytes, source_location where) {
  std::uint64_t const right = heap.blocks.at(node).requested_bytes;
  call_site const site = sites.of(node);
  lock.unlock();
  throw_invalid_argument(text{"memory_pool: wrong size: "} + pointer + " is freed with " + bytes +
                             " bytes, but " + right + " bytes were allocated at " + site +
                             "; pass the same size",
                         where);
}

/// Throws with the reason why a pointer is not the start of a live block, for deallocate() and
/// record_use().
[[noreturn]] WARPWRIGHT_COLD WARPWRIGHT_INLINE void throw_unknown_pointer(
    pool_heap const& heap, call_sites const& sites, device_id pool, void* pointer,
    std::size_t bytes, source_location where, bool to_free = true) {
  text message = text{"memory_pool: cannot "} + (to_free ? "free " : "record a use of ") + pointer;
  if (to_free) message += text{" ("} + bytes + " bytes)";
  message += ": ";
  char const* const double_free = to_free ? "double free: " : "";
  std::uint64_t const address = address_of(pointer);
  heap_guard lock{heap.lock};
  std::uint32_t const node = heap.blocks.find_containing(address);
  call_sites::freed_block const* const freed = sites.last_free_of(address);
  if (freed != nullptr || node != block_heap::none) {
    if (freed != nullptr) {
      message += text{double_free} + "its " + freed->requested_bytes + " bytes were allocated at " +
                 freed->allocated + " and freed already at " + freed->freed;
    } else if (block_heap::block const& block = heap.blocks.at(node);
               block.list != block_heap::none || block.tag == pool_heap::deferred_free ||
               block.address == address) {
      message += text{double_free} + "the memory belongs to this pool and is free already";
      if (!sites.enabled())
        message += "; memory_pool_options::checked() reports where it was freed";
    } else {
      message += text{"it lies "} + (address - block.address) + " bytes inside of a block of " +
                 block.requested_bytes + " bytes";
      if (sites.enabled()) message += text{" allocated at "} + sites.of(node);
      message += "; pass the pointer that allocate() returned";
    }
    lock.unlock();
    throw_invalid_argument(message, where);
  }
  lock.unlock();
  cudaPointerAttributes attributes{};
  cudaError_t const result = cudaPointerGetAttributes(&attributes, pointer);
  discard(result);
  message += "it is not from this pool (";
  if (result != cudaSuccess || attributes.type == cudaMemoryTypeUnregistered) {
    message += "memory that is not registered with CUDA";
  } else if (attributes.type == cudaMemoryTypeHost) {
    message += "page-locked host memory";
  } else {
    message += text{"memory of device "} + attributes.device;
  }
  throw_invalid_argument(
      message + "; the pool is on device " + pool.value() + "); " +
          (to_free ? "free it where it was allocated" : "call record_use() of the pool it is from"),
      where);
}

/// What occupies the memory: the streams with the most free bytes and, in checked mode, the source
/// locations with the most live bytes.
WARPWRIGHT_COLD WARPWRIGHT_INLINE text memory_users(pool_heap const& heap,
                                                    epoch_tracker const& streams,
                                                    call_sites const& sites) noexcept {
  constexpr unsigned shown = 3;
  text result = "";
  heap_guard lock{heap.lock};
  block_heap const& blocks = heap.blocks;
  std::uint32_t last = block_heap::none;
  for (unsigned i = 0; i < shown; ++i) {
    // Selects the next largest each time, of equals the lower number: needs no memory.
    auto const before = [&](std::uint32_t a, std::uint32_t b) {
      std::uint64_t const a_bytes = blocks.bytes_in(a);
      std::uint64_t const b_bytes = blocks.bytes_in(b);
      return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
    };
    std::uint32_t best = block_heap::none;
    for (std::uint32_t list = block_heap::first_stream_list; list < streams.end(); ++list) {
      if (blocks.bytes_in(list) == 0) continue;
      if (last != block_heap::none && !before(last, list)) continue;
      if (best == block_heap::none || before(list, best)) best = list;
    }
    if (best == block_heap::none) break;
    last = best;
    result += text{i == 0 ? ". Free, but reserved for one stream: " : ", "} +
              blocks.bytes_in(best) + " bytes of " +
              (streams.of_graph(best) ? text{"a graph"} : text{"stream "} + streams.id(best));
    cudaStream_t const handle = streams.handle(best);
    if (handle == nullptr) continue;
    unlocked const released{lock};
    if (is_gone(heap.driver, handle)) result += ", which is destroyed: call retire() before that";
  }
  if (sites.enabled()) result += sites.largest(heap, shown);
  return result;
}

}  // namespace detail

WARPWRIGHT_END
