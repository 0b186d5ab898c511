// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/source/mapped_source.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void mapped_source::map_ready(heap_guard& lock,
                                                                std::uint64_t bytes,
                                                                source_location where) {
  static_cast<void>(grow(lock, block_heap::ready,
                         allocation_request{0, 0, block_heap::granule_bytes}, bytes,
                         extent::up_to_limit, false, where));
}

WARPWRIGHT_INLINE void mapped_source::unmap_all_idle(heap_guard& lock, source_location where) {
  while (unmap_idle(lock, ~std::uint64_t{0}, where)) ++heap_.counters.remaps;
}

WARPWRIGHT_INLINE bool mapped_source::usable(std::uint32_t node, std::uint32_t own) const noexcept {
  return node != block_heap::none &&
         (heap_.blocks.at(node).list == own || heap_.blocks.at(node).list == block_heap::ready);
}

WARPWRIGHT_INLINE void mapped_source::count_calls() noexcept {
  heap_.counters.virtual_memory_calls = range_.calls();
  heap_.counters.upstream_allocations = range_.created();
  heap_.counters.upstream_deallocations = range_.released();
  heap_.set_reserved(range_.physical_bytes());
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool mapped_source::open(device_id device,
                                                           slack_options const& slack,
                                                           std::uint64_t limit_bytes,
                                                           std::uint64_t capacity_bytes,
                                                           std::uint64_t alignment_bytes) noexcept {
  // Twice the capacity, because moved chunks leave holes in the range, plus room for the largest
  // alignment. Addresses are free.
  std::uint64_t const bytes = 2 * capacity_bytes + 2 * alignment_bytes;
  if (bytes < capacity_bytes || !range_.reserve(device, bytes)) return false;
  if (limit_bytes < range_.granule_bytes()) {  // not even one granule can be mapped
    range_.reset();
    return false;
  }
  limit_bytes_ = limit_bytes;
  policy_ = growth_policy{slack, capacity_bytes, range_.granule_bytes()};
  try {
    heap_.blocks.add_segment(range_.address(), range_.bytes(), block_heap::unmapped);
  } catch (...) {
    range_.reset();
  }
  return range_.reserved();
}

/// Finds the place where the least must be mapped to get `bytes` consecutive bytes that the stream
/// may use; of equals, the one with the lowest address.
/// @param at_end  behind all mapped memory, where chunks of any size fit
WARPWRIGHT_COLD WARPWRIGHT_INLINE mapped_source::mapping_plan mapped_source::find_place(
    std::uint32_t own, std::uint64_t bytes, std::uint64_t alignment, bool at_end) const noexcept {
  block_heap const& blocks = heap_.blocks;
  std::uint64_t const granule = range_.granule_bytes();
  mapping_plan best;
  for (std::uint32_t hole = blocks.oldest(block_heap::unmapped); hole != block_heap::none;
       hole = blocks.at(hole).age_next) {
    if (at_end && blocks.at(hole).next != block_heap::none) continue;
    std::uint64_t const low = blocks.at(hole).address;
    std::uint64_t const high = low + blocks.at(hole).bytes;
    std::uint64_t begin = low;
    for (std::uint32_t n = blocks.at(hole).previous; usable(n, own); n = blocks.at(n).previous) {
      begin = blocks.at(n).address;
    }
    std::uint64_t end = high;
    for (std::uint32_t n = blocks.at(hole).next; usable(n, own); n = blocks.at(n).next) {
      end = blocks.at(n).address + blocks.at(n).bytes;
    }
    std::uint64_t const first = (begin + (alignment - 1)) & ~(alignment - 1);
    if (first >= high || end - first < bytes) continue;
    if (first + bytes <= low) continue;  // needs no mapping; it was not found for its many blocks
    mapping_plan candidate;
    candidate.hole = hole;
    candidate.begin = first;
    candidate.end = first + bytes;
    candidate.map_address = first > low ? first & ~(granule - 1) : low;
    std::uint64_t const last = (candidate.end + (granule - 1)) & ~(granule - 1);
    candidate.map_bytes = (last < high ? last : high) - candidate.map_address;
    candidate.room_bytes = high - candidate.map_address;
    if (best.map_bytes == 0 || candidate.map_bytes < best.map_bytes ||
        (candidate.map_bytes == best.map_bytes && candidate.map_address < best.map_address)) {
      best = candidate;
    }
  }
  return best;
}

class mapped_source::reserved_neighbours : noncopyable {
 public:
  WARPWRIGHT_COLD reserved_neighbours(mapped_source& source, mapping_plan const& plan,
                                      std::uint32_t own)
      : source_{source}, own_{own}, map_address_{plan.map_address} {
    try {
      reserve(plan);
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~reserved_neighbours() { give_back(); }

 private:
  WARPWRIGHT_COLD void reserve(mapping_plan const& plan) {
    block_heap& blocks = source_.heap_.blocks;
    std::uint64_t const low = blocks.at(plan.hole).address;
    std::uint64_t const high = low + blocks.at(plan.hole).bytes;
    auto const take = [&](std::uint32_t n, std::uint64_t begin, std::uint64_t end) {
      (begin < low ? own_below_ : own_above_) |= blocks.at(n).list == own_;
      return blocks.move_part(n, begin, end - begin, block_heap::reserved_list, 0);
    };
    // A part merges with the part reserved before it, and ends where that one begins.
    std::uint32_t n = blocks.at(plan.hole).previous;
    for (std::uint64_t end = low; end > plan.begin; n = blocks.at(n).previous) {
      std::uint64_t const address = blocks.at(n).address;
      std::uint64_t const begin = address > plan.begin ? address : plan.begin;
      n = take(n, begin, end);
      end = begin;
    }
    n = blocks.at(plan.hole).next;
    for (std::uint64_t begin = high; begin < plan.end; n = blocks.at(n).next) {
      std::uint64_t const whole = blocks.at(n).address + blocks.at(n).bytes;
      std::uint64_t const end = whole < plan.end ? whole : plan.end;
      n = take(n, begin, end);
      begin = end;
    }
  }
  /// What is left of the stream's own memory returns to it; what lies behind that is new memory, or
  /// was ready before.
  WARPWRIGHT_COLD void give_back() noexcept {
    block_heap& blocks = source_.heap_.blocks;
    constexpr std::uint32_t reserved = block_heap::reserved_list;
    for (std::uint32_t n = blocks.oldest(reserved); n != block_heap::none;
         n = blocks.oldest(reserved)) {
      bool const of_stream = own_above_ || (own_below_ && blocks.at(n).address < map_address_);
      if (of_stream) {
        blocks.move_block(n, own_, source_.streams_.open_epoch(own_));
      } else {
        blocks.move_block(n, block_heap::ready, 0);
      }
    }
  }

  mapped_source& source_;
  std::uint32_t own_;
  std::uint64_t map_address_;
  bool own_below_ = false, own_above_ = false;  // parts came from the stream's own list
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t mapped_source::grow(
    heap_guard& lock, std::uint32_t own, allocation_request const& request, std::uint64_t run_bytes,
    extent how_far, bool ahead, source_location where) {
  for (bool const at_end : {false, true}) {
    mapping_plan const plan = find_place(own, run_bytes, request.alignment, at_end);
    if (plan.map_bytes == 0) return block_heap::none;
    reserved_neighbours const neighbours{*this, plan, own};
    if (map(lock, plan, how_far, ahead, where) == 0) continue;
    if (request.bytes == 0) return block_heap::none;
    return heap_.blocks.allocate(block_heap::reserved_list, request.rounded_bytes,
                                 request.alignment, true, request.bytes);
  }
  return block_heap::none;
}

/// Maps memory at the plan's address into the reserved list.
/// @return the number of bytes; 0 when not enough memory fits there
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint64_t mapped_source::map(heap_guard& lock,
                                                                   mapping_plan const& plan,
                                                                   extent how_far, bool ahead,
                                                                   source_location where) {
  std::uint64_t const bytes = supply(lock, plan.map_bytes, plan.room_bytes, how_far, ahead, where);
  if (bytes == 0) return 0;
  char const* api = nullptr;
  cudaError_t result = cudaSuccess;
  {
    unlocked const released{lock};
    result = range_.map(plan.map_address, &api);
  }
  count_calls();
  check(result, api, where);
  try {
    std::uint32_t const hole =
        heap_.blocks.find_free_containing(block_heap::unmapped, plan.map_address);
    static_cast<void>(
        heap_.blocks.move_part(hole, plan.map_address, bytes, block_heap::reserved_list, 0));
  } catch (...) {
    static_cast<void>(range_.unmap(plan.map_address, bytes));
    throw;
  }
  return bytes;
}

/// Selects spare chunks to map.
/// @param needed  bytes to map, a multiple of the granule
/// @param room    bytes that can be mapped there
/// @return the bytes selected, from `needed` to `room`; 0 when there are no such chunks
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint64_t mapped_source::supply(heap_guard& lock,
                                                                      std::uint64_t needed,
                                                                      std::uint64_t room,
                                                                      extent how_far, bool ahead,
                                                                      source_location where) {
  if (std::uint64_t const bytes = range_.select(needed, room)) return bytes;
  std::uint64_t const of_graphs = streams_.bytes_of_graphs();
  policy_.note_live(heap_.live_bytes() + of_graphs + needed);
  policy_.set_held(of_graphs != 0);
  if (how_far == extent::only_moving) return move_idle(lock, needed, room, where);
  std::uint64_t const growth = growth_within_slack(needed, room, ahead);
  if (growth != 0 && create_chunks(lock, growth, where)) {
    if (std::uint64_t const bytes = range_.select(needed, room)) return bytes;
  }
  if (how_far == extent::within_slack) return 0;
  if (std::uint64_t const bytes = move_idle(lock, needed, room, where)) return bytes;
  if (how_far == extent::by_moving || range_.spare_bytes() >= needed) return 0;
  std::uint64_t const missing = needed - range_.spare_bytes();
  if (missing > limit_bytes_ - range_.physical_bytes() || !create_chunks(lock, missing, where)) {
    return 0;
  }
  return range_.select(needed, room);
}

/// How much to create for supply(); 0 when that is not within the slack, or does not fit.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint64_t mapped_source::growth_within_slack(
    std::uint64_t needed, std::uint64_t room, bool ahead) const noexcept {
  // Where spare chunks do not fit, they are of no use to this request.
  std::uint64_t const spare = range_.spare_bytes() < needed ? range_.spare_bytes() : 0;
  std::uint64_t const headroom = limit_bytes_ - range_.physical_bytes();
  std::uint64_t growth = policy_.growth_bytes(needed - spare, range_.physical_bytes());
  if (growth > headroom) growth = headroom & ~(range_.granule_bytes() - 1);
  if (growth > room - spare) growth = room - spare;
  if (!ahead && growth > needed - spare) growth = needed - spare;
  return growth >= needed - spare ? growth : 0;
}

/// Selects chunks as supply(), after idle ones are unmapped until they suffice.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint64_t mapped_source::move_idle(heap_guard& lock,
                                                                         std::uint64_t needed,
                                                                         std::uint64_t room,
                                                                         source_location where) {
  while (unmap_idle(lock, needed, where)) {
    ++heap_.counters.remaps;
    if (range_.select(needed, room) != 0) {
      cudaError_t result = cudaSuccess;
      {
        unlocked const released{lock};
        result = range_.merge_selected(policy_.max_chunk_bytes());
      }
      count_calls();
      if (result != cudaErrorMemoryAllocation) check(result, "cuMemRelease", where);
      if (std::uint64_t const bytes = range_.select(needed, room)) return bytes;
    }
  }
  return 0;
}

/// @param bytes  a multiple of the granule
/// @return false when the device has not as much; what was created before stays spare
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool mapped_source::create_chunks(heap_guard& lock,
                                                                    std::uint64_t bytes,
                                                                    source_location where) {
  cudaError_t result = cudaSuccess;
  {
    unlocked const released{lock};
    result = range_.create(bytes, policy_.max_chunk_bytes());
  }
  count_calls();
  if (result != cudaErrorMemoryAllocation) check(result, "cuMemCreate", where);
  return result == cudaSuccess;
}

/// Unmaps the idle chunks of one ready block, with one call: those of the block with the fewest
/// that suffice, else of the block with the most.
/// @param bytes  the amount of spare memory to reach
/// @return false when no chunk is idle, or as much memory is spare
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool mapped_source::unmap_idle(heap_guard& lock,
                                                                 std::uint64_t bytes,
                                                                 source_location where) {
  block_heap& blocks = heap_.blocks;
  if (range_.spare_bytes() >= bytes) return false;
  std::uint64_t const missing = bytes - range_.spare_bytes();
  std::uint32_t best = block_heap::none;
  virtual_range::stretch idle;
  for (std::uint32_t n = blocks.oldest(block_heap::ready); n != block_heap::none;
       n = blocks.at(n).age_next) {
    if (blocks.at(n).bytes < range_.granule_bytes()) continue;
    std::uint64_t const address = blocks.at(n).address;
    auto const whole = range_.whole_chunks(address, address + blocks.at(n).bytes);
    if (whole.bytes() == 0) continue;
    bool const better = idle.bytes() < missing
                            ? whole.bytes() > idle.bytes()
                            : whole.bytes() >= missing && whole.bytes() < idle.bytes();
    if (better) {
      best = n;
      idle = whole;
    }
  }
  if (best == block_heap::none) return false;
  static_cast<void>(blocks.move_part(best, idle.begin, idle.bytes(), block_heap::unmapped, 0));
  cudaError_t result = cudaSuccess;
  {
    unlocked const released{lock};
    result = range_.unmap(idle.begin, idle.bytes());
  }
  count_calls();
  if (result != cudaSuccess) {
    std::uint32_t const node = blocks.find_free_containing(block_heap::unmapped, idle.begin);
    static_cast<void>(blocks.move_part(node, idle.begin, idle.bytes(), block_heap::ready, 0));
  }
  check(result, "cuMemUnmap", where);
  return true;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void mapped_source::release(heap_guard& lock,
                                                              std::uint64_t keep_bytes,
                                                              source_location where) {
  std::uint64_t const reserved = range_.physical_bytes();
  std::uint64_t const granule = range_.granule_bytes();
  std::uint64_t const surplus =
      reserved > keep_bytes ? (reserved - keep_bytes) & ~(granule - 1) : std::uint64_t{0};
  while (range_.spare_bytes() < surplus && unmap_idle(lock, surplus, where)) {
  }
  std::uint64_t const spare = range_.spare_bytes();
  if (spare == 0 || surplus == 0) return;
  cudaError_t result = cudaSuccess;
  {
    unlocked const released{lock};
    result = range_.release_spare(spare > surplus ? spare - surplus : 0);
  }
  count_calls();
  check(result, "cuMemRelease", where);
}

}  // namespace detail

WARPWRIGHT_END
