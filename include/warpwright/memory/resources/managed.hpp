// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/resource.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Managed memory (cudaMallocManaged) with the pool's interface, requested from CUDA at each call:
/// the second upstream of a fallback_adaptor behind device memory, since it may exceed the device's
/// memory.
///
/// The host may access it, too; on a device without concurrent managed access only while the device
/// is idle.
/// **Threads:** any number may call any member at once.
/// **Capture:** deallocating on a capturing stream is not legal.
/// **Cost:** each call is a CUDA call of many microseconds, and a deallocation waits for the
/// stream. An alignment above 256 bytes costs as many bytes more.
class managed_memory_resource : public detail::unpooled_resource<managed_memory_resource> {
 public:
  /// Creates a resource.
  /// @param device  the device that uses the memory first
  explicit managed_memory_resource(device_id device) noexcept
      : detail::unpooled_resource<managed_memory_resource>{device} {}

 private:
  friend class detail::unpooled_resource<managed_memory_resource>;
  static constexpr char const* name = "managed_memory_resource";
  static constexpr char const* call_name = "cudaMallocManaged";
  static cudaError_t call(void** pointer, std::size_t bytes) noexcept {
    return cudaMallocManaged(pointer, bytes, cudaMemAttachGlobal);
  }
};

WARPWRIGHT_END
