// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Thrust vectors, and temporary storage for Thrust's algorithms, from a memory_pool. For nvcc only.
//
//   thrust::device_vector<int, ww::thrust_allocator<int>> v(n, {pool, stream});
//   thrust::sort(ww::thrust_policy(pool, stream), v.begin(), v.end());
#pragma once

#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>
#include <thrust/execution_policy.h>
#include <thrust/system/cuda/execution_policy.h>

#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/free_behind.hpp>

WARPWRIGHT_BEGIN

/// Allocates the memory of a thrust::device_vector from a pool.
///
/// Thrust runs a vector's own work (filling, growing, copying) on the default stream, regardless of
/// the allocator's stream. Therefore every stream may use this memory at once: allocating waits on
/// the host for `stream`, unless it is that default stream.
/// @pre The pool outlives the vectors. When a vector is destroyed or grows, other streams have
///   completed their work with its elements, or `stream` is ordered behind them.
/// **Threads:** as the pool. **Capture:** allocating throws std::invalid_argument while `stream` is
/// capturing, unless it is that default stream; deallocating is as the pool's.
template <class T, class Pool = memory_pool>
class thrust_allocator {
 public:
  using value_type = T;
  using pointer = thrust::device_ptr<T>;
  using const_pointer = thrust::device_ptr<T const>;
  using reference = thrust::device_reference<T>;
  using const_reference = thrust::device_reference<T const>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;
  template <class U>
  struct rebind {
    using other = thrust_allocator<U, Pool>;
  };

  /// Creates an allocator.
  /// @param pool    a class with memory_pool's interface
  /// @param stream  the stream on which memory is allocated and freed; a default stream is that of
  ///   the current device, and the per-thread one that of this thread, wherever the vector ends
  thrust_allocator(Pool& pool, stream_ref stream) noexcept : pool_{&pool}, stream_{stream} {}
  template <class U>
  thrust_allocator(thrust_allocator<U, Pool> const& other) noexcept
      : pool_{other.pool_}, stream_{other.stream_} {}

  /// @param size  number of elements
  /// @return device memory, not initialised, usable by every stream
  /// @throws out_of_memory, cuda_error, std::invalid_argument  as memory_pool::allocate()
  /// @throws std::invalid_argument  while the stream is capturing, unless it is the default stream
  [[nodiscard]] pointer allocate(size_type size) {
    constexpr std::size_t alignment = alignof(T) > 256 ? alignof(T) : 256;
    std::size_t const bytes = detail::bytes_for<T>(size);
    stream_ref const stream = stream_.here();
    detail::device_of_default const current{stream, stream_.device()};
    bool const waits = stream.get() != WARPWRIGHT_DEFAULT_STREAM;
    // Waiting would invalidate the capture, in which the block could not be freed either.
    if (waits) {
      detail::check_not_capturing("thrust_allocator", "allocate", stream,
                                  source_location::current());
    }
    void* const memory = pool_->allocate(stream, bytes, alignment);
    if (memory != nullptr && waits) {
      try {
        stream.synchronize();  // earlier work on the stream may still use the block
      } catch (...) {
        detail::free_behind(*pool_, stream_, memory, bytes);
        throw;
      }
    }
    return pointer{static_cast<T*>(memory)};
  }
  /// Ignores errors, since destructors call it: a block that the pool rejects stays live there.
  void deallocate(pointer elements, size_type size) noexcept {
    if (elements.get() == nullptr) return;
    detail::free_behind(*pool_, stream_, elements.get(), detail::bytes_for<T>(size));
  }

  /// @return the pool
  [[nodiscard]] Pool& pool() const noexcept { return *pool_; }
  /// @return the stream on which memory is allocated and freed
  [[nodiscard]] stream_ref stream() const noexcept { return stream_.stream(); }

  /// Whether memory of one can be freed through the other.
  friend bool operator==(thrust_allocator const& a, thrust_allocator const& b) noexcept {
    return a.pool_ == b.pool_ && a.stream_ == b.stream_;
  }
  friend bool operator!=(thrust_allocator const& a, thrust_allocator const& b) noexcept {
    return !(a == b);
  }

 private:
  template <class U, class P>
  friend class thrust_allocator;

  Pool* pool_;
  detail::named_stream stream_;
};

/// Allocates the temporary storage of Thrust's algorithms: thrust::cuda::par(alloc).on(stream),
/// with the same stream. Do not use it for a vector: it waits for nothing, and its memory is for
/// work on its own stream only.
///
/// **Threads:** as the pool. **Capture:** as the pool; Thrust itself may wait for the stream, which
/// is not legal.
template <class Pool = memory_pool>
class thrust_temporary_allocator {
 public:
  using value_type = char;

  /// Creates an allocator.
  /// @param pool    a class with memory_pool's interface
  /// @param stream  the stream that the algorithms run on
  thrust_temporary_allocator(Pool& pool, stream_ref stream) noexcept
      : pool_{&pool}, stream_{stream} {}

  /// @throws out_of_memory, cuda_error, std::invalid_argument  as memory_pool::allocate()
  [[nodiscard]] char* allocate(std::size_t bytes) {
    return static_cast<char*>(pool_->allocate(stream_, bytes, 256));
  }
  /// Ignores errors: a block that the pool rejects stays live there.
  void deallocate(char* memory, std::size_t bytes) noexcept {
    try {
      pool_->deallocate(stream_, memory, bytes);
    } catch (...) {  // the pool counts the block as live
    }
  }

  friend bool operator==(thrust_temporary_allocator const& a,
                         thrust_temporary_allocator const& b) noexcept {
    return a.pool_ == b.pool_ && a.stream_ == b.stream_;
  }
  friend bool operator!=(thrust_temporary_allocator const& a,
                         thrust_temporary_allocator const& b) noexcept {
    return !(a == b);
  }

 private:
  Pool* pool_;
  stream_ref stream_;
};

/// Returns an execution policy that runs Thrust's algorithms on a stream, with temporary storage
/// from a pool.
/// @param pool    outlives the policy
/// @param stream  the stream that the algorithms run on
/// @return thrust::cuda::par with allocator and stream
/// **Stream:** algorithms run on `stream` and wait for it on the host, as Thrust does.
template <class Pool>
[[nodiscard]] auto thrust_policy(Pool& pool, stream_ref stream) {
  return thrust::cuda::par(thrust_temporary_allocator<Pool>{pool, stream}).on(stream.get());
}

/// As thrust_policy(), without the waits that Thrust can omit (thrust::cuda::par_nosync). Safe,
/// because the storage is freed in the stream's order.
template <class Pool>
[[nodiscard]] auto thrust_policy_nosync(Pool& pool, stream_ref stream) {
  return thrust::cuda::par_nosync(thrust_temporary_allocator<Pool>{pool, stream}).on(stream.get());
}

WARPWRIGHT_END
