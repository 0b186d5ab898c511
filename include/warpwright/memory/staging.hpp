// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/memory/detail/staging/staging_core.hpp>
#include <warpwright/memory/pinned.hpp>

#include <cstddef>
#include <type_traits>

WARPWRIGHT_BEGIN

/// Options of a staging object. Every setter returns a changed copy.
class staging_options : public detail::options_base<staging_options, detail::staging_settings> {
 public:
  /// The number of threads that copy, the caller's included.
  /// @param count  1 to 256; 0, the default: one for each processor that this thread may run on, at
  ///   most 8
  constexpr self threads(unsigned count) const { return with(&values::threads, count); }
  /// The size of a page-locked slot, which is also the maximum size of a chunk.
  /// @param bytes  at least 4096; default: 4 MiB
  constexpr self slot_bytes(std::size_t bytes) const { return with(&values::slot_bytes, bytes); }
  /// The number of slots of each thread, which all copies share.
  /// @param n  1 to 64; default: 2, one is filled while the other is in flight
  constexpr self slots_per_thread(unsigned n) const { return with(&values::slots_per_thread, n); }
  /// The maximum size of copies that run on the calling thread alone, to the device as CUDA copies
  /// pageable memory: to wake another one would take longer.
  /// @param n  default: 1 MiB
  constexpr self direct_bytes(std::size_t n) const { return with(&values::direct_bytes, n); }
  /// How much larger a copy must be for one more thread to help: a copy of `size` bytes has at most
  /// 1 + size / bytes helpers.
  /// @param bytes  at least 4096; default: 512 KiB
  constexpr self bytes_per_helper(std::size_t bytes) const {
    return with(&values::bytes_per_helper, bytes);
  }

  /// @return the settings, which `tools/measure_staging` finds for a machine
  [[nodiscard]] constexpr unsigned threads() const noexcept { return values_.threads; }
  [[nodiscard]] constexpr std::size_t direct_bytes() const noexcept { return values_.direct_bytes; }
  [[nodiscard]] constexpr std::size_t bytes_per_helper() const noexcept {
    return values_.bytes_per_helper;
  }
};

/// Copies large arrays of pageable host memory to and from a device near the link's bandwidth:
/// several threads copy chunks through page-locked slots while other chunks are in flight.
///
/// No copy waits for another one's stream: where all slots are behind streams that do not go on, a
/// chunk is copied as CUDA copies pageable memory. So are arrays of up to direct_bytes to the
/// device: one thread copies no faster. Page-locked, registered and managed memory is copied
/// directly. No copy page-locks memory: the constructor does.
///
/// @pre The pinned_pool outlives the staging object, which belongs to the device that was current
///   at its construction.
/// **Threads:** any number may call at once, and share the worker threads, which belong to the
/// object, block all signals, and end with it.
/// **Capture:** copying on a capturing stream throws std::invalid_argument, because chunks are
/// copied immediately and cannot be replayed. Captures on other streams are not disturbed.
class staging {
 public:
  /// Allocates the slots and starts the threads.
  /// @param pool     provides the slots: threads * slots * slot_bytes
  /// @param options  threads and slots. With one thread CUDA's own copies are as fast above
  ///   direct_bytes, and are used
  /// @throws std::invalid_argument      for options out of range
  /// @throws out_of_memory, cuda_error  when the slots or events cannot be created
  /// @throws std::runtime_error         when the system cannot start the threads
  /// **Cost:** page-locks the slots (64 MiB with 8 threads) unless the pool has free memory, and
  /// starts the threads: construct it at start-up.
  explicit staging(pinned_pool& pool, staging_options const& options = {},
                   source_location where = source_location::current())
      : core_{detail::pinned_access::core(pool), values_of(options), where} {}

  /// Waits for the slots' copies and ends the threads. A slot whose copy cannot be waited for stays
  /// live in the pinned_pool. Never throws. Does nothing in a child of fork(), which has neither
  /// the threads nor CUDA.
  /// @pre no call to this object is in progress
  /// **Capture:** legal; captures on other streams are not disturbed.
  ~staging() = default;

  /// Copies host memory to the device; returns when the source has been read completely, so that it
  /// may be changed or freed.
  /// @param stream       a stream of the staging object's device
  /// @param destination  device memory of at least `bytes`
  /// @param source       host memory of at least `bytes`, of any kind and alignment
  /// @param bytes        0 does nothing
  /// @throws std::invalid_argument  for a null pointer, a capturing stream, or a stream of another
  ///   device
  /// @throws staging_error          when a call fails in any thread; the object remains usable.
  ///   Copies of other chunks may still be enqueued: synchronise before the device memory is freed
  /// **Stream:** the destination is written behind earlier work of `stream` and before later work;
  /// the call may wait for the stream, and does for page-locked and managed sources: call
  /// cudaMemcpyAsync for those that stay unchanged.
  void copy_to_device(stream_ref stream, void* destination, void const* source, std::size_t bytes,
                      source_location where = source_location::current()) {
    core_.copy(bytes_to_device(stream, destination, source, bytes), "copy_to_device", where);
  }
  /// Copies device memory to the host; returns when the destination is complete.
  /// @param stream       a stream of the staging object's device
  /// @param destination  host memory of at least `bytes`, of any kind and alignment
  /// @param source       device memory of at least `bytes`
  /// @param bytes        0 does nothing
  /// @throws as copy_to_device()
  /// **Stream:** the source is read behind earlier work of `stream`; blocks until the copy is
  /// complete.
  void copy_to_host(stream_ref stream, void* destination, void const* source, std::size_t bytes,
                    source_location where = source_location::current()) {
    core_.copy(bytes_to_host(stream, destination, source, bytes), "copy_to_host", where);
  }

  /// As above, and tells of the progress.
  /// @param progress  bool(std::size_t done_bytes, std::size_t all_bytes): called by the calling
  ///   thread behind its chunks; false ends the copy early. A copy that is CUDA's own (page-locked
  ///   memory, one thread, few KiB) is one chunk
  /// @return the length of the part at the begin that was copied: `bytes`, unless progress ended it
  /// @throws what `progress` throws, after which the destination is undefined
  template <class Progress, class = std::enable_if_t<std::is_invocable_r<
                                bool, Progress&, std::size_t, std::size_t>::value>>
  std::size_t copy_to_device(stream_ref stream, void* destination, void const* source,
                             std::size_t bytes, Progress&& progress,
                             source_location where = source_location::current()) {
    detail::staging_transfer::progress_function const reported{progress};
    return core_.copy(bytes_to_device(stream, destination, source, bytes).with(reported),
                      "copy_to_device", where);
  }
  template <class Progress, class = std::enable_if_t<std::is_invocable_r<
                                bool, Progress&, std::size_t, std::size_t>::value>>
  std::size_t copy_to_host(stream_ref stream, void* destination, void const* source,
                           std::size_t bytes, Progress&& progress,
                           source_location where = source_location::current()) {
    detail::staging_transfer::progress_function const reported{progress};
    return core_.copy(bytes_to_host(stream, destination, source, bytes).with(reported),
                      "copy_to_host", where);
  }

  /// Copies rows of host memory to the device, as copy_to_device().
  /// @param destination_pitch  bytes from a row to the next, at least row_bytes; so source_pitch
  /// @param row_bytes          0 does nothing
  /// @throws std::invalid_argument  for a pitch below row_bytes as well
  void copy_rows_to_device(stream_ref stream, void* destination, std::size_t destination_pitch,
                           void const* source, std::size_t source_pitch, std::size_t row_bytes,
                           std::size_t rows, source_location where = source_location::current()) {
    core_.copy(
        {true, stream, destination, destination_pitch, source, source_pitch, row_bytes, rows},
        "copy_rows_to_device", where);
  }
  /// Copies rows of device memory to the host, as copy_to_host().
  void copy_rows_to_host(stream_ref stream, void* destination, std::size_t destination_pitch,
                         void const* source, std::size_t source_pitch, std::size_t row_bytes,
                         std::size_t rows, source_location where = source_location::current()) {
    core_.copy(
        {false, stream, destination, destination_pitch, source, source_pitch, row_bytes, rows},
        "copy_rows_to_host", where);
  }

  /// Copies what a function writes, without an array of it in host memory: rows gathered from a
  /// list, or elements converted on the way.
  /// @tparam T           trivially copyable, at most slot_bytes large
  /// @param destination  device memory of at least `count` elements
  /// @param count        number of elements; 0 does nothing
  /// @param pack         pack(T* to, std::size_t first, std::size_t n): writes the elements `first`
  ///   to `first + n - 1`; called for ranges of any size, by several threads at once
  /// @throws what `pack` throws, and as copy_to_device(); the destination is then undefined
  /// **Stream:** as copy_to_device().
  template <class T, class Pack>
  void pack_to_device(stream_ref stream, T* destination, std::size_t count, Pack&& pack,
                      source_location where = source_location::current()) {
    static_assert(std::is_trivially_copyable<T>::value,
                  "warpwright: staging::pack_to_device copies elements as bytes: T must be "
                  "trivially copyable");
    static_assert(alignof(T) <= pinned_pool::block_alignment_bytes,
                  "warpwright: staging::pack_to_device: T is aligned to more than 256 bytes, a "
                  "slot is not");
    static_assert(std::is_invocable<Pack&, T*, std::size_t, std::size_t>::value,
                  "warpwright: staging::pack_to_device calls pack(T* to, std::size_t first, "
                  "std::size_t n)");
    auto const write = [&pack](void* to, std::size_t first, std::size_t n) {
      pack(static_cast<T*>(to), first, n);
    };
    detail::staging_transfer::pack_function const packed{write};
    transfer what{true, stream, destination, sizeof(T), nullptr, sizeof(T), sizeof(T), count};
    what.pack = &packed;
    core_.copy(what, "pack_to_device", where);
  }

  /// @return the number of threads that copy, the caller's included
  [[nodiscard]] unsigned threads() const noexcept { return core_.threads(); }
  /// @return the device of the streams that may be used
  [[nodiscard]] device_id device() const noexcept { return core_.device(); }

 private:
  using transfer = detail::staging_transfer;

  static transfer bytes_to_device(stream_ref stream, void* destination, void const* source,
                                  std::size_t bytes) noexcept {
    return {true, stream, destination, 1, source, 1, 1, bytes};
  }
  static transfer bytes_to_host(stream_ref stream, void* destination, void const* source,
                                std::size_t bytes) noexcept {
    return {false, stream, destination, 1, source, 1, 1, bytes};
  }

  detail::staging_core core_;
};

WARPWRIGHT_END
