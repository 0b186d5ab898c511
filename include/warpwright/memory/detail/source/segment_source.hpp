// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/pool/pool_heap.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A pool's memory in segments, one cudaMalloc or cudaMallocAsync each. A segment can be returned,
/// or replaced by a larger one, only when it is completely free.
class segment_source : noncopyable {
 public:
  explicit segment_source(pool_heap& heap) noexcept : heap_{heap} {}
  ~segment_source();

  /// Requests segments by cudaMallocAsync from now on.
  void use_malloc_async(source_location where);
  [[nodiscard]] std::uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }

  /// Adds a segment that the request fits into.
  /// @param preferred_bytes  the size to request first; less where CUDA has not as much
  /// @param allowed_bytes    the most that may be reserved in addition
  /// @return false when that is not enough, or CUDA has not enough
  bool grow(heap_guard& lock, allocation_request const& request, std::uint64_t preferred_bytes,
            std::uint64_t allowed_bytes, source_location where);

  /// Adds a segment of ready memory.
  /// @return false when CUDA has not enough memory
  bool add(heap_guard& lock, std::uint64_t bytes, source_location where);

  /// Returns free segments to CUDA, the largest first, while more than `keep_bytes` are reserved.
  void release(heap_guard& lock, std::uint64_t keep_bytes, source_location where);

  /// Returns all segments. @pre no work uses them any more
  void close() noexcept;

 private:
  cudaError_t request(void** pointer, std::size_t bytes, char const** api) noexcept;
  cudaError_t give_back(void* pointer) noexcept;

  pool_heap& heap_;
  cudaStream_t stream_ = nullptr;  // null: cudaMalloc
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/source/segment_source_definitions.hpp>
#endif
