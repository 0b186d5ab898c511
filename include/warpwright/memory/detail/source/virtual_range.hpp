// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/memory/detail/driver.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The driver's functions for virtual memory, looked up at run time so that nothing links libcuda.
struct virtual_memory_functions {
  driver::device_attribute device_attribute = nullptr;
  driver::get_granularity granularity = nullptr;
  driver::address_reserve reserve = nullptr;
  driver::address_free unreserve = nullptr;
  driver::create create = nullptr;
  driver::release release = nullptr;
  driver::map map = nullptr;
  driver::unmap unmap = nullptr;
  driver::set_access set_access = nullptr;

  /// @return whether this driver has all of them
  bool find() noexcept;
};

/// An address range of one device into which physical memory is mapped, and moved to other
/// addresses of the range.
///
/// Memory comes in chunks, one cuMemCreate each, of any number of granules. A chunk is mapped,
/// unmapped and moved as a whole: CUDA maps no part of one.
///
/// Functions return the driver's result code, which has the runtime's number. Not thread-safe.
class virtual_range : noncopyable {
 public:
  virtual_range() noexcept = default;
  ~virtual_range() { reset(); }

  /// Releases all memory and addresses. @pre no work uses the memory any more
  void reset() noexcept;

  /// Reserves the addresses; no memory yet.
  /// @return false when the device or its driver does not support it
  bool reserve(device_id device, std::uint64_t bytes) noexcept;

  [[nodiscard]] bool reserved() const noexcept { return address_ != 0; }
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t granule_bytes() const noexcept { return granule_bytes_; }
  /// Physical memory that is not mapped.
  [[nodiscard]] std::uint64_t spare_bytes() const noexcept { return spare_bytes_; }
  /// Calls so far that created, mapped, unmapped or released memory.
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  /// Chunks created and released so far.
  [[nodiscard]] std::uint64_t created() const noexcept { return created_; }
  [[nodiscard]] std::uint64_t released() const noexcept { return released_; }
  /// All physical memory, mapped or spare.
  [[nodiscard]] std::uint64_t physical_bytes() const noexcept { return physical_bytes_; }

  /// Creates spare chunks of equal size, but for the last.
  /// @param bytes            of all, a multiple of granule_bytes(), not 0
  /// @param max_chunk_bytes  a multiple of granule_bytes(), not 0
  /// @return cudaErrorMemoryAllocation when device or host have not enough memory; what was created
  ///   before stays spare
  cudaError_t create(std::uint64_t bytes, std::uint64_t max_chunk_bytes) noexcept;

  /// Selects spare chunks for map(): as few as possible, of at least `needed` bytes together and at
  /// most `room`.
  /// @return their size; 0 when there are no such chunks
  std::uint64_t select(std::uint64_t needed, std::uint64_t room) noexcept;

  /// Replaces the selected chunks by fewer where there are twice as many as needed: mapping and
  /// unmapping costs 20 us a chunk, whatever its size (H100, driver 580). Call select() again.
  /// @return an error code; less memory may be spare then
  cudaError_t merge_selected(std::uint64_t max_chunk_bytes) noexcept;

  /// Maps the selected chunks one behind the other.
  /// @pre nothing is mapped there; the address is a multiple of granule_bytes()
  /// @param api  receives the name of a call that fails
  /// @return an error code, without any effect on an error
  /// @throws std::bad_alloc  when the host has not enough memory, without any effect
  cudaError_t map(std::uint64_t address, char const** api);

  /// The whole chunks in a mapped stretch of addresses.
  struct stretch {
    std::uint64_t begin = 0, end = 0;
    [[nodiscard]] std::uint64_t bytes() const noexcept { return end - begin; }
  };
  /// @pre all of it is mapped
  [[nodiscard]] stretch whole_chunks(std::uint64_t begin, std::uint64_t end) const noexcept;
  /// Unmaps whole chunks; they become spare.
  /// @pre no work uses them any more; all of it is mapped
  /// @return an error code, without any effect on an error
  cudaError_t unmap(std::uint64_t address, std::uint64_t bytes) noexcept;

  /// Returns spare chunks to the device, the largest first, as long as `keep_bytes` remain spare.
  cudaError_t release_spare(std::uint64_t keep_bytes) noexcept;

 private:
  struct chunk {
    driver::memory_handle handle = 0;
    std::uint64_t address = 0;  // 0: spare
    std::uint64_t bytes = 0;    // 0: unused entry
  };
  cudaError_t create_chunk(std::uint64_t bytes) noexcept;
  cudaError_t release_chunk(std::size_t spare) noexcept;
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const noexcept;
  [[nodiscard]] chunk const& chunk_at(std::uint64_t address) const noexcept;

  virtual_memory_functions driver_;
  driver::allocation_properties properties_;
  driver::device_pointer address_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t granule_bytes_ = 0;
  std::uint64_t physical_bytes_ = 0;
  std::uint64_t spare_bytes_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t created_ = 0;
  std::uint64_t released_ = 0;
  std::size_t selected_ = 0;  // chunks at the end of spare_ that map() maps
  array<chunk> chunks_;
  array<std::uint32_t> chunk_of_granule_;  // by granule of the range; valid where memory is mapped
  array<std::uint32_t> spare_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/source/virtual_range_definitions.hpp>
#endif
