// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/resource.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Device memory with the pool's interface, requested from CUDA at each call (cudaMalloc,
/// cudaFree): to compare a pool with, to look for errors of memory with compute-sanitizer, and for
/// the few large blocks of a program that uses no pool.
///
/// **Threads:** any number may call any member at once.
/// **Stream:** the memory may be used on any stream at once; a deallocation waits on the host for
/// its stream, and cudaFree may synchronise the whole device.
/// **Capture:** allocating is legal and not captured: the block is not the graph's. Deallocating on
/// a capturing stream is not legal.
/// **Cost:** each call is a CUDA call of many microseconds. An alignment above 256 bytes costs as
/// many bytes more.
class cuda_malloc_resource : public detail::unpooled_resource<cuda_malloc_resource> {
 public:
  /// Creates a resource.
  /// @param device  the device of the memory
  explicit cuda_malloc_resource(device_id device) noexcept
      : detail::unpooled_resource<cuda_malloc_resource>{device} {}

 private:
  friend class detail::unpooled_resource<cuda_malloc_resource>;
  static constexpr char const* name = "cuda_malloc_resource";
  static constexpr char const* call_name = "cudaMalloc";
  static cudaError_t call(void** pointer, std::size_t bytes) noexcept {
    return cudaMalloc(pointer, bytes);
  }
};

WARPWRIGHT_END
