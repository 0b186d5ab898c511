// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/memory/detail/resource.hpp>

#include <cstddef>
#include <cstdlib>

WARPWRIGHT_BEGIN

/// Pageable host memory with the pool's interface, requested from the C library at each call: the
/// second upstream of a fallback_adaptor behind page-locked memory. Copies from and to it are
/// slower, and a cudaMemcpyAsync with it may block.
/// **Threads:** any number may call any member at once.
/// **Capture:** deallocating on a capturing stream is not legal.
/// **Cost:** a deallocation waits for the stream.
class pageable_memory_resource : public detail::memory_interface<pageable_memory_resource>,
                                 private detail::noncopyable {
 public:
  pageable_memory_resource() noexcept = default;

  /// @return -2, which is not a device: memory_report::device of pageable host memory
  [[nodiscard]] device_id device() const noexcept { return device_id{-2}; }
  /// @return the live bytes
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_bytes_.load(detail::memory_order::relaxed);
  }
  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t max_alignment_bytes = std::size_t{2} << 20U;

 private:
  friend class detail::memory_interface<pageable_memory_resource>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::require_alignment("pageable_memory_resource", request.alignment, max_alignment_bytes,
                              request.where);
    std::size_t const alignment = request.alignment < block_alignment_bytes
                                      ? std::size_t{block_alignment_bytes}
                                      : request.alignment;
    void* pointer = nullptr;
    if (posix_memalign(&pointer, alignment, request.bytes) != 0) {
      return detail::fail_request<Throws>(request, live_bytes(), device());
    }
    live_bytes_.fetch_add(request.bytes, detail::memory_order::relaxed);
    return pointer;
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::check_not_capturing("pageable_memory_resource", "deallocate", stream, where);
    stream.synchronize(where);
    std::free(pointer);
    live_bytes_.fetch_sub(bytes, detail::memory_order::relaxed);
  }

  detail::atomic<std::size_t> live_bytes_;
};

WARPWRIGHT_END
