// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/atomic.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/live_block_map.hpp>

#include <cstddef>
#include <cstdlib>

WARPWRIGHT_BEGIN

namespace detail {

/// The report of a resource without free memory of its own.
inline memory_report resource_report(std::size_t bytes, std::size_t live, int device) noexcept {
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
class managed_memory_resource : public detail::memory_interface<managed_memory_resource> {
 public:
  /// Creates a resource.
  /// @param device  the device that uses the memory first
  explicit managed_memory_resource(device_id device) noexcept : device_{device} {}
  managed_memory_resource(managed_memory_resource const&) = delete;
  managed_memory_resource& operator=(managed_memory_resource const&) = delete;

  /// @return the device
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return the live bytes
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_bytes_.load(detail::memory_order::relaxed);
  }
  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t maximum_alignment_bytes = std::size_t{1} << 30U;

 private:
  friend class detail::memory_interface<managed_memory_resource>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::require_alignment("managed_memory_resource", request, maximum_alignment_bytes);
    scoped_device const scope{device_, request.where};
    detail::relaxed_capture_mode const relaxed{request.where};
    if (request.alignment > cuda_alignment_bytes) return allocate_aligned<Throws>(request);
    return allocate_managed<Throws>(request, request.bytes);
  }
  // The aligned part of a larger block, recorded in aligned_.
  template <bool Throws>
  void* allocate_aligned(detail::memory_request const& request) {
    detail::live_block_map::reservation entry{aligned_};
    std::size_t const more = request.alignment - cuda_alignment_bytes;
    bool const too_much = request.bytes > ~std::size_t{0} - more;
    void* const whole =
        allocate_managed<Throws>(request, too_much ? request.bytes : request.bytes + more);
    if (whole == nullptr) return nullptr;
    std::uintptr_t const address = reinterpret_cast<std::uintptr_t>(whole);
    std::uintptr_t const aligned = (address + more) & ~(std::uintptr_t{request.alignment} - 1);
    auto* const pointer = static_cast<unsigned char*>(whole) + (aligned - address);
    entry.insert(detail::live_block{pointer, request.bytes, aligned - address, 0, request.where});
    aligned_count_.fetch_add(1, detail::memory_order::relaxed);
    return pointer;
  }
  // Requests `whole_bytes` from CUDA and counts the bytes requested by the caller.
  template <bool Throws>
  void* allocate_managed(detail::memory_request const& request, std::size_t whole_bytes) {
    void* pointer = nullptr;
    cudaError_t const result = cudaMallocManaged(&pointer, whole_bytes, cudaMemAttachGlobal);
    if (result == cudaErrorMemoryAllocation) {
      detail::discard(result);
      if constexpr (Throws) {
        throw out_of_memory{detail::resource_report(request.bytes, live_bytes(), device_.value()),
                            request.where};
      }
      return nullptr;
    }
    check(result, "cudaMallocManaged", request.where);
    live_bytes_.fetch_add(request.bytes, detail::memory_order::relaxed);
    return pointer;
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::check_not_capturing("managed_memory_resource", "deallocate", stream, where);
    stream.synchronize(where);
    scoped_device const scope{device_, where};
    detail::relaxed_capture_mode const relaxed{where};
    // Relaxed suffices: the caller received an aligned block after aligned_count_ was incremented.
    if (aligned_count_.load(detail::memory_order::relaxed) != 0) {
      detail::live_block_map::removal removed{aligned_, pointer, where};
      if (removed.found()) {
        removed.check("managed_memory_resource", bytes, where);
        check(cudaFree(static_cast<unsigned char*>(pointer) - removed.block().front_bytes),
              "cudaFree", where);
        removed.commit();
        aligned_count_.fetch_sub(1, detail::memory_order::relaxed);
        live_bytes_.fetch_sub(bytes, detail::memory_order::relaxed);
        return;
      }
    }
    check(cudaFree(pointer), "cudaFree", where);
    live_bytes_.fetch_sub(bytes, detail::memory_order::relaxed);
  }

  static constexpr std::size_t cuda_alignment_bytes = 256;  // CUDA C++ Programming Guide, 5.3.2

  device_id device_;
  detail::atomic<std::size_t> live_bytes_;
  detail::live_block_map aligned_;
  detail::atomic<std::uint64_t> aligned_count_;
};

/// Pageable host memory with the pool's interface, requested from the C library at each call: the
/// second upstream of a fallback_adaptor behind page-locked memory. Copies from and to it are
/// slower, and a cudaMemcpyAsync with it may block.
/// **Threads:** any number may call any member at once.
/// **Capture:** deallocating on a capturing stream is not legal.
/// **Cost:** a deallocation waits for the stream.
class pageable_memory_resource : public detail::memory_interface<pageable_memory_resource> {
 public:
  pageable_memory_resource() noexcept = default;
  pageable_memory_resource(pageable_memory_resource const&) = delete;
  pageable_memory_resource& operator=(pageable_memory_resource const&) = delete;

  /// @return -2, which is not a device: memory_report::device of pageable host memory
  [[nodiscard]] device_id device() const noexcept { return device_id{-2}; }
  /// @return the live bytes
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_bytes_.load(detail::memory_order::relaxed);
  }
  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t maximum_alignment_bytes = std::size_t{2} << 20U;

 private:
  friend class detail::memory_interface<pageable_memory_resource>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::require_alignment("pageable_memory_resource", request, maximum_alignment_bytes);
    std::size_t const alignment = request.alignment < block_alignment_bytes
                                      ? std::size_t{block_alignment_bytes}
                                      : request.alignment;
    void* pointer = nullptr;
    if (posix_memalign(&pointer, alignment, request.bytes) != 0) {
      if constexpr (Throws) {
        throw out_of_memory{detail::resource_report(request.bytes, live_bytes(), device().value()),
                            request.where};
      }
      return nullptr;
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

/// Adapts a pinned_pool, which allocates without a stream, to memory_pool's interface:
/// pinned_memory_resource pinned{pool};
/// @tparam Pool  pinned_pool, or a class with its interface
/// @pre The pool outlives the resource.
/// **Threads:** as the pool. **Capture:** deallocating on a capturing stream is not legal.
/// **Cost:** the pool's.
template <class Pool>
class pinned_memory_resource : public detail::memory_interface<pinned_memory_resource<Pool>> {
 public:
  /// Creates a resource.
  /// @param pool  where the memory comes from
  explicit pinned_memory_resource(Pool& pool) noexcept : pool_{pool} {}
  pinned_memory_resource(pinned_memory_resource const&) = delete;
  pinned_memory_resource& operator=(pinned_memory_resource const&) = delete;

  /// @return -1, which is not a device: memory_report::device of page-locked host memory
  [[nodiscard]] device_id device() const noexcept { return device_id{-1}; }
  /// @return the pool
  [[nodiscard]] Pool& pool() const noexcept { return pool_; }

 private:
  friend class detail::memory_interface<pinned_memory_resource>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    if constexpr (Throws) {
      return pool_.allocate(request.bytes, request.alignment, request.where);
    } else {
      return pool_.try_allocate(request.bytes, request.alignment, request.where);
    }
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    pool_.deallocate(stream, pointer, bytes, where);
  }

  Pool& pool_;
};

WARPWRIGHT_END
