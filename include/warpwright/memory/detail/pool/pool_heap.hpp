// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/memory/detail/driver.hpp>
#include <warpwright/memory/detail/heap/block_heap.hpp>
#include <warpwright/memory/detail/pool/pool_settings.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The heap of a memory_pool and its lock, shared by the parts of the pool.
///
/// `lock` is held only while the members behind it are read or written, never across a CUDA call. A
/// parameter of type heap_guard is the caller's hold on it; a function that takes one may release
/// it and take it again, and requires that the pool's slow path is serialised.
struct pool_heap {
  driver_calls driver;  // not written after the pool's construction

  mutable spin_lock lock;
  block_heap blocks{true};
  pool_statistics counters;
  // Freed, but kept for graphs or until streams have completed: live blocks of the heap.
  std::uint64_t deferred_bytes = 0;
  std::size_t deferred_blocks = 0;

  /// The tag of a block that is freed but not reusable yet.
  static constexpr std::uint32_t deferred_free = ~std::uint32_t{0};

  [[nodiscard]] std::uint64_t live_bytes() const noexcept {
    return blocks.live_bytes() - deferred_bytes;
  }
  void set_reserved(std::uint64_t bytes) noexcept {
    counters.reserved_bytes = bytes;
    if (bytes > counters.reserved_peak_bytes) counters.reserved_peak_bytes = bytes;
  }
  /// @return the live block that starts at the address, and is not freed yet; none if there is none
  [[nodiscard]] std::uint32_t find_live(std::uint64_t address) const noexcept {
    std::uint32_t const node = blocks.find(address);
    if (node == block_heap::none || blocks.at(node).tag == deferred_free) return block_heap::none;
    return node;
  }
};

using heap_guard = unique_lock<spin_lock>;

/// Releases the heap's lock for the scope of a CUDA call, so that hits of other threads proceed.
/// What was read from the heap before may have changed after.
class unlocked : noncopyable {
 public:
  explicit unlocked(heap_guard& lock) noexcept : lock_{lock} { lock_.unlock(); }
  ~unlocked() { lock_.lock(); }

 private:
  heap_guard& lock_;
};

/// As relaxed_capture_mode, through the driver.
class relaxed_driver_mode : noncopyable {
 public:
  /// @param change  if not, has no effect
  explicit relaxed_driver_mode(driver_calls const& driver, bool change = true) noexcept
      : driver_{driver}, status_{change ? driver.exchange(&mode_) : cudaErrorNotReady} {
    discard(status_);
  }
  ~relaxed_driver_mode() {
    if (allowed()) discard(driver_.exchange(&mode_));
  }
  [[nodiscard]] bool allowed() const noexcept { return status_ == cudaSuccess; }
  void check_mode(source_location where) const {
    check(status_, "cudaThreadExchangeStreamCaptureMode", where);
  }

 private:
  driver_calls const& driver_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  cudaError_t status_;
};

/// One allocation: what was asked for, and what a block must have.
struct allocation_request {
  std::uint64_t bytes;
  std::uint64_t rounded_bytes;  // a multiple of block_heap::granule_bytes
  std::uint64_t alignment;
};

inline std::uint64_t address_of(void const* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}
inline void* pointer_to(std::uint64_t address) noexcept { return reinterpret_cast<void*>(address); }

/// The code of a call for a stream that does not exist any more.
inline bool tells_of_destroyed_stream(cudaError_t result) noexcept {
  return result == cudaErrorInvalidResourceHandle || result == cudaErrorContextIsDestroyed;
}

/// Whether a stream that a pool remembers was destroyed.
inline bool is_gone(driver_calls const& driver, cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const result = driver.is_capturing(stream, &status);
  discard(result);
  return tells_of_destroyed_stream(result);
}

/// As check(), for a call that names a stream.
inline void check_of_stream(cudaError_t result, char const* api, source_location where) {
  if (result == cudaSuccess) return;
  throw_cuda_error(result, api, where,
                   tells_of_destroyed_stream(result)
                       ? "the stream was probably destroyed: declare streams above the pool, or "
                         "call its retire(stream) before a stream's end"
                       : nullptr);
}

/// A stream's id. @pre it is not capturing: the query would invalidate the capture
inline std::uint64_t id_of(driver_calls const& driver, stream_ref stream, source_location where) {
  if (stream.has_id()) return stream.id(where);
  unsigned long long id = 0;
  // The driver fails on a thread without a context; the runtime creates one.
  cudaError_t const result = driver.id(stream.get(), &id);
  if (result == cudaSuccess) return id;
  discard(result);
  check_of_stream(cudaStreamGetId(stream.get(), &id), "cudaStreamGetId", where);
  return id;
}

/// Whether the caller's stream is capturing. A legacy default stream never is, but must not be used
/// while a blocking stream captures.
inline bool is_capturing(driver_calls const& driver, stream_ref stream, source_location where) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const result = driver.is_capturing(stream.get(), &status);
  if (result == cudaSuccess) return status != cudaStreamCaptureStatusNone;
  if (tells_of_destroyed_stream(result)) check_of_stream(result, "cudaStreamIsCapturing", where);
  discard(result);  // the runtime's call below tells
  return is_capturing(stream, where) && stream.get() != cudaStreamLegacy;
}

/// Whether a stream of another caller may be capturing, so that it must not be touched.
inline bool may_be_capturing(driver_calls const& driver, cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const result = driver.is_capturing(stream, &status);
  discard(result);
  return result != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

}  // namespace detail

WARPWRIGHT_END
