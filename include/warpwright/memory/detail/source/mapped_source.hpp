// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pool/epoch_tracker.hpp>
#include <warpwright/memory/detail/source/growth_policy.hpp>
#include <warpwright/memory/detail/source/virtual_range.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A pool's memory in one address range: the addresses are the heap's only segment, those without
/// memory its `unmapped` list.
///
/// To grow, memory is mapped behind or between free blocks that the stream may use, where the least
/// is missing. The memory is, in this order: what is not mapped anywhere, new memory within the
/// policy's slack, whole chunks that are idle in ready blocks at other addresses, new memory up to
/// the limit.
class mapped_source {
 public:
  /// How far a step may go: idle memory alone; new memory within the slack alone; idle memory too;
  /// new memory up to the limit too.
  enum class extent { only_moving, within_slack, by_moving, up_to_limit };

  mapped_source(pool_heap& heap, epoch_tracker& streams) noexcept
      : heap_{heap}, streams_{streams} {}

  /// Reserves the addresses.
  /// @param limit_bytes     of reserved memory
  /// @param capacity_bytes  the limit, or the device's memory if that is smaller
  /// @return false when the device or its driver does not support it
  bool open(device_id device, slack_options const& slack, std::uint64_t limit_bytes,
            std::uint64_t capacity_bytes, std::uint64_t alignment_bytes) noexcept;
  void close() noexcept { range_.reset(); }
  [[nodiscard]] bool is_open() const noexcept { return range_.reserved(); }
  [[nodiscard]] std::uint64_t address() const noexcept { return range_.address(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return range_.bytes(); }
  [[nodiscard]] std::uint64_t granule_bytes() const noexcept { return range_.granule_bytes(); }
  [[nodiscard]] std::uint64_t reserved_bytes() const noexcept { return range_.physical_bytes(); }

  /// Makes at least `run_bytes` consecutive bytes free for the stream, and allocates from there.
  /// @param own    the stream's list
  /// @param ahead  create more than is missing, as the policy says
  /// @return the block; none when there is not enough memory
  std::uint32_t grow(heap_guard& lock, std::uint32_t own, allocation_request const& request,
                     std::uint64_t run_bytes, extent how_far, bool ahead, source_location where);
  /// Maps `bytes` that every stream may use.
  void map_ready(heap_guard& lock, std::uint64_t bytes, source_location where);
  /// Unmaps all idle chunks.
  void unmap_all_idle(heap_guard& lock, source_location where);
  /// Returns idle chunks to the device while more than `keep_bytes` are reserved.
  void release(heap_guard& lock, std::uint64_t keep_bytes, source_location where);

 private:
  struct mapping_plan {  // where to map memory, and the range of free blocks that this completes
    std::uint32_t hole = block_heap::none;
    std::uint64_t begin = 0, end = 0;
    std::uint64_t map_address = 0, map_bytes = 0;
    std::uint64_t room_bytes = 0;  // from map_address to the hole's end
  };
  /// Keeps the free blocks beside a hole in the reserved list, so that no hit allocates them and no
  /// move unmaps them while the lock is released.
  class reserved_neighbours;

  [[nodiscard]] bool usable(std::uint32_t node, std::uint32_t own) const noexcept;
  [[nodiscard]] mapping_plan find_place(std::uint32_t own, std::uint64_t bytes,
                                        std::uint64_t alignment, bool at_end) const noexcept;
  std::uint64_t map(heap_guard& lock, mapping_plan const& plan, extent how_far, bool ahead,
                    source_location where);
  std::uint64_t supply(heap_guard& lock, std::uint64_t needed, std::uint64_t room, extent how_far,
                       bool ahead, source_location where);
  [[nodiscard]] std::uint64_t growth_within_slack(std::uint64_t needed, std::uint64_t room,
                                                  bool ahead) const noexcept;
  std::uint64_t move_idle(heap_guard& lock, std::uint64_t needed, std::uint64_t room,
                          source_location where);
  bool create_chunks(heap_guard& lock, std::uint64_t bytes, source_location where);
  bool unmap_idle(heap_guard& lock, std::uint64_t bytes, source_location where);
  void count_calls() noexcept;

  pool_heap& heap_;
  epoch_tracker& streams_;
  virtual_range range_;  // used by the serialised slow path alone
  growth_policy policy_;
  std::uint64_t limit_bytes_ = 0;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/source/mapped_source_definitions.hpp>
#endif
