// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/block_books.hpp>

#include <cstddef>
#include <cstdlib>

WARPWRIGHT_BEGIN

namespace detail {

/// What a resource that keeps no free memory reports when there is none.
inline memory_report report_of_resource(std::size_t bytes, std::size_t live, int device) noexcept {
  memory_report report;
  report.requested_bytes = bytes;
  report.live_bytes = live;
  report.reserved_bytes = live;
  report.limit_bytes = ~std::size_t{0};
  report.device = device;
  return report;
}

inline void require_alignment(char const* who, memory_request const& request, std::size_t maximum) {
  if (is_power_of_two(request.alignment) && request.alignment <= maximum) return;
  throw_invalid_argument(text{who} + ": an alignment of " + request.alignment +
                             " bytes is not a power of two from 1 to " + maximum,
                         request.where);
}

}  // namespace detail

/// Managed memory (cudaMallocManaged) with the pool's interface, taken from CUDA at each call: the
/// second upstream of a fallback_adaptor behind device memory, since it may exceed the device's.
///
/// The host may use it too; on a device without concurrent managed access only while the device is
/// idle.
/// **Threads:** any number may call any member at once.
/// **Capture:** not legal to deallocate on a capturing stream.
/// **Cost:** each call is a CUDA call of many microseconds, and a deallocation waits for the
/// stream. A block of a larger alignment than 256 bytes takes as much more.
class managed_memory_resource : public detail::memory_interface<managed_memory_resource> {
 public:
  /// @param device  where the memory is first used
  explicit managed_memory_resource(device_id device) noexcept : device_{device} {}
  managed_memory_resource(managed_memory_resource const&) = delete;
  managed_memory_resource& operator=(managed_memory_resource const&) = delete;

  /// @return the device
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return what is handed out, in bytes
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return __atomic_load_n(&live_bytes_, __ATOMIC_RELAXED);
  }
  /// The largest alignment that allocate() takes.
  static constexpr std::size_t maximum_alignment_bytes = std::size_t{1} << 30U;

 private:
  friend class detail::memory_interface<managed_memory_resource>;

  template <bool Throws>
  void* take(detail::memory_request const& request) {
    detail::require_alignment("managed_memory_resource", request, maximum_alignment_bytes);
    scoped_device const scope{device_, request.where};
    detail::relaxed_capture_mode const relaxed{request.where};
    if (request.alignment > granted_alignment_bytes) return take_aligned<Throws>(request);
    return take_plain<Throws>(request, request.bytes);
  }
  // The aligned part of a larger block, which the books know by that.
  template <bool Throws>
  void* take_aligned(detail::memory_request const& request) {
    detail::block_books::place place{aligned_};
    std::size_t const more = request.alignment - granted_alignment_bytes;
    bool const too_much = request.bytes > ~std::size_t{0} - more;
    void* const whole =
        take_plain<Throws>(request, too_much ? request.bytes : request.bytes + more);
    if (whole == nullptr) return nullptr;
    std::uintptr_t const address = reinterpret_cast<std::uintptr_t>(whole);
    std::uintptr_t const aligned = (address + more) & ~(std::uintptr_t{request.alignment} - 1);
    auto* const pointer = static_cast<unsigned char*>(whole) + (aligned - address);
    place.fill(detail::booked_block{pointer, request.bytes, aligned - address, 0, request.where});
    __atomic_fetch_add(&aligned_count_, 1, __ATOMIC_RELAXED);
    return pointer;
  }
  // `whole_bytes` of CUDA, counted as what was asked for.
  template <bool Throws>
  void* take_plain(detail::memory_request const& request, std::size_t whole_bytes) {
    void* pointer = nullptr;
    cudaError_t const answer = cudaMallocManaged(&pointer, whole_bytes, cudaMemAttachGlobal);
    if (answer == cudaErrorMemoryAllocation) {
      detail::discard(answer);
      if constexpr (Throws) {
        throw out_of_memory{
            detail::report_of_resource(request.bytes, live_bytes(), device_.value()),
            request.where};
      }
      return nullptr;
    }
    check(answer, "cudaMallocManaged", request.where);
    __atomic_fetch_add(&live_bytes_, request.bytes, __ATOMIC_RELAXED);
    return pointer;
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::refuse_capture("managed_memory_resource", "deallocate", stream, where);
    stream.synchronize(where);
    scoped_device const scope{device_, where};
    detail::relaxed_capture_mode const relaxed{where};
    // Who frees an aligned block has been handed it, and so sees that there is one.
    if (__atomic_load_n(&aligned_count_, __ATOMIC_RELAXED) != 0) {
      detail::block_books::taken block{aligned_, pointer, where};
      if (block.found()) {
        block.require("managed_memory_resource", bytes, where);
        check(cudaFree(static_cast<unsigned char*>(pointer) - block.block().front_bytes),
              "cudaFree", where);
        block.gone();
        __atomic_fetch_sub(&aligned_count_, 1, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&live_bytes_, bytes, __ATOMIC_RELAXED);
        return;
      }
    }
    check(cudaFree(pointer), "cudaFree", where);
    __atomic_fetch_sub(&live_bytes_, bytes, __ATOMIC_RELAXED);
  }

  static constexpr std::size_t granted_alignment_bytes = 256;  // CUDA C++ Programming Guide, 5.3.2

  device_id device_;
  std::size_t live_bytes_ = 0;
  detail::block_books aligned_;
  std::uint64_t aligned_count_ = 0;
};

/// Ordinary host memory with the pool's interface, taken from the C library at each call: the
/// second upstream of a fallback_adaptor behind page-locked memory. Copies from and to it are
/// slower, and a cudaMemcpyAsync with it may block.
/// **Threads:** any number may call any member at once.
/// **Capture:** not legal to deallocate on a capturing stream.
/// **Cost:** a deallocation waits for the stream.
class pageable_memory_resource : public detail::memory_interface<pageable_memory_resource> {
 public:
  pageable_memory_resource() noexcept = default;
  pageable_memory_resource(pageable_memory_resource const&) = delete;
  pageable_memory_resource& operator=(pageable_memory_resource const&) = delete;

  /// @return -2, which is no device: memory_report::device of pageable host memory
  [[nodiscard]] device_id device() const noexcept { return device_id{-2}; }
  /// @return what is handed out, in bytes
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return __atomic_load_n(&live_bytes_, __ATOMIC_RELAXED);
  }
  /// The largest alignment that allocate() takes.
  static constexpr std::size_t maximum_alignment_bytes = std::size_t{2} << 20U;

 private:
  friend class detail::memory_interface<pageable_memory_resource>;

  template <bool Throws>
  void* take(detail::memory_request const& request) {
    detail::require_alignment("pageable_memory_resource", request, maximum_alignment_bytes);
    std::size_t const alignment = request.alignment < block_alignment_bytes
                                      ? std::size_t{block_alignment_bytes}
                                      : request.alignment;
    void* pointer = nullptr;
    if (posix_memalign(&pointer, alignment, request.bytes) != 0) {
      if constexpr (Throws) {
        throw out_of_memory{
            detail::report_of_resource(request.bytes, live_bytes(), device().value()),
            request.where};
      }
      return nullptr;
    }
    __atomic_fetch_add(&live_bytes_, request.bytes, __ATOMIC_RELAXED);
    return pointer;
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::refuse_capture("pageable_memory_resource", "deallocate", stream, where);
    stream.synchronize(where);
    std::free(pointer);
    __atomic_fetch_sub(&live_bytes_, bytes, __ATOMIC_RELAXED);
  }

  std::size_t live_bytes_ = 0;
};

/// Gives a pinned_pool, which allocates without a stream, the pool's interface:
/// pinned_memory_resource pinned{pool};
/// @tparam Pool  pinned_pool, or what has its interface
/// @pre The pool outlives the resource.
/// **Threads:** as the pool. **Capture:** as the pool: deallocating on a capturing stream is not
/// legal. **Cost:** the pool's.
template <class Pool>
class pinned_memory_resource : public detail::memory_interface<pinned_memory_resource<Pool>> {
 public:
  /// @param pool  where the memory comes from
  explicit pinned_memory_resource(Pool& pool) noexcept : pool_{pool} {}
  pinned_memory_resource(pinned_memory_resource const&) = delete;
  pinned_memory_resource& operator=(pinned_memory_resource const&) = delete;

  /// @return -1, which is no device: memory_report::device of page-locked host memory
  [[nodiscard]] device_id device() const noexcept { return device_id{-1}; }
  /// @return the pool
  [[nodiscard]] Pool& pool() const noexcept { return pool_; }

 private:
  friend class detail::memory_interface<pinned_memory_resource>;

  template <bool Throws>
  void* take(detail::memory_request const& request) {
    if constexpr (Throws) {
      return pool_.allocate(request.bytes, request.alignment, request.where);
    } else {
      return pool_.try_allocate(request.bytes, request.alignment, request.where);
    }
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    pool_.deallocate(stream, pointer, bytes, where);
  }

  Pool& pool_;
};

WARPWRIGHT_END
