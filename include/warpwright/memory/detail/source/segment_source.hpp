// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pool/pool_heap.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A pool's memory in segments, one cudaMalloc or cudaMallocAsync each. A segment can be returned,
/// or replaced by a larger one, only when it is completely free.
class segment_source {
 public:
  explicit segment_source(pool_heap& heap) noexcept : heap_{heap} {}
  ~segment_source() {
    if (stream_ != nullptr) discard(cudaStreamDestroy(stream_));
  }
  segment_source(segment_source const&) = delete;
  segment_source& operator=(segment_source const&) = delete;

  /// Requests segments by cudaMallocAsync from now on.
  void use_malloc_async(source_location where) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags",
          where);
  }
  [[nodiscard]] std::uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }

  /// Adds a segment that the request fits into.
  /// @param preferred_bytes  the size to request first; less where CUDA has not as much
  /// @param allowed_bytes    the most that may be reserved in addition
  /// @return false when that is not enough, or CUDA has not enough
  bool grow(heap_guard& lock, allocation_request const& request, std::uint64_t preferred_bytes,
            std::uint64_t allowed_bytes, source_location where) {
    allowed_bytes &= ~(block_heap::granule_bytes - 1);
    std::uint64_t needed = request.rounded_bytes + (request.alignment - block_heap::granule_bytes);
    if (needed < request.rounded_bytes || needed > allowed_bytes) return false;
    constexpr std::uint64_t page_bytes = std::uint64_t{2} << 20U;  // the driver's page size
    std::uint64_t rounded = 0;
    if (block_heap::round_up(needed, page_bytes, rounded) && rounded <= allowed_bytes) {
      needed = rounded;
    }
    if (!block_heap::round_up(preferred_bytes, page_bytes, preferred_bytes) ||
        preferred_bytes > allowed_bytes) {
      preferred_bytes = allowed_bytes;
    }
    // On a full device a large growth step must not make a small request fail.
    if (preferred_bytes > needed && add(lock, preferred_bytes, where)) return true;
    return add(lock, needed, where);
  }

  /// Adds a segment of ready memory.
  /// @return false when CUDA has not enough memory
  bool add(heap_guard& lock, std::uint64_t bytes, source_location where) {
    void* pointer = nullptr;
    char const* api = "cudaMalloc";
    cudaError_t result = cudaSuccess;
    {
      unlocked const released{lock};
      result = request(&pointer, static_cast<std::size_t>(bytes), &api);
      if (result == cudaErrorMemoryAllocation) discard(result);
    }
    if (result == cudaErrorMemoryAllocation) return false;
    check(result, api, where);
    try {
      heap_.blocks.add_segment(address_of(pointer), bytes);
    } catch (...) {
      unlocked const released{lock};
      discard(give_back(pointer));
      throw;
    }
    ++heap_.counters.upstream_allocations;
    reserved_bytes_ += bytes;
    heap_.set_reserved(reserved_bytes_);
    return true;
  }

  /// Returns free segments to CUDA, the largest first, while more than `keep_bytes` are reserved.
  void release(heap_guard& lock, std::uint64_t keep_bytes, source_location where) {
    while (reserved_bytes_ > keep_bytes) {
      block_heap::segment const s = heap_.blocks.remove_empty_segment(reserved_bytes_ - keep_bytes);
      if (s.bytes == 0) break;
      cudaError_t result = cudaSuccess;
      {
        unlocked const released{lock};
        result = give_back(pointer_to(s.address));
      }
      if (result != cudaSuccess) heap_.blocks.add_segment(s.address, s.bytes);
      check(result, stream_ != nullptr ? "cudaFreeAsync" : "cudaFree", where);
      ++heap_.counters.upstream_deallocations;
      reserved_bytes_ -= s.bytes;
      heap_.set_reserved(reserved_bytes_);
    }
  }

  /// Returns all segments. @pre no work uses them any more
  void close() noexcept {
    for (block_heap::segment const& s : heap_.blocks.segments()) {
      if (s.bytes != 0) discard(give_back(pointer_to(s.address)));
    }
    if (stream_ == nullptr) return;
    discard(cudaStreamSynchronize(stream_));
    discard(cudaStreamDestroy(stream_));
    stream_ = nullptr;
  }

 private:
  cudaError_t request(void** pointer, std::size_t bytes, char const** api) noexcept {
    if (stream_ == nullptr) return cudaMalloc(pointer, bytes);
    *api = "cudaMallocAsync";
    cudaError_t result = cudaMallocAsync(pointer, bytes, stream_);
    if (result != cudaSuccess) return result;
    // All streams may use the segment, so none is ordered behind the pool's own stream.
    *api = "cudaStreamSynchronize";
    result = cudaStreamSynchronize(stream_);
    if (result != cudaSuccess) discard(give_back(*pointer));
    return result;
  }
  cudaError_t give_back(void* pointer) noexcept {
    return stream_ != nullptr ? cudaFreeAsync(pointer, stream_) : cudaFree(pointer);
  }

  pool_heap& heap_;
  cudaStream_t stream_ = nullptr;  // null: cudaMalloc
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
