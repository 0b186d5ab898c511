// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// RMM's resources as upstreams of this library, and this library's pools as resources of RMM.
//
//   ww::rmm_memory_resource upstream{rmm::mr::get_current_device_resource_ref(), device};
//   ww::limit_adaptor part{upstream, 64 << 20};                   // RMM's memory, our adaptor
//
//   ww::known_streams streams;                                    // of the streams that RMM uses
//   ww::pool_resource<> resource{pool, streams};
//   rmm::mr::set_current_device_resource(resource);               // our memory, RMM's containers
//
// Before the pool is destroyed, RMM's current resource is reset and RMM's containers are destroyed:
// RMM copies the pool_resource, but not the pool.
#pragma once

#if !__has_include(<rmm/resource_ref.hpp>)
#error \
    "warpwright/interop/rmm.hpp needs RMM's <rmm/resource_ref.hpp>: add RMM's include directory (of librmm from PyPI or conda), and that of the CCCL it brings, to the include path"
#endif

#include <rmm/resource_ref.hpp>
#include <warpwright/interop/cuda_mr.hpp>

#include <warpwright/memory/detail/aligned_blocks.hpp>

#include <cstddef>
#include <new>

WARPWRIGHT_BEGIN

/// A resource of RMM, or any other cuda::mr resource of device memory, with memory_pool's
/// interface: an upstream for this library's adaptors and buffers.
///
/// RMM is always asked for an alignment of 256 bytes, which all its resources have; more is cut out
/// of a larger block here.
/// @pre RMM's resource outlives this one and all its blocks.
/// **Threads:** as many as RMM's resource allows. **Capture:** as RMM's resource.
/// **Cost:** RMM's, and a query of the current device, which RMM's resources require to be theirs.
class rmm_memory_resource : public detail::memory_interface<rmm_memory_resource> {
 public:
  /// Creates a resource.
  /// @param upstream  RMM's; a device_memory_resource* of RMM before 25.12 is passed as *pointer
  /// @param device    the device of its memory
  rmm_memory_resource(::rmm::device_async_resource_ref upstream, device_id device) noexcept
      : upstream_{upstream}, device_{device} {}
  rmm_memory_resource(rmm_memory_resource const&) = delete;
  rmm_memory_resource& operator=(rmm_memory_resource const&) = delete;

  /// @return RMM's resource
  [[nodiscard]] ::rmm::device_async_resource_ref upstream() const noexcept { return upstream_; }
  /// @return the device of the memory
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return the live bytes that were allocated here, as requested
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_bytes_.load(detail::memory_order::relaxed);
  }
  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t maximum_alignment_bytes =
      detail::aligned_blocks::maximum_alignment_bytes;

 private:
  friend class detail::memory_interface<rmm_memory_resource>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::require_alignment("rmm_memory_resource", request, maximum_alignment_bytes);
    scoped_device const scope{device_, request.where};
    return aligned_.allocate(request, [&](std::size_t whole_bytes) -> void* {
      void* pointer = nullptr;
      try {
        pointer = allocate_whole(request.stream, whole_bytes);
      } catch (std::bad_alloc const& error) {  // rmm::out_of_memory, rmm::bad_alloc
        if constexpr (Throws) throw_out_of_memory(request, error.what());
        return nullptr;
      } catch (::cuda::cuda_error const& error) {  // what CCCL's own resources throw
        if (error.status() != cudaErrorMemoryAllocation) throw;
        if constexpr (Throws) throw_out_of_memory(request, error.what());
        return nullptr;
      }
      live_bytes_.fetch_add(request.bytes, detail::memory_order::relaxed);
      return pointer;
    });
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    scoped_device const scope{device_, where};
    aligned_.deallocate("rmm_memory_resource", pointer, bytes, where,
                        [&](void* whole, std::size_t whole_bytes) {
                          deallocate_whole(stream, whole, whole_bytes);
                          live_bytes_.fetch_sub(bytes, detail::memory_order::relaxed);
                        });
  }

  void* allocate_whole(stream_ref stream, std::size_t bytes) {
    ::cuda::stream_ref const on{stream.get()};
#if CCCL_VERSION >= 3001000
    return upstream_.allocate(on, bytes, block_alignment_bytes);
#else
    return upstream_.allocate_async(bytes, block_alignment_bytes, on);
#endif
  }
  void deallocate_whole(stream_ref stream, void* pointer, std::size_t bytes) {
    ::cuda::stream_ref const on{stream.get()};
#if CCCL_VERSION >= 3001000
    upstream_.deallocate(on, pointer, bytes, block_alignment_bytes);
#else
    upstream_.deallocate_async(pointer, bytes, block_alignment_bytes, on);
#endif
  }
  [[noreturn]] WARPWRIGHT_COLD void throw_out_of_memory(detail::memory_request const& request,
                                                        char const* text) const {
    throw out_of_memory{detail::resource_report(request.bytes, live_bytes(), device_.value()),
                        request.where, detail::text{"; RMM: "} + text};
  }

  ::rmm::device_async_resource_ref upstream_;
  device_id device_;
  detail::atomic<std::size_t> live_bytes_;
  detail::aligned_blocks aligned_;
};

WARPWRIGHT_END
