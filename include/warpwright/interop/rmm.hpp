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

#include <warpwright/memory/resources/callback.hpp>

#include <cstddef>
#include <new>

WARPWRIGHT_BEGIN

namespace detail {

// RMM's resources require that their device is current, and that a block is freed with the
// alignment of its allocation: it is always 256 bytes.
struct rmm_allocate {
  ::rmm::device_async_resource_ref upstream;
  device_id device;
  void* operator()(stream_ref stream, std::size_t bytes) {
    scoped_device const scope{device};
    try {
#if CCCL_VERSION >= 3001000
      return upstream.allocate(::cuda::stream_ref{stream.get()}, bytes, 256);
#else
      return upstream.allocate_async(bytes, 256, ::cuda::stream_ref{stream.get()});
#endif
    } catch (std::bad_alloc const&) {  // rmm::out_of_memory, rmm::bad_alloc
      return nullptr;
    } catch (::cuda::cuda_error const& error) {  // what CCCL's own resources throw
      if (error.status() != cudaErrorMemoryAllocation) throw;
      return nullptr;
    }
  }
};
struct rmm_deallocate {
  ::rmm::device_async_resource_ref upstream;
  device_id device;
  void operator()(stream_ref stream, void* pointer, std::size_t bytes) {
    scoped_device const scope{device};
#if CCCL_VERSION >= 3001000
    upstream.deallocate(::cuda::stream_ref{stream.get()}, pointer, bytes, 256);
#else
    upstream.deallocate_async(pointer, bytes, 256, ::cuda::stream_ref{stream.get()});
#endif
  }
};

}  // namespace detail

/// A resource of RMM, or any other cuda::mr resource of device memory, with memory_pool's
/// interface: an upstream for this library's adaptors and buffers. It is a callback_resource over
/// RMM's.
///
/// RMM is always asked for an alignment of 256 bytes, which all its resources have; more is cut out
/// of a larger block here.
/// @pre RMM's resource outlives this one and all its blocks.
/// **Threads:** as many as RMM's resource allows. **Capture:** as RMM's resource.
/// **Cost:** RMM's, and the CUDA calls that make the device current, as RMM's resources require.
class rmm_memory_resource : public callback_resource<detail::rmm_allocate, detail::rmm_deallocate> {
 public:
  /// Creates a resource.
  /// @param upstream  RMM's; a device_memory_resource* of older versions is passed as *pointer
  /// @param device    the device of its memory
  rmm_memory_resource(::rmm::device_async_resource_ref upstream, device_id device)
      : callback_resource<detail::rmm_allocate, detail::rmm_deallocate>{
            device, detail::rmm_allocate{upstream, device},
            detail::rmm_deallocate{upstream, device}} {}
};

WARPWRIGHT_END
