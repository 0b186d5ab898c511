// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// warpwright's pools as memory resources of CCCL (cuda::mr), for libraries that take one.
//
// CCCL 3.1 renamed what a resource must have: `allocate_async(bytes, alignment, stream)` became
// `allocate(stream, bytes, alignment)`, and `allocate(bytes, alignment)` became `allocate_sync`.
// The resources here speak the language of the CCCL that they are compiled with.
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

#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// The two spellings, over what `Derived` has: take(), give(), take_now() and give_now().
// Giving back never throws, as destructors call it: a block that a pool refuses stays live there.
template <class Derived>
class cuda_resource {
 public:
#if CCCL_VERSION >= 3001000
  /// Hands out memory for work on a stream. @throws as the pool's allocate()
  [[nodiscard]] void* allocate(::cuda::stream_ref stream, std::size_t bytes,
                               std::size_t alignment = ::cuda::mr::default_cuda_malloc_alignment) {
    return self().take(stream.get(), bytes, alignment);
  }
  /// Takes memory back behind the work given to the stream so far. Drops errors.
  void deallocate(::cuda::stream_ref stream, void* pointer, std::size_t bytes,
                  std::size_t = ::cuda::mr::default_cuda_malloc_alignment) noexcept {
    self().give(stream.get(), pointer, bytes);
  }
  /// Hands out memory that every stream may use at once. @throws as the pool's allocate()
  [[nodiscard]] void* allocate_sync(
      std::size_t bytes, std::size_t alignment = ::cuda::mr::default_cuda_malloc_alignment) {
    return self().take_now(bytes, alignment);
  }
  /// Takes memory back that no work uses any more. Drops errors.
  void deallocate_sync(void* pointer, std::size_t bytes,
                       std::size_t = ::cuda::mr::default_cuda_malloc_alignment) noexcept {
    self().give_now(pointer, bytes);
  }
#else
  /// Hands out memory for work on a stream. @throws as the pool's allocate()
  [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment,
                                     ::cuda::stream_ref stream) {
    return self().take(stream.get(), bytes, alignment);
  }
  [[nodiscard]] void* allocate_async(std::size_t bytes, ::cuda::stream_ref stream) {
    return self().take(stream.get(), bytes, ::cuda::mr::default_cuda_malloc_alignment);
  }
  /// Takes memory back behind the work given to the stream so far. Drops errors.
  void deallocate_async(void* pointer, std::size_t bytes, std::size_t,
                        ::cuda::stream_ref stream) noexcept {
    self().give(stream.get(), pointer, bytes);
  }
  void deallocate_async(void* pointer, std::size_t bytes, ::cuda::stream_ref stream) noexcept {
    self().give(stream.get(), pointer, bytes);
  }
  /// Hands out memory that every stream may use at once. @throws as the pool's allocate()
  [[nodiscard]] void* allocate(std::size_t bytes,
                               std::size_t alignment = ::cuda::mr::default_cuda_malloc_alignment) {
    return self().take_now(bytes, alignment);
  }
  /// Takes memory back that no work uses any more. Drops errors.
  void deallocate(void* pointer, std::size_t bytes,
                  std::size_t = ::cuda::mr::default_cuda_malloc_alignment) noexcept {
    self().give_now(pointer, bytes);
  }
#endif

 private:
  [[nodiscard]] Derived& self() noexcept { return static_cast<Derived&>(*this); }
};

}  // namespace detail

/// A memory_pool as a stream-ordered cuda::mr resource of device memory.
///
/// With CCCL 3.1 and newer it satisfies cuda::mr::resource, before cuda::mr::async_resource.
/// Copies are equal and share the pool.
/// @pre The pool outlives the resource and its copies, and the streams keep the pool's rules.
/// **Threads:** as the pool: any number at once. **Capture:** as the pool.
template <class Pool = memory_pool>
class pool_resource : public detail::cuda_resource<pool_resource<Pool>> {
 public:
#if CCCL_VERSION >= 3002000
  using default_queries = ::cuda::mr::properties_list<::cuda::mr::device_accessible>;
#endif

  /// @param pool    anything with memory_pool's allocate(), deallocate() and device()
  /// @param stream  where calls that name no stream take and give memory; such an allocation waits
  ///   on the host for this stream. Default: the legacy default stream of the pool's device
  explicit pool_resource(Pool& pool, stream_ref stream = stream_ref::legacy_default()) noexcept
      : pool_{&pool}, stream_{stream} {}

  /// @return the pool
  [[nodiscard]] Pool& pool() const noexcept { return *pool_; }

  /// Whether memory of one can be given back to the other: whether they share the pool.
  friend bool operator==(pool_resource const& a, pool_resource const& b) noexcept {
    return a.pool_ == b.pool_;
  }
  friend bool operator!=(pool_resource const& a, pool_resource const& b) noexcept {
    return !(a == b);
  }
  friend constexpr void get_property(pool_resource const&, ::cuda::mr::device_accessible) noexcept {
  }

 private:
  friend class detail::cuda_resource<pool_resource>;

  void* take(stream_ref stream, std::size_t bytes, std::size_t alignment) {
    return pool_->allocate(stream, bytes, alignment);
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes) noexcept {
    try {
      pool_->deallocate(stream, pointer, bytes);
    } catch (...) {  // callers are destructors; the pool counts the block as live
    }
  }
  void* take_now(std::size_t bytes, std::size_t alignment) {
    scoped_device const scope{pool_->device()};
    void* const pointer = pool_->allocate(stream_, bytes, alignment);
    try {
      stream_.synchronize();  // earlier work on the stream may still use the block
    } catch (...) {
      give(stream_, pointer, bytes);
      throw;
    }
    return pointer;
  }
  void give_now(void* pointer, std::size_t bytes) noexcept {
    try {
      scoped_device const scope{pool_->device()};
      pool_->deallocate(stream_, pointer, bytes);
    } catch (...) {
    }
  }

  Pool* pool_;
  stream_ref stream_;
};

/// A pinned_pool as a cuda::mr resource of page-locked memory, for host and device.
///
/// Memory is usable at once, by the host and by every stream; memory given back with a stream is
/// handed out again when the stream has passed. Copies are equal and share the pool.
/// @pre The pool outlives the resource and its copies.
/// **Threads:** any number at once. **Capture:** as the pool.
class pinned_pool_resource : public detail::cuda_resource<pinned_pool_resource> {
 public:
#if CCCL_VERSION >= 3002000
  using default_queries =
      ::cuda::mr::properties_list<::cuda::mr::device_accessible, ::cuda::mr::host_accessible>;
#endif

  /// @param pool  alignments above its maximum_alignment_bytes are refused
  explicit pinned_pool_resource(pinned_pool& pool) noexcept : pool_{&pool} {}

  /// @return the pool
  [[nodiscard]] pinned_pool& pool() const noexcept { return *pool_; }

  /// Whether memory of one can be given back to the other: whether they share the pool.
  friend bool operator==(pinned_pool_resource const& a, pinned_pool_resource const& b) noexcept {
    return a.pool_ == b.pool_;
  }
  friend bool operator!=(pinned_pool_resource const& a, pinned_pool_resource const& b) noexcept {
    return !(a == b);
  }
  friend constexpr void get_property(pinned_pool_resource const&,
                                     ::cuda::mr::device_accessible) noexcept {}
  friend constexpr void get_property(pinned_pool_resource const&,
                                     ::cuda::mr::host_accessible) noexcept {}

 private:
  friend class detail::cuda_resource<pinned_pool_resource>;

  void* take(stream_ref, std::size_t bytes, std::size_t alignment) {
    return pool_->allocate(bytes, alignment);
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes) noexcept {
    try {
      pool_->deallocate(stream, pointer, bytes);
    } catch (...) {  // callers are destructors; the pool counts the block as live
    }
  }
  void* take_now(std::size_t bytes, std::size_t alignment) {
    return pool_->allocate(bytes, alignment);
  }
  void give_now(void* pointer, std::size_t bytes) noexcept {
    try {
      pool_->deallocate(pointer, bytes);
    } catch (...) {
    }
  }

  pinned_pool* pool_;
};

WARPWRIGHT_END
