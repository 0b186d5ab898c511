// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/pinned/pinned_core.hpp>
#include <warpwright/memory/detail/pinned/pinned_settings.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// Options of a pinned_pool. Every setter returns a changed copy.
class pinned_pool_options
    : public detail::options_base<pinned_pool_options, detail::pinned_settings> {
 public:
  static constexpr std::size_t unlimited = values::unlimited;
  static constexpr int any_numa_node = values::any_numa_node;

  /// The maximum of page-locked memory.
  /// @param n  default: unlimited
  constexpr self max_bytes(std::size_t n) const { return with(&values::max_bytes, n); }
  /// Memory to page-lock at construction.
  /// @param n  default: 0
  constexpr self initial_bytes(std::size_t n) const { return with(&values::initial_bytes, n); }
  /// The minimum to page-lock at a time. A large pool grows by an eighth of its size, at most 1
  /// GiB, so that it has few segments.
  /// @param n  default: 32 MiB
  constexpr self growth_bytes(std::size_t n) const { return with(&values::growth_bytes, n); }
  /// Takes the memory from one NUMA node: that of the GPU, for copies at the full speed of its
  /// link. Refused in a container without the right to call mbind.
  /// @param node  as in /sys/devices/system/node; default: any_numa_node, as the system decides
  constexpr self numa_node(int node) const { return with(&values::numa_node, node); }
  /// Write-combined memory, which the host writes in order and a GPU reads without looking into
  /// the processor's caches. The host must not read it: its reads are not cached.
  /// @param on  default: false. It comes from cudaHostAlloc, which page-locks a GiB in most of a
  ///   second; numa_node() does not apply
  constexpr self write_combined(bool on = true) const { return with(&values::write_combined, on); }
  /// Memory that kernels of every device can use through the same pointer, over the link.
  /// @param on  default: false
  constexpr self mapped(bool on = true) const { return with(&values::mapped, on); }
  /// Memory that is not page-locked when the system page-locks no more, within max_bytes().
  /// Copies from and to it are slower, and a copy on a stream may wait on the host;
  /// pinned_statistics::pageable_bytes says how much there is. Not with mapped().
  /// @param on  default: false, the pool throws out_of_memory
  constexpr self pageable_fallback(bool on = true) const {
    return with(&values::pageable_fallback, on);
  }
};

namespace detail {
struct pinned_access;
}

/// A pool of page-locked host memory: keeps segments and allocates from them without calling CUDA.
///
/// @pre A stream that blocks were freed on stays alive until retire() or the pool's destruction:
///   the pool records events on it later than the free. Streams are identified by their id, never
///   by their handle, which CUDA reuses.
///
/// Free a block that a copy on a stream may still use with that stream: it is reused only after an
/// event on the stream has completed, because the host may write into it at once. One event covers
/// many frees: it is recorded after 512 of a thread on a stream, or some of the pool's bytes, or
/// when memory is short. Blocks are split to size (granules of 256 bytes, no rounding to powers of
/// two) and coalesced; the threads' caches hold freed blocks by exact size, up to half of the
/// memory, and give them back before more is page-locked.
///
/// A segment is memory of this process, which several threads fault in and cudaHostRegister locks,
/// many times faster than cudaHostAlloc; where the system refuses that, or the memory that it and
/// the process's control groups leave does not suffice, cudaHostAlloc is called.
/// The child of a fork() does not have the memory.
///
/// Misuse is detected at every free: a block freed twice, a foreign pointer, a wrong size.
///
/// **Threads:** any number may call any member at once. Threads of one shard, of 128, share a spin
/// lock, never held across a CUDA call. Misses of the heap are serialised, including their wait.
/// **Capture:** memory that a graph uses must be kept as long as the graph's executable. Captures,
/// of any thread, are neither disturbed nor a restriction.
class pinned_pool : detail::noncopyable {
 public:
  /// Creates a pool.
  /// @param options  limits and policies
  /// @throws std::invalid_argument  for options that exclude each other, a NUMA node that does not
  ///   exist or may not be chosen, and mapped() where a device cannot use the memory
  /// @throws out_of_memory, cuda_error  when initial_bytes cannot be page-locked
  explicit pinned_pool(pinned_pool_options const& options,
                       source_location where = source_location::current())
      : core_{values_of(options), where} {}
  /// As above, with the default options.
  pinned_pool() : pinned_pool{pinned_pool_options{}} {}

  /// Waits for the streams of freed blocks, then unlocks all memory. Never throws, and tolerates a
  /// CUDA runtime that is shutting down. Does nothing in a child of fork().
  /// @pre the streams are alive, or retired
  ~pinned_pool() = default;

  /// Allocates page-locked memory, usable on the host at once and by copies on every device.
  /// @param bytes      0 returns nullptr and is not counted
  /// @param alignment  of the address, in bytes: a power of two up to 4096; at least 256 is used
  /// @return memory with undefined contents
  /// @throws out_of_memory          at the limit, or when the system cannot lock more memory
  /// @throws std::invalid_argument  for a bad alignment
  /// @throws std::bad_alloc         when the host has no memory for the pool's data structures
  /// @throws cuda_error             when another CUDA call fails; no memory is lost
  /// **Stream:** none; at the limit it may wait on the host for freed blocks, until enough of them
  /// can be reused.
  /// **Capture:** legal. **Cost:** a hit makes no CUDA call; now and then one query serves many. A
  /// miss of all caches and the heap page-locks growth_bytes or more (a GiB takes a twentieth of a
  /// second), so reserve memory at start-up.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    void* const pointer = core_->try_allocate(bytes, alignment, where);
    if (pointer == nullptr && bytes != 0) core_->throw_out_of_memory(bytes, where);
    return pointer;
  }

  /// As allocate(), but returns nullptr when there is not enough memory.
  /// @throws std::invalid_argument, std::bad_alloc, cuda_error  as allocate()
  [[nodiscard]] void* try_allocate(std::size_t bytes, std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    return core_->try_allocate(bytes, alignment, where);
  }

  /// Frees a block that no copy uses any more.
  /// @param pointer  from allocate() of this pool; nullptr does nothing
  /// @param bytes    as passed to allocate()
  /// @throws std::invalid_argument  for a pointer that is not the start of a live block, or a wrong
  ///   size
  /// **Cost:** no CUDA call.
  void deallocate(void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    core_->deallocate(pointer, bytes, where);
  }

  /// Frees a block that work submitted to `stream` so far may still use.
  /// @pre `stream` stays alive until retire(stream) or the pool's destruction
  /// @param stream  of any device, whichever is current; a default stream is that of the current
  ///   device and thread
  /// @throws std::invalid_argument  as above; for a stream that is capturing in a capture of this
  ///   library. In another library's capture the block stays unavailable until the capture's end
  /// @throws std::bad_alloc, cuda_error  when a stream that this thread uses for the first time
  ///   cannot be registered, or its id queried; the block stays live
  /// **Stream:** does not block. **Capture:** not legal on a capturing stream.
  /// **Cost:** no CUDA call with a stream_ref that carries its id, but about seven for each 512th
  /// free, which record an event and query earlier ones; sooner when the frees have half of the
  /// bytes that the thread's cache may hold, a quarter of the pool where one thread uses it. Two
  /// for the first block of a stream; one for a stream_ref without its id. Frees on the per-thread
  /// default stream become available to other threads only with the next event, or when memory is
  /// short, because only that thread can record one.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    core_->deallocate(stream, pointer, bytes, where);
  }

  /// Stops tracking a stream. Call it before the stream is destroyed. Its freed blocks become
  /// available when the work submitted to it so far has completed.
  /// @pre no other call of the pool uses the stream at the same time or later
  /// @param stream  a stream that no block was freed on is accepted
  /// @throws std::invalid_argument  for a capturing stream
  /// @throws std::bad_alloc, cuda_error  when no event can be recorded; the stream is still tracked
  ///   then
  /// **Stream:** records an event for each thread that has freed blocks on it since the last one;
  /// does not block. **Capture:** `stream` must not be capturing.
  void retire(stream_ref stream, source_location where = source_location::current()) {
    core_->retire(stream, where);
  }

  /// Returns segments that are completely free to the system.
  /// @param bytes_to_keep  at least this much stays page-locked, if as much is page-locked
  /// @return the number of bytes returned
  /// @throws cuda_error  when a CUDA call fails; no memory is lost
  /// **Stream:** waits on the host for the streams of freed blocks, and for the legacy default
  /// stream if one of them is another thread's default stream.
  std::size_t trim(std::size_t bytes_to_keep = 0,
                   source_location where = source_location::current()) {
    return core_->trim(bytes_to_keep, where);
  }

  /// @return a snapshot of the counters
  /// **Cost:** takes every lock; not for a hot loop.
  [[nodiscard]] pinned_statistics statistics() const noexcept { return core_->statistics(); }
  /// @return the maximum of page-locked bytes; pinned_pool_options::unlimited: no limit
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return core_->limit_bytes(); }

  /// The minimum alignment of a block.
  static constexpr std::size_t block_alignment_bytes = detail::pinned_core::default_alignment;
  /// The maximum alignment that allocate() accepts: the host's page size.
  static constexpr std::size_t max_alignment_bytes = detail::pinned_core::max_alignment;

 private:
  friend struct detail::pinned_access;
  detail::process_bound<detail::pinned_core> core_;
};

namespace detail {

/// What the library's own classes call, and users do not.
struct pinned_access {
  static pinned_core& core(pinned_pool& pool) noexcept { return *pool.core_; }
};

}  // namespace detail

/// An owning array of page-locked host memory.
/// @pre The pool outlives the buffer, and the buffer's stream the pool, unless it is retired there.
/// **Threads:** as a std::vector.
template <class T>
class pinned_buffer {
  static_assert(std::is_object<T>::value && std::is_trivially_copyable<T>::value &&
                    !std::is_const<T>::value && !std::is_array<T>::value,
                "warpwright::pinned_buffer<T>: T must be trivially copyable and not const, for its "
                "objects are made and copied as bytes: hold a plain struct or a number type");

 public:
  using value_type = T;

  /// An empty buffer without a pool.
  pinned_buffer() noexcept = default;
  /// Allocates a buffer that no copy uses at its destruction.
  /// @param pool  outlives the buffer
  /// @param size  number of elements, not initialised
  /// @throws out_of_memory, cuda_error  as pinned_pool::allocate()
  pinned_buffer(pinned_pool& pool, std::size_t size,
                source_location where = source_location::current())
      : pool_{&pool}, size_{size} {
    std::size_t const bytes =
        size <= ~std::size_t{0} / sizeof(T) ? size * sizeof(T) : ~std::size_t{0};
    constexpr std::size_t alignment = alignof(T) > pinned_pool::block_alignment_bytes
                                          ? alignof(T)
                                          : pinned_pool::block_alignment_bytes;
    data_ = static_cast<T*>(pool.allocate(bytes, alignment, where));
  }
  /// Allocates a buffer whose memory is reused only after `stream` has completed the work submitted
  /// to it before the buffer's destruction. Otherwise as above.
  /// @pre `stream` stays alive until pinned_pool::retire(stream) or the pool's destruction
  pinned_buffer(pinned_pool& pool, stream_ref stream, std::size_t size,
                source_location where = source_location::current())
      : pinned_buffer{pool, size, where} {
    set_stream(stream);
  }
  /// The other buffer is left empty.
  pinned_buffer(pinned_buffer&& other) noexcept { swap(other); }
  /// Frees this buffer's elements first; the other buffer is left empty.
  pinned_buffer& operator=(pinned_buffer&& other) noexcept {
    pinned_buffer moved{std::move(other)};
    swap(moved);
    return *this;
  }
  /// Frees the memory. Never throws; waits for the stream when the pool cannot register it.
  /// **Capture:** on a capturing stream, which cannot be waited for, the block stays live until the
  /// pool's destruction.
  ~pinned_buffer() {
    if (data_ == nullptr) return;
    if (on_stream_) {
      detail::pinned_access::core(*pool_).free_behind(stream_, data_, size_bytes());
      return;
    }
    try {
      pool_->deallocate(data_, size_bytes());
    } catch (...) {  // a destructor cannot throw; the pool counts the block as live
    }
  }

  /// @return the first element; nullptr when empty
  [[nodiscard]] T* data() const noexcept { return data_; }
  /// @return the number of elements
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// @return the size of all elements in bytes
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  /// @return whether there are no elements
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// @param i  below size()
  [[nodiscard]] T& operator[](std::size_t i) const noexcept { return data_[i]; }
  [[nodiscard]] T* begin() const noexcept { return data_; }
  [[nodiscard]] T* end() const noexcept { return data_ + size_; }

  /// Sets the stream whose copies use the memory until the buffer's destruction. With copies on
  /// several streams, pass one that waits for the others.
  /// @pre `stream` stays alive until pinned_pool::retire(stream) or the pool's destruction
  /// @param stream  a default stream is that of the current device, and the per-thread one that of
  ///   this thread, wherever the buffer ends
  void set_stream(stream_ref stream) noexcept {
    stream_ = detail::named_stream{stream};
    on_stream_ = true;
  }
  /// Declares that no copy uses the memory any more.
  void clear_stream() noexcept { on_stream_ = false; }

 private:
  void swap(pinned_buffer& other) noexcept {
    detail::swap(pool_, other.pool_);
    detail::swap(stream_, other.stream_);
    detail::swap(on_stream_, other.on_stream_);
    detail::swap(data_, other.data_);
    detail::swap(size_, other.size_);
  }

  pinned_pool* pool_ = nullptr;
  detail::named_stream stream_;
  bool on_stream_ = false;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

WARPWRIGHT_END
