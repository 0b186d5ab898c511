// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/heap/block_heap.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// A snapshot of a pinned_pool's counters; all sizes in bytes.
struct pinned_statistics {
  std::uint64_t live_bytes = 0;           ///< allocated, rounded up to 256 bytes a block
  std::uint64_t live_peak_bytes = 0;      ///< the highest live_bytes so far
  std::uint64_t live_blocks = 0;          ///< allocated
  std::uint64_t reserved_bytes = 0;       ///< page-locked
  std::uint64_t reserved_peak_bytes = 0;  ///< the highest reserved_bytes so far
  std::uint64_t largest_hole_bytes = 0;   ///< the largest free block
  std::uint64_t allocations = 0;          ///< successful ones of at least one byte
  std::uint64_t deallocations = 0;
  std::uint64_t hits = 0;                    ///< allocations served without any CUDA call
  std::uint64_t upstream_allocations = 0;    ///< cudaHostAlloc calls that succeeded
  std::uint64_t upstream_deallocations = 0;  ///< cudaFreeHost calls that succeeded
  std::uint64_t event_records = 0;           ///< cudaEventRecord calls that succeeded

  /// @return hits / allocations, in [0, 1]; 0 before the first allocation
  [[nodiscard]] double hit_rate() const noexcept {
    return allocations == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(allocations);
  }
};

/// Options of a pinned_pool. Every setter returns a changed copy.
class pinned_pool_options {
 public:
  static constexpr std::size_t unlimited = ~std::size_t{0};

  /// The maximum of page-locked memory.
  /// @param bytes  default: unlimited
  [[nodiscard]] constexpr pinned_pool_options maximum_bytes(std::size_t bytes) const noexcept {
    pinned_pool_options copy = *this;
    copy.maximum_bytes_ = bytes;
    return copy;
  }
  /// Memory to page-lock at construction.
  /// @param bytes  default: 0
  [[nodiscard]] constexpr pinned_pool_options initial_bytes(std::size_t bytes) const noexcept {
    pinned_pool_options copy = *this;
    copy.initial_bytes_ = bytes;
    return copy;
  }
  /// The minimum to page-lock at a time.
  /// @param bytes  default: 32 MiB
  [[nodiscard]] constexpr pinned_pool_options growth_bytes(std::size_t bytes) const noexcept {
    pinned_pool_options copy = *this;
    copy.growth_bytes_ = bytes;
    return copy;
  }

 private:
  friend class pinned_pool;
  std::size_t maximum_bytes_ = unlimited;
  std::size_t initial_bytes_ = 0;
  std::size_t growth_bytes_ = std::size_t{32} << 20U;
};

/// A pool of page-locked host memory: keeps segments and allocates from them without calling CUDA.
///
/// Blocks are split to size (granules of 256 bytes, no rounding to powers of two) and coalesced.
/// Free a block that a copy on a stream may still use with that stream: it is reused only after an
/// event on the stream has completed. The pool does not use the stream later, so it may be
/// destroyed.
///
/// **Threads:** any number may call any member at once.
/// **Capture:** memory that a graph uses must be kept as long as the graph's executable.
class pinned_pool {
 public:
  /// Creates a pool.
  /// @param options  limits and policies
  /// @throws out_of_memory, cuda_error  when initial_bytes cannot be page-locked
  explicit pinned_pool(pinned_pool_options const& options,
                       source_location where = source_location::current());
  /// As above, with the default options.
  pinned_pool() : pinned_pool{pinned_pool_options{}} {}

  /// Waits for the streams of freed blocks, then unlocks all memory. Never throws, and tolerates a
  /// CUDA runtime that is shutting down.
  ~pinned_pool();
  pinned_pool(pinned_pool const&) = delete;
  pinned_pool& operator=(pinned_pool const&) = delete;

  /// Allocates page-locked memory, usable on the host at once and by copies on every device.
  /// @param bytes      0 returns nullptr and is not counted
  /// @param alignment  of the address, in bytes: a power of two up to 4096; at least 256 is used
  /// @return memory with undefined contents
  /// @throws out_of_memory          at the limit, or when the system cannot lock more memory
  /// @throws std::invalid_argument  for a bad alignment
  /// @throws cuda_error             when another CUDA call fails; no memory is lost
  /// **Stream:** none; at the limit it may wait on the host for freed blocks, until enough of them
  /// can be reused.
  /// **Capture:** legal. **Cost:** a hit makes no CUDA call; a miss page-locks growth_bytes (a GiB
  /// takes most of a second), so reserve memory at start-up.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    void* const pointer = try_allocate(bytes, alignment, where);
    if (pointer == nullptr && bytes != 0) throw out_of_memory{report(bytes), where};
    return pointer;
  }

  /// As allocate(), but returns nullptr when there is not enough memory.
  /// @throws std::invalid_argument, cuda_error  as allocate()
  [[nodiscard]] void* try_allocate(std::size_t bytes, std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current());

  /// Frees a block that no copy uses any more.
  /// @param pointer  from allocate() of this pool; nullptr does nothing
  /// @param bytes    as passed to allocate()
  /// @throws std::invalid_argument  for a pointer that is not the start of a live block, or a wrong
  ///   size
  /// **Cost:** no CUDA call.
  void deallocate(void* pointer, std::size_t bytes,
                  source_location where = source_location::current());

  /// Frees a block that work submitted to `stream` so far may still use.
  /// @param stream  of any device; the pool does not use it later, so that it may be destroyed
  /// @throws std::invalid_argument  as above, and for a capturing stream
  /// @throws cuda_error             when the event cannot be recorded; the block stays live
  /// **Stream:** records one event; does not block. **Capture:** not legal on a capturing stream.
  /// **Cost:** two CUDA calls, now and then a query more; two more for the first block of a stream,
  /// and one for a stream_ref without its id.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current());

  /// Returns segments that are completely free to the system.
  /// @param bytes_to_keep  at least this much stays page-locked, if as much is page-locked
  /// @return the number of bytes returned
  /// @throws cuda_error  when a CUDA call fails; no memory is lost
  /// **Stream:** waits on the host for the streams of freed blocks.
  std::size_t trim(std::size_t bytes_to_keep = 0,
                   source_location where = source_location::current());

  /// @return a snapshot of the counters
  [[nodiscard]] pinned_statistics statistics() const noexcept;
  /// @return the maximum of page-locked bytes; pinned_pool_options::unlimited: no limit
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return options_.maximum_bytes_; }

  /// The minimum alignment of a block.
  static constexpr std::size_t block_alignment_bytes = 256;
  /// The maximum alignment that allocate() accepts: the host's page size.
  static constexpr std::size_t maximum_alignment_bytes = 4096;

 private:
  using heap = detail::block_heap;
  using heap_guard = detail::unique_lock<detail::spin_lock>;
  struct device_event {
    int device = 0;
    cudaEvent_t event = nullptr;
  };
  // Of a free: its epoch is the number of frees on the stream so far. Threads that free on one
  // stream at once may record their events in another order.
  struct pending_event {
    std::uint64_t epoch = 0;
    std::uint64_t before =
        0;  // the epoch when the record began: up to it, all were recorded earlier
    device_event marker;

    /// When the event has completed, all up to this epoch have.
    [[nodiscard]] std::uint64_t covers() const noexcept {
      return before + 1 == epoch ? epoch : before;
    }
  };
  // The blocks freed on one stream; its index in streams_ is its list number in heap_.
  struct stream_entry {
    static constexpr std::size_t least_look = 64;

    std::uint64_t id = 0;
    int device = 0;
    bool used = false;
    std::uint64_t epoch = 0;
    detail::array<pending_event> pending;  // in the order of their epochs
    std::size_t look_at = least_look;      // so many are asked whether they have completed
  };

  static std::uint64_t address_of(void const* pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }
  void* commit_allocation(std::uint32_t node) noexcept;
  void* allocate_ready(std::uint64_t bytes, std::size_t alignment, std::size_t requested);
  void add_segment(heap_guard& lock, std::uint64_t bytes, source_location where);
  std::size_t release_segments(heap_guard& lock, std::uint64_t keep_bytes, source_location where);
  bool release_completed(heap_guard& lock, bool wait, source_location where);
  bool release_up_to(std::uint32_t list, std::uint64_t epoch) noexcept;
  bool is_complete(heap_guard& lock, cudaEvent_t event, bool wait, source_location where);
  void look_at_some(heap_guard& lock) noexcept;
  void look_at(heap_guard& lock, std::uint32_t list, pending_event const& looked) noexcept;
  void look_at_half(heap_guard& lock, std::uint32_t list) noexcept;
  static cudaError_t create_event(device_event& marker, char const*& api) noexcept;
  [[nodiscard]] bool any_pending(detail::array<std::uint64_t> const& until) const noexcept;
  int device_of(heap_guard& lock, stream_ref stream, std::uint64_t id, source_location where);
  std::uint32_t list_of(std::uint64_t id, int device);
  std::uint32_t checked_block(void const* pointer, std::size_t bytes, heap_guard& lock,
                              source_location where) const;
  [[nodiscard]] memory_report report(std::size_t requested_bytes) const noexcept;

  pinned_pool_options options_;
  detail::mutex slow_path_mutex_;  // serialises misses; locked before heap_lock_
  mutable detail::spin_lock heap_lock_;
  // Guarded by heap_lock_:
  detail::block_heap heap_;
  detail::address_map lists_;
  detail::array<stream_entry> streams_;
  detail::array<device_event> spare_events_;
  std::size_t event_count_ = 0;  // of all events; spare_events_ has capacity for them
  std::uint32_t hand_ = 0;       // the list that look_at_some() looks at next
  std::uint64_t reserved_bytes_ = 0;
  pinned_statistics counters_;
};

/// An owning array of page-locked host memory.
/// @pre The pool outlives the buffer.
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
  /// Frees the memory. Never throws; waits for the stream when no event can be recorded.
  /// **Capture:** on a capturing stream, which cannot be waited for, the block stays live until the
  /// pool's destruction.
  ~pinned_buffer() {
    if (data_ == nullptr) return;
    if (on_stream_) {
      try {
        pool_->deallocate(stream_, data_, size_bytes());
        return;
      } catch (...) {
        // Waiting would invalidate a capture; while the stream's work may run the block stays live.
        if (detail::may_be_capturing(stream_.get())) return;
        cudaError_t const result = cudaStreamSynchronize(stream_.get());
        detail::discard(result);
        if (result != cudaSuccess) return;
      }
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
  void set_stream(stream_ref stream) noexcept {
    stream_ = stream;
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
  stream_ref stream_ = stream_ref::legacy_default();
  bool on_stream_ = false;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pinned/pinned_pool.hpp>
#endif
