// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the resources share: checks of the alignment, the figures of an out_of_memory, and
// alignments above the one that the source of the memory guarantees.
#pragma once

#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/live_block_map.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// What a resource without free memory of its own does for want of more: throws out_of_memory, or
/// returns null.
template <bool Throws>
void* fail_request(memory_request const& request, std::size_t live_bytes, device_id device) {
  if constexpr (Throws) {
    throw out_of_memory{
        memory_report{request.bytes, live_bytes, live_bytes, 0, ~std::size_t{0}, device.value()},
        request.where};
  }
  return nullptr;
}

inline void require_alignment(char const* who, memory_request const& request, std::size_t maximum) {
  if (is_power_of_two(request.alignment) && request.alignment <= maximum) return;
  throw_invalid_argument(text{who} + ": an alignment of " + request.alignment +
                             " bytes is not a power of two from 1 to " + maximum,
                         request.where);
}

/// Blocks with an alignment above 256 bytes, which CUDA's addresses have: the aligned parts of
/// larger blocks, by address.
/// **Threads:** any number. **Cost:** up to 256 bytes nothing for an allocation, and one atomic
/// load for a deallocation; above, a mutex and a look-up.
class aligned_blocks {
 public:
  static constexpr std::size_t cuda_alignment_bytes = 256;  // CUDA C++ Programming Guide, 5.3.2
  static constexpr std::size_t maximum_alignment_bytes = std::size_t{1} << 30U;

  /// @param allocate_whole  takes the bytes to request and returns a block, or null or an exception
  template <class AllocateWhole>
  void* allocate(memory_request const& request, AllocateWhole&& allocate_whole) {
    if (request.alignment <= cuda_alignment_bytes) return allocate_whole(request.bytes);
    live_block_map::reservation entry{blocks_};
    std::size_t const more = request.alignment - cuda_alignment_bytes;
    bool const too_much = request.bytes > ~std::size_t{0} - more;
    void* const whole = allocate_whole(too_much ? request.bytes : request.bytes + more);
    if (whole == nullptr) return nullptr;
    std::uintptr_t const address = reinterpret_cast<std::uintptr_t>(whole);
    std::uintptr_t const aligned = (address + more) & ~(std::uintptr_t{request.alignment} - 1);
    auto* const pointer = static_cast<unsigned char*>(whole) + (aligned - address);
    entry.insert(
        live_block{pointer, request.bytes, aligned - address, request.bytes + more, request.where});
    count_.fetch_add(1, memory_order::relaxed);
    return pointer;
  }

  /// @param free_whole  takes the block and the bytes that were requested for it; if it throws, the
  ///   block is still live
  template <class FreeWhole>
  void deallocate(char const* who, void* pointer, std::size_t bytes, source_location where,
                  FreeWhole&& free_whole) {
    // Relaxed suffices: the caller received an aligned block after count_ was incremented.
    if (count_.load(memory_order::relaxed) != 0) {
      live_block_map::removal removed{blocks_, pointer, where};
      if (removed.found()) {
        removed.check(who, bytes, where);
        free_whole(static_cast<unsigned char*>(pointer) - removed.block().front_bytes,
                   static_cast<std::size_t>(removed.block().note));
        removed.commit();
        count_.fetch_sub(1, memory_order::relaxed);
        return;
      }
    }
    free_whole(pointer, bytes);
  }

 private:
  live_block_map blocks_;
  atomic<std::uint64_t> count_;
};

}  // namespace detail

WARPWRIGHT_END
