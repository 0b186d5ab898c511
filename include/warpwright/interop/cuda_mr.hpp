// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// warpwright's pools as CCCL memory resources (cuda::mr).
//
// CCCL 3.1 renamed the members of a resource: `allocate_async(bytes, alignment, stream)` became
// `allocate(stream, bytes, alignment)`, and `allocate(bytes, alignment)` became `allocate_sync`.
// The resources here have the members that the CCCL they are compiled with requires.
#pragma once

#if !__has_include(<cuda/memory_resource>)
#error \
    "warpwright/interop/cuda_mr.hpp needs CCCL's <cuda/memory_resource>: add <toolkit>/include/cccl, or CCCL of your own, to the include path"
#endif

#include <cuda/memory_resource>

#if !defined(CCCL_VERSION) || CCCL_VERSION < 2008000
#error "warpwright/interop/cuda_mr.hpp needs CCCL 2.8 or newer (CUDA Toolkit 12.9)"
#endif
#if CCCL_VERSION < 3001000 && !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#error \
    "warpwright/interop/cuda_mr.hpp: CCCL before 3.1 hides cuda::mr; define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE for the whole program"
#endif

#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/free_behind.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/stream/known_streams.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// Both sets of names over Derived's do_allocate(), do_deallocate(), do_allocate_sync() and
// do_deallocate_sync(). Deallocating never throws, since destructors call it: a block that the pool
// rejects stays live there.
template <class Derived, class Pool>
class cuda_resource {
 public:
  /// @return the pool
  [[nodiscard]] Pool& pool() const noexcept { return *pool_; }

  /// Whether memory of one can be freed through the other: whether they share the pool.
  friend bool operator==(Derived const& a, Derived const& b) noexcept {
    return &a.pool() == &b.pool();
  }
  friend bool operator!=(Derived const& a, Derived const& b) noexcept { return !(a == b); }

#if CCCL_VERSION >= 3001000
  /// Allocates memory for work on a stream. @throws as the pool's allocate()
  [[nodiscard]] void* allocate(::cuda::stream_ref stream, std::size_t bytes,
                               std::size_t alignment = ::cuda::mr::default_cuda_malloc_alignment) {
    return self().do_allocate(stream.get(), bytes, alignment);
  }
  /// Frees a block behind the work submitted to the stream so far. Ignores errors.
  void deallocate(::cuda::stream_ref stream, void* pointer, std::size_t bytes,
                  std::size_t = ::cuda::mr::default_cuda_malloc_alignment) noexcept {
    self().do_deallocate(stream.get(), pointer, bytes);
  }
  /// Allocates memory that every stream may use at once. @throws as the pool's allocate()
  [[nodiscard]] void* allocate_sync(
      std::size_t bytes, std::size_t alignment = ::cuda::mr::default_cuda_malloc_alignment) {
    return self().do_allocate_sync(bytes, alignment);
  }
  /// Frees a block that no work uses any more. Ignores errors.
  void deallocate_sync(void* pointer, std::size_t bytes,
                       std::size_t = ::cuda::mr::default_cuda_malloc_alignment) noexcept {
    self().do_deallocate_sync(pointer, bytes);
  }
#else
  /// Allocates memory for work on a stream. @throws as the pool's allocate()
  [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment,
                                     ::cuda::stream_ref stream) {
    return self().do_allocate(stream.get(), bytes, alignment);
  }
  [[nodiscard]] void* allocate_async(std::size_t bytes, ::cuda::stream_ref stream) {
    return self().do_allocate(stream.get(), bytes, ::cuda::mr::default_cuda_malloc_alignment);
  }
  /// Frees a block behind the work submitted to the stream so far. Ignores errors.
  void deallocate_async(void* pointer, std::size_t bytes, std::size_t,
                        ::cuda::stream_ref stream) noexcept {
    self().do_deallocate(stream.get(), pointer, bytes);
  }
  void deallocate_async(void* pointer, std::size_t bytes, ::cuda::stream_ref stream) noexcept {
    self().do_deallocate(stream.get(), pointer, bytes);
  }
  /// Allocates memory that every stream may use at once. @throws as the pool's allocate()
  [[nodiscard]] void* allocate(std::size_t bytes,
                               std::size_t alignment = ::cuda::mr::default_cuda_malloc_alignment) {
    return self().do_allocate_sync(bytes, alignment);
  }
  /// Frees a block that no work uses any more. Ignores errors.
  void deallocate(void* pointer, std::size_t bytes,
                  std::size_t = ::cuda::mr::default_cuda_malloc_alignment) noexcept {
    self().do_deallocate_sync(pointer, bytes);
  }
#endif

 protected:
  explicit cuda_resource(Pool& pool) noexcept : pool_{&pool} {}
  Pool* pool_;

 private:
  [[nodiscard]] Derived& self() noexcept { return static_cast<Derived&>(*this); }
};

}  // namespace detail

/// A memory_pool as a stream-ordered cuda::mr resource of device memory.
///
/// A cuda::stream_ref is a raw handle, whose id the pool queries at each call: the query takes
/// longer than a hit of the pool, and invalidates a capture that warpwright did not begin. With
/// known_streams, streams that were added are not queried; a stream must be removed there before it
/// is destroyed, otherwise memory is handed out too early.
///
/// Satisfies cuda::mr::resource with CCCL 3.1 and newer, cuda::mr::async_resource with older
/// versions. Copies are equal and share the pool.
/// @pre The pool outlives the resource and its copies, and the streams satisfy memory_pool's
///   precondition.
/// **Threads:** as the pool: any number at once. **Capture:** as the pool; allocating without a
/// stream argument, which waits, throws std::invalid_argument while the resource's stream captures.
template <class Pool = memory_pool>
class pool_resource : public detail::cuda_resource<pool_resource<Pool>, Pool> {
  using base = detail::cuda_resource<pool_resource, Pool>;

 public:
#if CCCL_VERSION >= 3002000
  using default_queries = ::cuda::mr::properties_list<::cuda::mr::device_accessible>;
#endif

  /// Creates a resource.
  /// @param pool    a class with memory_pool's allocate(), deallocate() and device()
  /// @param stream  the stream for calls without a stream argument; such an allocation waits on the
  ///   host for this stream. Default: the legacy default stream of the pool's device
  explicit pool_resource(Pool& pool, stream_ref stream = stream_ref::legacy_default()) noexcept
      : base{pool}, stream_{stream} {}
  /// Creates a resource that does not query the ids of the streams in `known`.
  /// @param pool    as above
  /// @param known   outlives the resource and its copies
  /// @param stream  as above
  pool_resource(Pool& pool, known_streams const& known,
                stream_ref stream = stream_ref::legacy_default()) noexcept
      : base{pool}, stream_{stream}, known_{&known} {}

  friend constexpr void get_property(pool_resource const&, ::cuda::mr::device_accessible) noexcept {
  }

 private:
  friend base;
  using base::pool_;

  [[nodiscard]] stream_ref resolved(stream_ref stream) const noexcept {
    return known_ == nullptr || stream.has_id() ? stream : known_->ref(stream.get());
  }
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
    return pool_->allocate(resolved(stream), bytes, alignment);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes) noexcept {
    detail::free_or_retry(*pool_, resolved(stream), pointer, bytes);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) {
    scoped_device const scope{pool_->device()};
    // Waiting would invalidate the capture, in which the block could not be freed either.
    detail::check_not_capturing("pool_resource", "allocate without a stream", stream_,
                                source_location::current());
    void* const pointer = pool_->allocate(resolved(stream_), bytes, alignment);
    try {
      stream_.synchronize();  // earlier work on the stream may still use the block
    } catch (...) {
      do_deallocate(stream_, pointer, bytes);
      throw;
    }
    return pointer;
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes) noexcept {
    try {
      scoped_device const scope{pool_->device()};
      detail::free_or_retry(*pool_, resolved(stream_), pointer, bytes);
    } catch (...) {
    }
  }

  stream_ref stream_;
  known_streams const* known_ = nullptr;
};

/// A pinned_pool as a cuda::mr resource of page-locked memory, for host and device.
///
/// Memory is usable at once, by the host and by every stream; memory freed with a stream is reused
/// when the stream has completed. Copies are equal and share the pool.
/// @pre The pool outlives the resource and its copies.
/// **Threads:** any number at once. **Capture:** as the pool.
class pinned_pool_resource : public detail::cuda_resource<pinned_pool_resource, pinned_pool> {
 public:
#if CCCL_VERSION >= 3002000
  using default_queries =
      ::cuda::mr::properties_list<::cuda::mr::device_accessible, ::cuda::mr::host_accessible>;
#endif

  /// Creates a resource.
  /// @param pool  rejects alignments above its max_alignment_bytes
  explicit pinned_pool_resource(pinned_pool& pool) noexcept : cuda_resource{pool} {}

  friend constexpr void get_property(pinned_pool_resource const&,
                                     ::cuda::mr::device_accessible) noexcept {}
  friend constexpr void get_property(pinned_pool_resource const&,
                                     ::cuda::mr::host_accessible) noexcept {}

 private:
  friend cuda_resource;

  void* do_allocate(stream_ref, std::size_t bytes, std::size_t alignment) {
    return pool_->allocate(bytes, alignment);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes) noexcept {
    detail::free_or_retry(*pool_, stream, pointer, bytes);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) {
    return pool_->allocate(bytes, alignment);
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes) noexcept {
    try {
      pool_->deallocate(pointer, bytes);
    } catch (...) {
    }
  }
};

WARPWRIGHT_END
