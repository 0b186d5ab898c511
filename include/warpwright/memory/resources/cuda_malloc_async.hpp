// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/memory/detail/resource.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The values of cuda_malloc_async_options, which documents them.
struct malloc_async_settings {
  static constexpr std::size_t unlimited = ~std::size_t{0};

  std::size_t release_threshold_bytes = unlimited;
  std::size_t initial_bytes = 0;
  std::size_t max_bytes = unlimited;
  cudaMemAllocationHandleType export_handle_type = cudaMemHandleTypeNone;
};

}  // namespace detail

/// Options of a cuda_malloc_async_resource: a value, each setter of which returns a changed copy.
class [[nodiscard]] cuda_malloc_async_options
    : public detail::options_base<cuda_malloc_async_options, detail::malloc_async_settings> {
 public:
  static constexpr std::size_t unlimited = values::unlimited;

  /// How much idle memory the pool keeps when a stream, an event or the device is synchronised.
  /// @param bytes  default: unlimited; CUDA's own default of 0 returns all idle memory each time,
  ///   and requests it again afterwards
  constexpr self release_threshold_bytes(std::size_t bytes) const {
    return with(&values::release_threshold_bytes, bytes);
  }
  /// Memory to reserve at construction, by an allocation that is freed at once.
  /// @param n  default: 0; at most release_threshold_bytes()
  constexpr self initial_bytes(std::size_t n) const { return with(&values::initial_bytes, n); }
  /// The maximum of reserved memory, which CUDA may round up.
  /// @param n  default: unlimited; needs CUDA 12.2 or newer, which refuses a size that no
  ///   device has
  constexpr self max_bytes(std::size_t n) const { return with(&values::max_bytes, n); }
  /// The kind of handle by which other processes can use the memory; cuda_malloc_async_resource
  /// says how.
  /// @param type  default: cudaMemHandleTypeNone; on Linux cudaMemHandleTypePosixFileDescriptor
  constexpr self export_handle_type(cudaMemAllocationHandleType type) const {
    return with(&values::export_handle_type, type);
  }
};

/// CUDA's own stream-ordered pool (cudaMallocFromPoolAsync, cudaFreeAsync) with the pool's
/// interface: a cudaMemPool_t that the resource creates, or one that it is given.
///
/// A memory_pool makes no CUDA call where this makes one a call. It is for programs that compare
/// the two, share memory with another user of a cudaMemPool_t, pass memory to another process, or
/// want memory nodes in their graphs.
///
/// Other processes (needs export_handle_type()):
///   - A process that imports a block frees it before this process does; the reverse is undefined.
///   - This process: cudaMemPoolExportToShareableHandle(&descriptor, memory.get(), type, 0) once,
///     cudaMemPoolExportPointer(&data, pointer) for each block, and both are sent to the other.
///   - The other: cudaMemPoolImportFromShareableHandle(&pool, ...) once,
///     cudaMemPoolImportPointer(&pointer, pool, &data) for each block, and cudaFreeAsync for each
///     at the end. It cannot allocate from an imported pool: pass none to from_pool().
///
/// @pre A block is not used on the host, nor on a stream that is not ordered behind the allocation.
/// **Threads:** any number may call any member at once.
/// **Capture:** an allocation on a capturing stream becomes a memory node of the graph: its memory
/// is the graph's, from the device's graph memory and not from this pool, its address is that of
/// every launch, and it is valid from the node on in each launch. Free it in the same capture; if
/// it must outlive the launch, free it after each one with cudaFreeAsync itself. A block that was
/// allocated before the capture cannot be freed in it.
/// **Cost:** one CUDA call a call. An alignment above 256 bytes costs as many bytes more.
class cuda_malloc_async_resource : public detail::memory_interface<cuda_malloc_async_resource>,
                                   private detail::noncopyable {
 public:
  /// Creates a pool.
  /// @param device   the device of the memory
  /// @param options  limits and handles
  /// @throws std::invalid_argument  for initial_bytes above release_threshold_bytes or
  ///   max_bytes, which CUDA would return at once; for a maximum of 0; for a handle type that
  ///   the device does not support
  /// @throws out_of_memory          when initial_bytes cannot be allocated
  /// @throws cuda_error             when a CUDA call fails
  /// **Stream:** waits on the host for a stream of its own if there are initial_bytes. **Capture:**
  /// legal, and not captured.
  explicit cuda_malloc_async_resource(device_id device,
                                      cuda_malloc_async_options const& options = {},
                                      source_location where = source_location::current())
      : device_{device}, owns_{true} {
    check_options(values_of(options), where);
    scoped_device const scope{device, where};
    detail::relaxed_capture_mode const relaxed{where};
    create(values_of(options), where);
    try {
      prepare(values_of(options), where);
    } catch (...) {
      destroy();
      throw;
    }
  }

  /// Uses a pool that the program, or another library, has created.
  /// @param device  the device of its memory
  /// @param pool    outlives the resource and is not destroyed by it; not one that was imported
  /// @throws std::invalid_argument  for a null pool
  [[nodiscard]] static cuda_malloc_async_resource from_pool(
      device_id device, cudaMemPool_t pool, source_location where = source_location::current()) {
    if (pool == nullptr) {
      detail::throw_invalid_argument(
          "cuda_malloc_async_resource: the pool is null; pass one from cudaMemPoolCreate, or use "
          "from_default_pool()",
          where);
    }
    return cuda_malloc_async_resource{device, pool};
  }

  /// Uses the device's default pool, from which cudaMallocAsync allocates unless
  /// cudaDeviceSetMemPool was called. Its options are those that the program has set: by default
  /// CUDA returns its idle memory at each synchronisation.
  /// @param device  the device of the memory
  /// @throws cuda_error  when the query fails
  [[nodiscard]] static cuda_malloc_async_resource from_default_pool(
      device_id device, source_location where = source_location::current()) {
    cudaMemPool_t pool = nullptr;
    detail::check_with_device(cudaDeviceGetDefaultMemPool(&pool, device.value()), device,
                              "cudaDeviceGetDefaultMemPool", where);
    return cuda_malloc_async_resource{device, pool};
  }

  /// Destroys the pool that the constructor has created. Live blocks stay valid until they are
  /// freed with cudaFreeAsync.
  ~cuda_malloc_async_resource() {
    if (owns_) destroy();
  }

  /// @return the CUDA handle
  [[nodiscard]] cudaMemPool_t get() const noexcept { return pool_; }
  /// @return the device of the memory
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return the live bytes that were allocated here, as requested
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_bytes_.load(detail::memory_order::relaxed);
  }
  /// Returns how much memory the pool holds from the device, idle memory included.
  /// @throws cuda_error  when the query fails
  /// **Capture:** legal. **Cost:** three CUDA calls.
  [[nodiscard]] std::size_t reserved_bytes(
      source_location where = source_location::current()) const {
    detail::relaxed_capture_mode const relaxed{where};
    std::uint64_t bytes = 0;
    check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes),
          "cudaMemPoolGetAttribute", where);
    return bytes;
  }
  /// Returns idle memory to the device.
  /// @param bytes_to_keep  at least this much stays reserved, if as much is reserved
  /// @throws cuda_error  when the call fails
  /// **Stream:** does not wait: memory whose free is still queued stays. **Capture:** legal.
  void trim(std::size_t bytes_to_keep = 0, source_location where = source_location::current()) {
    detail::relaxed_capture_mode const relaxed{where};
    check(cudaMemPoolTrimTo(pool_, bytes_to_keep), "cudaMemPoolTrimTo", where);
  }

  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t max_alignment_bytes = detail::aligned_blocks::max_alignment_bytes;

 private:
  friend class detail::memory_interface<cuda_malloc_async_resource>;

  cuda_malloc_async_resource(device_id device, cudaMemPool_t pool) noexcept
      : device_{device}, pool_{pool}, owns_{false} {}

  static void check_options(detail::malloc_async_settings const& options, source_location where) {
    if (options.max_bytes == 0) {
      detail::throw_invalid_argument(
          "cuda_malloc_async_resource: max_bytes is 0; pass the largest number of bytes that "
          "the pool may reserve",
          where);
    }
    if (options.initial_bytes > options.release_threshold_bytes) {
      detail::throw_invalid_argument(
          detail::text{"cuda_malloc_async_resource: initial_bytes of "} + options.initial_bytes +
              " are above release_threshold_bytes of " + options.release_threshold_bytes +
              ": CUDA would return them at the first synchronisation; raise the threshold",
          where);
    }
    if (options.initial_bytes > options.max_bytes) {
      detail::throw_invalid_argument(detail::text{"cuda_malloc_async_resource: initial_bytes of "} +
                                         options.initial_bytes + " are above max_bytes of " +
                                         options.max_bytes + "; raise the maximum",
                                     where);
    }
  }
  void create(detail::malloc_async_settings const& options, source_location where) {
    if (options.export_handle_type != cudaMemHandleTypeNone) {
      int supported = 0;
      check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolSupportedHandleTypes,
                                   device_.value()),
            "cudaDeviceGetAttribute", where);
      int const wanted = static_cast<int>(options.export_handle_type);
      if ((supported & wanted) != wanted) {
        detail::throw_invalid_argument(
            detail::text{"cuda_malloc_async_resource: device "} + device_.value() +
                " cannot export memory by handles of type " + wanted + "; it supports the types " +
                supported + " (a sum of cudaMemAllocationHandleType values)",
            where);
      }
    }
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = options.export_handle_type;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device_.value();
    if (options.max_bytes != options.unlimited) {
#if CUDART_VERSION >= 12020
      properties.maxSize = options.max_bytes;
#else
      detail::throw_invalid_argument(
          "cuda_malloc_async_resource: max_bytes needs CUDA 12.2 or newer; use a limit_adaptor",
          where);
#endif
    }
    check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate", where);
  }
  void prepare(detail::malloc_async_settings const& options, source_location where) {
    std::uint64_t threshold = options.release_threshold_bytes;
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold),
          "cudaMemPoolSetAttribute", where);
    if (options.initial_bytes == 0) return;
    stream const own{device_, 0, where};
    void* const block = this->allocate(own, options.initial_bytes, block_alignment_bytes, where);
    try {
      this->deallocate(own, block, options.initial_bytes, where);
    } catch (...) {
      detail::discard(cudaFree(block));
      throw;
    }
    own.synchronize(where);
  }
  void destroy() noexcept {
    detail::relaxed_capture_mode const relaxed;
    detail::discard(cudaMemPoolDestroy(pool_));
  }

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::require_alignment("cuda_malloc_async_resource", request.alignment, max_alignment_bytes,
                              request.where);
    return aligned_.allocate(request, [&](std::size_t whole_bytes) -> void* {
      void* pointer = nullptr;
      cudaError_t const result =
          cudaMallocFromPoolAsync(&pointer, whole_bytes, pool_, request.stream.get());
      if (result == cudaErrorMemoryAllocation) {
        detail::discard(result);
        return detail::fail_request<Throws>(request, live_bytes(), device_);
      }
      check(result, "cudaMallocFromPoolAsync", request.where);
      live_bytes_.fetch_add(request.bytes, detail::memory_order::relaxed);
      return pointer;
    });
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    aligned_.deallocate("cuda_malloc_async_resource", pointer, bytes, where,
                        [&](void* whole, std::size_t) {
                          check(cudaFreeAsync(whole, stream.get()), "cudaFreeAsync", where);
                          live_bytes_.fetch_sub(bytes, detail::memory_order::relaxed);
                        });
  }

  device_id device_;
  cudaMemPool_t pool_ = nullptr;
  bool owns_;
  detail::atomic<std::size_t> live_bytes_;
  detail::aligned_blocks aligned_;
};

WARPWRIGHT_END
