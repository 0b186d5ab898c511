// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a memory_pool's memory comes from, and goes. Included by pool.hpp.
//
// From virtual memory, a miss is served by mapping memory behind, or between, free blocks that the
// stream may use anyway; whole granules that lie idle elsewhere are mapped there first, and only
// what is missing then is new. From cudaMalloc, memory comes in segments.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// Reserves memory and takes the request from it.
inline void* memory_pool::grow(pool_held& lock, std::uint32_t own, request wanted,
                               source_location where) {
  if (range_.reserved()) return grow_range(lock, own, wanted, where);
  std::uint64_t const allowed = (limit_bytes_ - reserved_bytes_) & ~(heap::granule_bytes - 1);
  std::uint64_t needed = wanted.rounded_bytes + (wanted.alignment - heap::granule_bytes);
  if (needed < wanted.rounded_bytes || needed > allowed) return nullptr;
  constexpr std::uint64_t page_bytes = std::uint64_t{2} << 20U;  // what the driver maps at a time
  std::uint64_t rounded = 0;
  if (heap::round_up(needed, page_bytes, rounded) && rounded <= allowed) needed = rounded;
  std::uint64_t wish = growth_wish();
  if (!heap::round_up(wish, page_bytes, wish) || wish > allowed) wish = allowed;
  if (wish > needed) {
    std::uint64_t const before = reserved_bytes_;
    // With no limit and a device that is full, a huge wish must not hide a request that fits.
    add_segment(lock, wish, where);
    if (reserved_bytes_ != before) return take(heap::ready, wanted, where);
  }
  add_segment(lock, needed, where);
  return take(heap::ready, wanted, where);
}

/// The least that the options want to grow by.
inline std::uint64_t memory_pool::growth_wish() const noexcept {
  double const factor = options_.growth_factor_ * static_cast<double>(reserved_bytes_);
  std::uint64_t wish = options_.growth_bytes_;
  if (wish == memory_pool_options::by_source) {
    wish = range_.reserved() ? 0 : std::uint64_t{64} << 20U;
  }
  return factor > static_cast<double>(wish) ? static_cast<std::uint64_t>(factor) : wish;
}

/// Adds a segment; does nothing when CUDA has not that much memory.
inline void memory_pool::add_segment(pool_held& lock, std::size_t bytes, source_location where) {
  lock.unlock();
  void* pointer = nullptr;
  char const* api = "cudaMalloc";
  cudaError_t const answer = take_upstream(&pointer, bytes, &api);
  if (answer == cudaErrorMemoryAllocation) detail::discard(answer);
  lock.lock();
  if (answer == cudaErrorMemoryAllocation) return;
  check(answer, api, where);
  try {
    heap_.add_segment(address_of(pointer), bytes);
  } catch (...) {
    lock.unlock();
    detail::discard(give_upstream(pointer));
    throw;
  }
  ++counters_.upstream_allocations;
  note_reserved(reserved_bytes_ + bytes);
}

inline cudaError_t memory_pool::take_upstream(void** pointer, std::size_t bytes,
                                              char const** api) noexcept {
  if (source_ != memory_source::cuda_malloc_async) return cudaMalloc(pointer, bytes);
  *api = "cudaMallocAsync";
  cudaError_t answer = cudaMallocAsync(pointer, bytes, upstream_stream_.handle);
  if (answer != cudaSuccess) return answer;
  // The segment is for all streams: none has to be ordered behind the pool's own.
  *api = "cudaStreamSynchronize";
  answer = cudaStreamSynchronize(upstream_stream_.handle);
  if (answer != cudaSuccess) detail::discard(give_upstream(*pointer));
  return answer;
}

/// @pre nothing uses the memory any more
inline cudaError_t memory_pool::give_upstream(void* pointer) noexcept {
  return source_ == memory_source::cuda_malloc_async
             ? cudaFreeAsync(pointer, upstream_stream_.handle)
             : cudaFree(pointer);
}

inline void memory_pool::note_reserved(std::uint64_t bytes) noexcept {
  reserved_bytes_ = bytes;
  if (bytes > counters_.reserved_peak_bytes) counters_.reserved_peak_bytes = bytes;
}

/// Gives free memory back to CUDA while more than `keep_bytes` stay reserved.
/// @return the bytes given back
inline std::size_t memory_pool::release_memory(pool_held& lock, std::uint64_t keep_bytes,
                                               source_location where) {
  std::uint64_t const before = reserved_bytes_;
  if (range_.reserved()) {
    std::uint64_t const granule = range_.granule_bytes();
    std::uint64_t const surplus =
        before > keep_bytes ? (before - keep_bytes) & ~(granule - 1) : std::uint64_t{0};
    while (range_.spare_bytes() < surplus && make_spare(lock, surplus, where)) {
    }
    std::uint64_t const spare = range_.spare_bytes();
    release_spare(lock, spare > surplus ? spare - surplus : 0, where);
  } else {
    release_segments(lock, keep_bytes, where);
  }
  return static_cast<std::size_t>(before - reserved_bytes_);
}

/// Gives free segments back, the largest first, while more than `keep_bytes` stay reserved.
inline void memory_pool::release_segments(pool_held& lock, std::uint64_t keep_bytes,
                                          source_location where) {
  while (reserved_bytes_ > keep_bytes) {
    heap::segment const s = heap_.remove_empty_segment(reserved_bytes_ - keep_bytes);
    if (s.bytes == 0) break;
    lock.unlock();
    cudaError_t const answer = give_upstream(pointer_to(s.address));
    lock.lock();
    if (answer != cudaSuccess) heap_.add_segment(s.address, s.bytes);
    check(answer, source_ == memory_source::cuda_malloc_async ? "cudaFreeAsync" : "cudaFree",
          where);
    ++counters_.upstream_deallocations;
    reserved_bytes_ -= s.bytes;
  }
}

inline void memory_pool::release_spare(pool_held& lock, std::uint64_t keep_bytes,
                                       source_location where) {
  if (range_.spare_bytes() <= keep_bytes) return;
  lock.unlock();
  cudaError_t const answer = range_.release_spare(keep_bytes);
  lock.lock();
  counters_.virtual_memory_calls = range_.calls();
  ++counters_.upstream_deallocations;
  note_reserved(range_.physical_bytes());
  check(answer, "cuMemRelease", where);
}

/// Reserves the pool's addresses, where the options and the device want virtual memory.
/// @return whether it has them now
inline bool memory_pool::reserve_range() noexcept {
  if (options_.source_ == memory_source::cuda_malloc ||
      options_.source_ == memory_source::cuda_malloc_async) {
    return false;
  }
  // Twice what there can be: empty granules leave holes among the addresses. And room for the
  // largest alignment: addresses cost nothing.
  std::uint64_t const bytes = 2 * capacity_bytes_ + 2 * maximum_alignment_bytes;
  if (bytes < capacity_bytes_ || !range_.reserve(device_, bytes)) return false;
  if (limit_bytes_ < range_.granule_bytes()) {  // nothing could be mapped
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

/// Maps memory and takes the request from it; more than it needs, if the options say so.
inline void* memory_pool::grow_range(pool_held& lock, std::uint32_t own, request wanted,
                                     source_location where) {
  std::uint64_t const wish = growth_wish() & ~(heap::granule_bytes - 1);
  if (wish > wanted.rounded_bytes) {
    void* const pointer = map_and_take(lock, own, wanted, wish, where);
    if (pointer != nullptr) return pointer;
  }
  return map_and_take(lock, own, wanted, wanted.rounded_bytes, where);
}

/// Maps memory so that that many bytes in a row are free for the stream, and takes the request, if
/// it is one, from there.
inline void* memory_pool::map_and_take(pool_held& lock, std::uint32_t own, request wanted,
                                       std::uint64_t run_bytes, source_location where) {
  place const found = find_place(own, run_bytes, wanted.alignment);
  if (found.map_bytes == 0) return nullptr;
  // The free blocks beside it: no hit may take them meanwhile, and no remap empty them.
  std::uint32_t home = own;
  auto const let_go = [&] {
    bool const of_stream = home != heap::ready && !entries_[home].of_graph;
    heap_.move(heap::held_back, 0, home, of_stream ? entries_[home].open_epoch : 0);
  };
  void* pointer = nullptr;
  try {
    if (!hold_back(found, own)) home = heap::ready;
    if (supply(lock, found.map_bytes, where)) {
      lock.unlock();
      cudaError_t const answer = range_.map(found.map_address, found.map_bytes);
      lock.lock();
      counters_.virtual_memory_calls = range_.calls();
      check(answer, "cuMemMap", where);
      try {
        static_cast<void>(heap_.move_part(heap_.find_in(heap::unmapped, found.map_address),
                                          found.map_address, found.map_bytes, heap::held_back, 0));
      } catch (...) {
        static_cast<void>(range_.unmap(found.map_address, found.map_bytes));
        throw;
      }
      if (wanted.bytes != 0) pointer = take(heap::held_back, wanted, where);
    }
  } catch (...) {
    let_go();
    throw;
  }
  let_go();
  return pointer;
}

/// Sees to it that as much memory is spare: idle granules first, new memory for the rest.
/// @return false when the limit or the device does not allow it
inline bool memory_pool::supply(pool_held& lock, std::uint64_t bytes, source_location where) {
  while (range_.spare_bytes() < bytes && make_spare(lock, bytes, where)) ++counters_.remaps;
  std::uint64_t const spare = range_.spare_bytes();
  if (spare >= bytes) return true;
  if (bytes - spare > limit_bytes_ - reserved_bytes_) return false;
  lock.unlock();
  cudaError_t const answer = range_.create_spare(bytes - spare);
  lock.lock();
  counters_.virtual_memory_calls = range_.calls();
  note_reserved(range_.physical_bytes());
  if (answer == cudaErrorMemoryAllocation) return false;
  check(answer, "cuMemCreate", where);
  ++counters_.upstream_allocations;
  return true;
}

/// Takes whole granules out of one ready block, as few calls as may be.
/// @param bytes  that are to be spare in the end, more than are
/// @return false when no ready block has a whole granule, or enough are spare
inline bool memory_pool::make_spare(pool_held& lock, std::uint64_t bytes, source_location where) {
  std::uint64_t const granule = range_.granule_bytes();
  if (range_.spare_bytes() >= bytes) return false;
  std::uint64_t const missing = (bytes - range_.spare_bytes() + (granule - 1)) & ~(granule - 1);
  std::uint32_t node = heap_.find_best(heap::ready, missing, granule, true);
  if (node == heap::none) {
    node = heap_.largest_in(heap::ready);
    if (node == heap::none || heap_.at(node).bytes < 2 * granule) {
      node = heap_.find_best(heap::ready, granule, granule, true);
    }
    if (node == heap::none) return false;
  }
  std::uint64_t const low = (heap_.at(node).address + (granule - 1)) & ~(granule - 1);
  std::uint64_t const high = (heap_.at(node).address + heap_.at(node).bytes) & ~(granule - 1);
  std::uint64_t const part_bytes = high - low < missing ? high - low : missing;
  std::uint64_t const part = high - part_bytes;
  static_cast<void>(heap_.move_part(node, part, part_bytes, heap::unmapped, 0));
  lock.unlock();
  cudaError_t const answer = range_.unmap(part, part_bytes);
  lock.lock();
  counters_.virtual_memory_calls = range_.calls();
  if (answer != cudaSuccess) {
    node = heap_.find_in(heap::unmapped, part);
    static_cast<void>(heap_.move_part(node, part, part_bytes, heap::ready, 0));
  }
  check(answer, "cuMemUnmap", where);
  return true;
}

/// Finds where the fewest granules must be mapped to have that many bytes in a row which the stream
/// may use. Ties: the lowest address.
inline memory_pool::place memory_pool::find_place(std::uint32_t own, std::uint64_t bytes,
                                                  std::uint64_t alignment) const noexcept {
  std::uint64_t const granule = range_.granule_bytes();
  auto const usable = [&](std::uint32_t n) {
    return n != heap::none && (heap_.at(n).list == own || heap_.at(n).list == heap::ready);
  };
  place best;
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
      continue;  // needs no mapping: join_and_take()'s, had it looked so far
    place here;
    here.hole = hole;
    here.begin = first;
    here.end = first + bytes;
    here.map_address = first > low ? first & ~(granule - 1) : low;
    std::uint64_t const last = (here.end + (granule - 1)) & ~(granule - 1);
    here.map_bytes = (last < high ? last : high) - here.map_address;
    if (best.map_bytes == 0 || here.map_bytes < best.map_bytes ||
        (here.map_bytes == best.map_bytes && here.map_address < best.map_address)) {
      best = here;
    }
  }
  return best;
}

/// Moves the free memory at both sides of a place, as far as it is needed, to the list that is held
/// back.
/// @return whether some was the stream's own
inline bool memory_pool::hold_back(place const& found, std::uint32_t own) {
  bool any_own = false;
  std::uint64_t const low = heap_.at(found.hole).address;
  std::uint64_t const high = low + heap_.at(found.hole).bytes;
  auto const hold = [&](std::uint32_t n, std::uint64_t begin, std::uint64_t end) {
    any_own = any_own || heap_.at(n).list == own;
    return heap_.move_part(n, begin, end - begin, heap::held_back, 0);
  };
  // A part held back merges with the one held before it, and ends where that begins.
  std::uint32_t n = heap_.at(found.hole).previous;
  for (std::uint64_t end = low; end > found.begin; n = heap_.at(n).previous) {
    std::uint64_t const begin =
        heap_.at(n).address > found.begin ? heap_.at(n).address : found.begin;
    n = hold(n, begin, end);
    end = begin;
  }
  n = heap_.at(found.hole).next;
  for (std::uint64_t begin = high; begin < found.end; n = heap_.at(n).next) {
    std::uint64_t const whole = heap_.at(n).address + heap_.at(n).bytes;
    std::uint64_t const end = whole < found.end ? whole : found.end;
    n = hold(n, begin, end);
    begin = end;
  }
  return any_own;
}

/// Joins free blocks of the stream with ready ones beside them where that makes room, and takes the
/// request from there.
inline void* memory_pool::join_and_take(std::uint32_t own, request wanted, source_location where) {
  unsigned steps = 4096;  // a miss must not take milliseconds because there are many holes
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
    std::uint64_t const padding = (~begin + 1) & (wanted.alignment - 1);
    std::uint64_t const bytes = end - begin;
    if (bytes < padding || bytes - padding < wanted.rounded_bytes) continue;
    if (best != heap::none && bytes >= best_bytes) continue;
    best = first;
    best_bytes = bytes;
  }
  if (best == heap::none) return nullptr;
  std::uint64_t const end = heap_.at(best).address + best_bytes;
  std::uint64_t const epoch = entries_[own].of_graph ? 0 : entries_[own].open_epoch;
  for (std::uint32_t n = best; n != heap::none && heap_.at(n).address < end; n = heap_.at(n).next) {
    if (heap_.at(n).list == heap::ready) heap_.move_whole(n, own, epoch);
  }
  return take(own, wanted, where);
}

/// The last attempt: brings together what is idle in pieces.
inline void* memory_pool::compact_and_take(pool_held& lock, std::uint32_t own, request wanted,
                                           source_location where) {
  if (range_.reserved()) {
    while (make_spare(lock, reserved_bytes_, where)) ++counters_.remaps;
  } else {
    release_segments(lock, 0, where);
  }
  return grow(lock, own, wanted, where);
}

WARPWRIGHT_END
