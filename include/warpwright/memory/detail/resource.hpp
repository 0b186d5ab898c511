// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the resources share: checks of the alignment, the figures of an out_of_memory, and
// alignments above the one that the source of the memory guarantees.
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/alignment.hpp>
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

/// Blocks with an alignment above 256 bytes, which CUDA's addresses have: the aligned parts of
/// larger blocks, by address.
/// **Threads:** any number. **Cost:** up to 256 bytes nothing for an allocation, and one atomic
/// load for a deallocation; above, a mutex and a look-up.
class aligned_blocks {
 public:
  static constexpr std::size_t cuda_alignment_bytes = 256;  // CUDA C++ Programming Guide, 5.3.2
  static constexpr std::size_t max_alignment_bytes = std::size_t{1} << 30U;

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

/// A resource that requests every block from CUDA and returns it with cudaFree.
/// @tparam Self  has the class's name as `name`, that of its CUDA call as `call_name`, and the call
///   as call(void** pointer, std::size_t bytes)
template <class Self>
class unpooled_resource : public memory_interface<Self>, private noncopyable {
 public:
  /// @return the device
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return the live bytes, as requested
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_bytes_.load(memory_order::relaxed);
  }
  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t max_alignment_bytes = aligned_blocks::max_alignment_bytes;

 protected:
  explicit unpooled_resource(device_id device) noexcept : device_{device} {}
  ~unpooled_resource() = default;

 private:
  friend class memory_interface<Self>;

  template <bool Throws>
  void* do_allocate(memory_request const& request) {
    require_alignment(Self::name, request.alignment, max_alignment_bytes, request.where);
    scoped_device const scope{device_, request.where};
    relaxed_capture_mode const relaxed{request.where};
    return aligned_.allocate(request, [&](std::size_t whole_bytes) -> void* {
      void* pointer = nullptr;
      cudaError_t const result = Self::call(&pointer, whole_bytes);
      if (result == cudaErrorMemoryAllocation) {
        discard(result);
        return fail_request<Throws>(request, live_bytes(), device_);
      }
      check(result, Self::call_name, request.where);
      live_bytes_.fetch_add(request.bytes, memory_order::relaxed);
      return pointer;
    });
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    check_not_capturing(Self::name, "deallocate", stream, where);
    stream.synchronize(where);  // work on the stream may still use the block
    scoped_device const scope{device_, where};
    relaxed_capture_mode const relaxed{where};
    aligned_.deallocate(Self::name, pointer, bytes, where, [&](void* whole, std::size_t) {
      check(cudaFree(whole), "cudaFree", where);
      live_bytes_.fetch_sub(bytes, memory_order::relaxed);
    });
  }

  device_id device_;
  atomic<std::size_t> live_bytes_;
  aligned_blocks aligned_;
};

}  // namespace detail

WARPWRIGHT_END
