// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/aligned_blocks.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

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
  static constexpr std::size_t maximum_alignment_bytes = aligned_blocks::maximum_alignment_bytes;

 protected:
  explicit unpooled_resource(device_id device) noexcept : device_{device} {}
  ~unpooled_resource() = default;

 private:
  friend class memory_interface<Self>;

  template <bool Throws>
  void* do_allocate(memory_request const& request) {
    require_alignment(Self::name, request, maximum_alignment_bytes);
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
