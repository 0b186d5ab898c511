// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/source/segment_source.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE segment_source::~segment_source() {
  if (stream_ != nullptr) discard(cudaStreamDestroy(stream_));
}

WARPWRIGHT_INLINE void segment_source::use_malloc_async(source_location where) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags",
        where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool segment_source::grow(heap_guard& lock,
                                                            allocation_request const& request,
                                                            std::uint64_t preferred_bytes,
                                                            std::uint64_t allowed_bytes,
                                                            source_location where) {
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

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool segment_source::add(heap_guard& lock, std::uint64_t bytes,
                                                           source_location where) {
  void* pointer = nullptr;
  char const* api = "cudaMalloc";
  cudaError_t result = cudaSuccess;
  {
    unlocked const released{lock};
    result = request(&pointer, bytes, &api);
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

WARPWRIGHT_COLD WARPWRIGHT_INLINE void segment_source::release(heap_guard& lock,
                                                               std::uint64_t keep_bytes,
                                                               source_location where) {
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

WARPWRIGHT_COLD WARPWRIGHT_INLINE void segment_source::close() noexcept {
  for (block_heap::segment const& s : heap_.blocks.segments()) {
    if (s.bytes != 0) discard(give_back(pointer_to(s.address)));
  }
  if (stream_ == nullptr) return;
  discard(cudaStreamSynchronize(stream_));
  discard(cudaStreamDestroy(stream_));
  stream_ = nullptr;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t segment_source::request(void** pointer,
                                                                      std::size_t bytes,
                                                                      char const** api) noexcept {
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

WARPWRIGHT_INLINE cudaError_t segment_source::give_back(void* pointer) noexcept {
  return stream_ != nullptr ? cudaFreeAsync(pointer, stream_) : cudaFree(pointer);
}

}  // namespace detail

WARPWRIGHT_END
