// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Growing and shrinking a memory_pool. Included by pool.hpp.
//
// With virtual memory, a miss maps memory next to, or between, free blocks that the stream may use.
// Whole granules that are idle at other addresses are remapped first; only the rest is new memory.
// With cudaMalloc, memory comes in segments.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// Reserves memory and allocates from it.
inline void* memory_pool::grow(biased_guard& lock, std::uint32_t own, allocation_request request,
                               source_location where) {
  if (range_.reserved()) return grow_range(lock, own, request, where);
  std::uint64_t const allowed = (limit_bytes_ - reserved_bytes_) & ~(heap::granule_bytes - 1);
  std::uint64_t needed = request.rounded_bytes + (request.alignment - heap::granule_bytes);
  if (needed < request.rounded_bytes || needed > allowed) return nullptr;
  constexpr std::uint64_t page_bytes = std::uint64_t{2} << 20U;  // the driver's page size
  std::uint64_t rounded = 0;
  if (heap::round_up(needed, page_bytes, rounded) && rounded <= allowed) needed = rounded;
  std::uint64_t preferred = preferred_growth_bytes();
  if (!heap::round_up(preferred, page_bytes, preferred) || preferred > allowed) preferred = allowed;
  if (preferred > needed) {
    std::uint64_t const before = reserved_bytes_;
    // On a full device a large growth step must not make a small request fail.
    add_segment(lock, preferred, where);
    if (reserved_bytes_ != before) return allocate_from_list(heap::ready, request, where);
  }
  add_segment(lock, needed, where);
  return allocate_from_list(heap::ready, request, where);
}

/// The growth step that the options ask for.
inline std::uint64_t memory_pool::preferred_growth_bytes() const noexcept {
  double const factor = options_.growth_factor_ * static_cast<double>(reserved_bytes_);
  std::uint64_t preferred = options_.growth_bytes_;
  if (preferred == memory_pool_options::by_source) {
    preferred = range_.reserved() ? 0 : std::uint64_t{64} << 20U;
  }
  return factor > static_cast<double>(preferred) ? static_cast<std::uint64_t>(factor) : preferred;
}

/// Adds a segment; does nothing when CUDA has not enough memory.
inline void memory_pool::add_segment(biased_guard& lock, std::size_t bytes, source_location where) {
  lock.unlock();
  void* pointer = nullptr;
  char const* api = "cudaMalloc";
  cudaError_t const result = allocate_upstream(&pointer, bytes, &api);
  if (result == cudaErrorMemoryAllocation) detail::discard(result);
  lock.lock();
  if (result == cudaErrorMemoryAllocation) return;
  check(result, api, where);
  try {
    heap_.add_segment(address_of(pointer), bytes);
  } catch (...) {
    lock.unlock();
    detail::discard(free_upstream(pointer));
    throw;
  }
  ++counters_.upstream_allocations;
  set_reserved_bytes(reserved_bytes_ + bytes);
}

inline cudaError_t memory_pool::allocate_upstream(void** pointer, std::size_t bytes,
                                                  char const** api) noexcept {
  if (source_ != memory_source::cuda_malloc_async) return cudaMalloc(pointer, bytes);
  *api = "cudaMallocAsync";
  cudaError_t result = cudaMallocAsync(pointer, bytes, upstream_stream_.handle);
  if (result != cudaSuccess) return result;
  // All streams may use the segment, so none is ordered behind the pool's own stream.
  *api = "cudaStreamSynchronize";
  result = cudaStreamSynchronize(upstream_stream_.handle);
  if (result != cudaSuccess) detail::discard(free_upstream(*pointer));
  return result;
}

/// @pre no work uses the memory any more
inline cudaError_t memory_pool::free_upstream(void* pointer) noexcept {
  return source_ == memory_source::cuda_malloc_async
             ? cudaFreeAsync(pointer, upstream_stream_.handle)
             : cudaFree(pointer);
}

inline void memory_pool::set_reserved_bytes(std::uint64_t bytes) noexcept {
  reserved_bytes_ = bytes;
  if (bytes > counters_.reserved_peak_bytes) counters_.reserved_peak_bytes = bytes;
}

/// Returns free memory to CUDA while more than `keep_bytes` are reserved.
/// @return the number of bytes returned
inline std::size_t memory_pool::release_memory(biased_guard& lock, std::uint64_t keep_bytes,
                                               source_location where) {
  std::uint64_t const before = reserved_bytes_;
  if (range_.reserved()) {
    std::uint64_t const granule = range_.granule_bytes();
    std::uint64_t const surplus =
        before > keep_bytes ? (before - keep_bytes) & ~(granule - 1) : std::uint64_t{0};
    while (range_.spare_bytes() < surplus && unmap_idle(lock, surplus, where)) {
    }
    std::uint64_t const spare = range_.spare_bytes();
    release_spare(lock, spare > surplus ? spare - surplus : 0, where);
  } else {
    release_segments(lock, keep_bytes, where);
  }
  return static_cast<std::size_t>(before - reserved_bytes_);
}

/// Returns free segments to CUDA, the largest first, while more than `keep_bytes` are reserved.
inline void memory_pool::release_segments(biased_guard& lock, std::uint64_t keep_bytes,
                                          source_location where) {
  while (reserved_bytes_ > keep_bytes) {
    heap::segment const s = heap_.remove_empty_segment(reserved_bytes_ - keep_bytes);
    if (s.bytes == 0) break;
    lock.unlock();
    cudaError_t const result = free_upstream(pointer_to(s.address));
    lock.lock();
    if (result != cudaSuccess) heap_.add_segment(s.address, s.bytes);
    check(result, source_ == memory_source::cuda_malloc_async ? "cudaFreeAsync" : "cudaFree",
          where);
    ++counters_.upstream_deallocations;
    reserved_bytes_ -= s.bytes;
  }
}

inline void memory_pool::release_spare(biased_guard& lock, std::uint64_t keep_bytes,
                                       source_location where) {
  if (range_.spare_bytes() <= keep_bytes) return;
  lock.unlock();
  cudaError_t const result = range_.release_spare(keep_bytes);
  lock.lock();
  counters_.virtual_memory_calls = range_.calls();
  ++counters_.upstream_deallocations;
  set_reserved_bytes(range_.physical_bytes());
  check(result, "cuMemRelease", where);
}

/// Reserves the pool's address range if the options and the device use virtual memory.
/// @return whether the range is reserved
inline bool memory_pool::reserve_range() noexcept {
  if (options_.source_ == memory_source::cuda_malloc ||
      options_.source_ == memory_source::cuda_malloc_async) {
    return false;
  }
  // Twice the capacity, because unmapped granules leave holes in the range, plus room for the
  // largest alignment. Addresses are free.
  std::uint64_t const bytes = 2 * capacity_bytes_ + 2 * maximum_alignment_bytes;
  if (bytes < capacity_bytes_ || !range_.reserve(device_, bytes)) return false;
  if (limit_bytes_ < range_.granule_bytes()) {  // not even one granule can be mapped
    range_.reset();
    return false;
  }
  try {
    heap_.add_segment(range_.address(), range_.bytes(), heap::unmapped);
    first_address_ = range_.address();
    address_span_ = range_.bytes();
  } catch (...) {
    range_.reset();
  }
  return range_.reserved();
}

/// Maps memory and allocates from it; maps more than the request needs if the options say so.
inline void* memory_pool::grow_range(biased_guard& lock, std::uint32_t own,
                                     allocation_request request, source_location where) {
  std::uint64_t const preferred = preferred_growth_bytes() & ~(heap::granule_bytes - 1);
  if (preferred > request.rounded_bytes) {
    void* const pointer = map_and_allocate(lock, own, request, preferred, where);
    if (pointer != nullptr) return pointer;
  }
  return map_and_allocate(lock, own, request, request.rounded_bytes, where);
}

/// Maps memory so that `run_bytes` consecutive bytes are free for the stream, and allocates from
/// there. With request.bytes 0 it only maps.
inline void* memory_pool::map_and_allocate(biased_guard& lock, std::uint32_t own,
                                           allocation_request request, std::uint64_t run_bytes,
                                           source_location where) {
  mapping_plan const plan = plan_mapping(own, run_bytes, request.alignment);
  if (plan.map_bytes == 0) return nullptr;
  // Moves the adjacent free blocks to the reserved list, so that no hit allocates them and no remap
  // unmaps them while the lock is released.
  std::uint32_t list_after = own;
  auto const release_neighbours = [&] {
    bool const of_stream = list_after != heap::ready && !entries_[list_after].of_graph;
    heap_.move(heap::reserved_list, 0, list_after, of_stream ? entries_[list_after].open_epoch : 0);
  };
  void* pointer = nullptr;
  try {
    if (!reserve_neighbours(plan, own)) list_after = heap::ready;
    if (ensure_spare(lock, plan.map_bytes, where)) {
      lock.unlock();
      cudaError_t const result = range_.map(plan.map_address, plan.map_bytes);
      lock.lock();
      counters_.virtual_memory_calls = range_.calls();
      check(result, "cuMemMap", where);
      try {
        static_cast<void>(
            heap_.move_part(heap_.find_free_containing(heap::unmapped, plan.map_address),
                            plan.map_address, plan.map_bytes, heap::reserved_list, 0));
      } catch (...) {
        static_cast<void>(range_.unmap(plan.map_address, plan.map_bytes));
        throw;
      }
      if (request.bytes != 0) pointer = allocate_from_list(heap::reserved_list, request, where);
    }
  } catch (...) {
    release_neighbours();
    throw;
  }
  release_neighbours();
  return pointer;
}

/// Provides spare memory: idle granules first, then new memory.
/// @return false when the limit or the device does not allow it
inline bool memory_pool::ensure_spare(biased_guard& lock, std::uint64_t bytes,
                                      source_location where) {
  while (range_.spare_bytes() < bytes && unmap_idle(lock, bytes, where)) ++counters_.remaps;
  std::uint64_t const spare = range_.spare_bytes();
  if (spare >= bytes) return true;
  if (bytes - spare > limit_bytes_ - reserved_bytes_) return false;
  lock.unlock();
  cudaError_t const result = range_.create_spare(bytes - spare);
  lock.lock();
  counters_.virtual_memory_calls = range_.calls();
  set_reserved_bytes(range_.physical_bytes());
  if (result == cudaErrorMemoryAllocation) return false;
  check(result, "cuMemCreate", where);
  ++counters_.upstream_allocations;
  return true;
}

/// Unmaps whole granules of one ready block, with as few calls as possible.
/// @param bytes  the amount of spare memory to reach
/// @return false when no ready block contains a whole granule, or enough memory is spare
inline bool memory_pool::unmap_idle(biased_guard& lock, std::uint64_t bytes,
                                    source_location where) {
  std::uint64_t const granule = range_.granule_bytes();
  if (range_.spare_bytes() >= bytes) return false;
  std::uint64_t const missing = (bytes - range_.spare_bytes() + (granule - 1)) & ~(granule - 1);
  std::uint32_t node = heap_.find_best_fit(heap::ready, missing, granule, true);
  if (node == heap::none) {
    node = heap_.largest_in(heap::ready);
    if (node == heap::none || heap_.at(node).bytes < 2 * granule) {
      node = heap_.find_best_fit(heap::ready, granule, granule, true);
    }
    if (node == heap::none) return false;
  }
  std::uint64_t const low = (heap_.at(node).address + (granule - 1)) & ~(granule - 1);
  std::uint64_t const high = (heap_.at(node).address + heap_.at(node).bytes) & ~(granule - 1);
  std::uint64_t const part_bytes = high - low < missing ? high - low : missing;
  std::uint64_t const part = high - part_bytes;
  static_cast<void>(heap_.move_part(node, part, part_bytes, heap::unmapped, 0));
  lock.unlock();
  cudaError_t const result = range_.unmap(part, part_bytes);
  lock.lock();
  counters_.virtual_memory_calls = range_.calls();
  if (result != cudaSuccess) {
    node = heap_.find_free_containing(heap::unmapped, part);
    static_cast<void>(heap_.move_part(node, part, part_bytes, heap::ready, 0));
  }
  check(result, "cuMemUnmap", where);
  return true;
}

/// Finds the place where the fewest granules must be mapped to get `bytes` consecutive bytes that
/// the stream may use; of equals, the one with the lowest address.
inline memory_pool::mapping_plan memory_pool::plan_mapping(std::uint32_t own, std::uint64_t bytes,
                                                           std::uint64_t alignment) const noexcept {
  std::uint64_t const granule = range_.granule_bytes();
  auto const usable = [&](std::uint32_t n) {
    return n != heap::none && (heap_.at(n).list == own || heap_.at(n).list == heap::ready);
  };
  mapping_plan best;
  for (std::uint32_t hole = heap_.oldest(heap::unmapped); hole != heap::none;
       hole = heap_.at(hole).age_next) {
    std::uint64_t const low = heap_.at(hole).address;
    std::uint64_t const high = low + heap_.at(hole).bytes;
    std::uint64_t begin = low;
    for (std::uint32_t n = heap_.at(hole).previous; usable(n); n = heap_.at(n).previous) {
      begin = heap_.at(n).address;
    }
    std::uint64_t end = high;
    for (std::uint32_t n = heap_.at(hole).next; usable(n); n = heap_.at(n).next) {
      end = heap_.at(n).address + heap_.at(n).bytes;
    }
    std::uint64_t const first = (begin + (alignment - 1)) & ~(alignment - 1);
    if (first >= high || end - first < bytes) continue;
    if (first + bytes <= low)
      continue;  // needs no mapping; beyond the search limit of coalesce_and_allocate()
    mapping_plan candidate;
    candidate.hole = hole;
    candidate.begin = first;
    candidate.end = first + bytes;
    candidate.map_address = first > low ? first & ~(granule - 1) : low;
    std::uint64_t const last = (candidate.end + (granule - 1)) & ~(granule - 1);
    candidate.map_bytes = (last < high ? last : high) - candidate.map_address;
    if (best.map_bytes == 0 || candidate.map_bytes < best.map_bytes ||
        (candidate.map_bytes == best.map_bytes && candidate.map_address < best.map_address)) {
      best = candidate;
    }
  }
  return best;
}

/// Moves the free memory that the plan uses on both sides of its hole to the reserved list.
/// @return whether a part came from the stream's own list
inline bool memory_pool::reserve_neighbours(mapping_plan const& plan, std::uint32_t own) {
  bool uses_own = false;
  std::uint64_t const low = heap_.at(plan.hole).address;
  std::uint64_t const high = low + heap_.at(plan.hole).bytes;
  auto const reserve = [&](std::uint32_t n, std::uint64_t begin, std::uint64_t end) {
    uses_own = uses_own || heap_.at(n).list == own;
    return heap_.move_part(n, begin, end - begin, heap::reserved_list, 0);
  };
  // A part merges with the part reserved before it, and ends where that one begins.
  std::uint32_t n = heap_.at(plan.hole).previous;
  for (std::uint64_t end = low; end > plan.begin; n = heap_.at(n).previous) {
    std::uint64_t const begin = heap_.at(n).address > plan.begin ? heap_.at(n).address : plan.begin;
    n = reserve(n, begin, end);
    end = begin;
  }
  n = heap_.at(plan.hole).next;
  for (std::uint64_t begin = high; begin < plan.end; n = heap_.at(n).next) {
    std::uint64_t const whole = heap_.at(n).address + heap_.at(n).bytes;
    std::uint64_t const end = whole < plan.end ? whole : plan.end;
    n = reserve(n, begin, end);
    begin = end;
  }
  return uses_own;
}

/// Coalesces free blocks of the stream with adjacent ready blocks where that makes room, and
/// allocates from there.
inline void* memory_pool::coalesce_and_allocate(std::uint32_t own, allocation_request request,
                                                source_location where) {
  unsigned steps = 4096;  // bounds the time of a miss with many free blocks
  auto const usable = [&](std::uint32_t n) {
    return n != heap::none && steps != 0 && --steps != 0 &&
           (heap_.at(n).list == own || heap_.at(n).list == heap::ready);
  };
  std::uint32_t best = heap::none;
  std::uint64_t best_bytes = 0;
  for (std::uint32_t n = heap_.oldest(own); n != heap::none && steps != 0;
       n = heap_.at(n).age_next) {
    std::uint32_t first = n;
    while (usable(heap_.at(first).previous)) first = heap_.at(first).previous;
    std::uint64_t const begin = heap_.at(first).address;
    std::uint64_t end = begin;
    for (std::uint32_t m = first; usable(m); m = heap_.at(m).next) {
      end = heap_.at(m).address + heap_.at(m).bytes;
    }
    std::uint64_t const padding = (~begin + 1) & (request.alignment - 1);
    std::uint64_t const bytes = end - begin;
    if (bytes < padding || bytes - padding < request.rounded_bytes) continue;
    if (best != heap::none && bytes >= best_bytes) continue;
    best = first;
    best_bytes = bytes;
  }
  if (best == heap::none) return nullptr;
  std::uint64_t const end = heap_.at(best).address + best_bytes;
  std::uint64_t const epoch = entries_[own].of_graph ? 0 : entries_[own].open_epoch;
  for (std::uint32_t n = best; n != heap::none && heap_.at(n).address < end; n = heap_.at(n).next) {
    if (heap_.at(n).list == heap::ready) heap_.move_block(n, own, epoch);
  }
  return allocate_from_list(own, request, where);
}

/// The last attempt: unmaps all idle granules, or frees all empty segments, and grows.
inline void* memory_pool::compact_and_allocate(biased_guard& lock, std::uint32_t own,
                                               allocation_request request, source_location where) {
  if (range_.reserved()) {
    while (unmap_idle(lock, reserved_bytes_, where)) ++counters_.remaps;
  } else {
    release_segments(lock, 0, where);
  }
  return grow(lock, own, request, where);
}

WARPWRIGHT_END
