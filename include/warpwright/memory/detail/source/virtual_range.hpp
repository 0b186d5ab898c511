// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
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
  bool find() noexcept {
    return find_driver_function("cuDeviceGetAttribute", device_attribute) &&
           find_driver_function("cuMemGetAllocationGranularity", granularity) &&
           find_driver_function("cuMemAddressReserve", reserve) &&
           find_driver_function("cuMemAddressFree", unreserve) &&
           find_driver_function("cuMemCreate", create) &&
           find_driver_function("cuMemRelease", release) && find_driver_function("cuMemMap", map) &&
           find_driver_function("cuMemUnmap", unmap) &&
           find_driver_function("cuMemSetAccess", set_access);
  }
};

/// An address range of one device into which physical memory is mapped, and moved to other
/// addresses of the range.
///
/// Memory comes in chunks, one cuMemCreate each, of any number of granules. A chunk is mapped,
/// unmapped and moved as a whole: CUDA maps no part of one.
///
/// Functions return the driver's result code, which has the runtime's number. Not thread-safe.
class virtual_range {
 public:
  virtual_range() noexcept = default;
  ~virtual_range() { reset(); }
  virtual_range(virtual_range const&) = delete;
  virtual_range& operator=(virtual_range const&) = delete;

  /// Releases all memory and addresses. @pre no work uses the memory any more
  void reset() noexcept {
    if (address_ == 0) return;
    for (chunk const& c : chunks_) {
      if (c.bytes == 0) continue;
      if (c.address != 0) static_cast<void>(driver_.unmap(c.address, c.bytes));
      static_cast<void>(driver_.release(c.handle));
    }
    static_cast<void>(driver_.unreserve(address_, bytes_));
    address_ = 0;
    physical_bytes_ = 0;
    spare_bytes_ = 0;
    chunks_.clear();
    chunk_of_granule_.clear();
    spare_.clear();
  }

  /// Reserves the addresses; no memory yet.
  /// @return false when the device or its driver does not support it
  bool reserve(device_id device, std::uint64_t bytes) noexcept {
    constexpr int supported = driver::attribute_virtual_memory;
    constexpr int rdma = driver::attribute_rdma_with_virtual_memory;
    int yes = 0;
    if (!driver_.find() || driver_.device_attribute(&yes, supported, device.value()) != 0 ||
        yes == 0) {
      return false;
    }
    properties_.where.id = device.value();
    // As memory of cudaMalloc: accessible to network cards.
    if (driver_.device_attribute(&yes, rdma, device.value()) == 0 && yes != 0) {
      properties_.rdma_capable = 1;
    }
    std::size_t granule = 0;
    if (driver_.granularity(&granule, &properties_, driver::granularity_recommended) != 0 ||
        granule == 0 || (granule & (granule - 1)) != 0) {
      return false;
    }
    granule_bytes_ = granule;
    bytes_ = (bytes + (granule - 1)) & ~(granule_bytes_ - 1);
    if (bytes_ < bytes || driver_.reserve(&address_, bytes_, 0, 0, 0) != 0) {
      address_ = 0;
      return false;
    }
    return true;
  }

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
  cudaError_t create(std::uint64_t bytes, std::uint64_t max_chunk_bytes) noexcept {
    std::uint64_t const count = (bytes + (max_chunk_bytes - 1)) / max_chunk_bytes;
    std::uint64_t const each =
        ((bytes + (count - 1)) / count + (granule_bytes_ - 1)) & ~(granule_bytes_ - 1);
    cudaError_t result = cudaSuccess;
    for (std::uint64_t left = bytes; left != 0 && result == cudaSuccess;) {
      std::uint64_t const now = each < left ? each : left;
      result = create_chunk(now);
      left -= now;
    }
    return result;
  }

  /// Selects spare chunks for map(): as few as possible, of at least `needed` bytes together and at
  /// most `room`.
  /// @return their size; 0 when there are no such chunks
  std::uint64_t select(std::uint64_t needed, std::uint64_t room) noexcept {
    selected_ = 0;
    if (spare_bytes_ < needed) return 0;
    std::uint64_t chosen = 0;
    while (chosen < needed) {
      // The smallest chunk that completes the request, else the largest that fits.
      std::size_t const end = spare_.size() - selected_;
      std::size_t best = end;
      for (std::size_t i = 0; i < end; ++i) {
        std::uint64_t const bytes = chunks_[spare_[i]].bytes;
        if (bytes > room - chosen) continue;
        bool const completes = bytes >= needed - chosen;
        if (best == end) {
          best = i;
          continue;
        }
        std::uint64_t const before = chunks_[spare_[best]].bytes;
        bool const before_completes = before >= needed - chosen;
        if (completes ? !before_completes || bytes < before : !before_completes && bytes > before) {
          best = i;
        }
      }
      if (best == end) {
        selected_ = 0;
        return 0;
      }
      std::uint32_t const taken = spare_[best];
      spare_[best] = spare_[end - 1];
      spare_[end - 1] = taken;
      ++selected_;
      chosen += chunks_[taken].bytes;
    }
    return chosen;
  }

  /// Replaces the selected chunks by fewer where there are twice as many as needed: mapping and
  /// unmapping costs 20 us a chunk, whatever its size (H100, driver 580). Call select() again.
  /// @return an error code; less memory may be spare then
  cudaError_t merge_selected(std::uint64_t max_chunk_bytes) noexcept {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < selected_; ++i)
      bytes += chunks_[spare_[spare_.size() - 1 - i]].bytes;
    std::size_t const count = selected_;
    selected_ = 0;
    if (count < 2 * ((bytes + (max_chunk_bytes - 1)) / max_chunk_bytes)) return cudaSuccess;
    for (std::size_t i = 0; i < count; ++i) {
      cudaError_t const result = release_chunk(spare_.size() - 1);
      if (result != cudaSuccess) return result;
    }
    return create(bytes, max_chunk_bytes);
  }

  /// Maps the selected chunks one behind the other.
  /// @pre nothing is mapped there; the address is a multiple of granule_bytes()
  /// @param api  receives the name of a call that fails
  /// @return an error code, without any effect on an error
  /// @throws std::bad_alloc  when the host has not enough memory, without any effect
  cudaError_t map(std::uint64_t address, char const** api) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < selected_; ++i)
      bytes += chunks_[spare_[spare_.size() - 1 - i]].bytes;
    std::size_t const last = index_of(address + bytes);
    if (last > chunk_of_granule_.size()) chunk_of_granule_.resize(last);
    *api = "cuMemMap";
    std::uint64_t mapped = 0;
    driver::result code = 0;
    while (selected_ != 0) {
      std::uint32_t const index = spare_.back();
      chunk& c = chunks_[index];
      ++calls_;
      code = driver_.map(address + mapped, c.bytes, 0, c.handle, 0);
      if (code != 0) break;
      c.address = address + mapped;
      mapped += c.bytes;
      for (std::size_t g = index_of(c.address); g < index_of(c.address + c.bytes); ++g) {
        chunk_of_granule_[g] = index;
      }
      spare_.pop_back();
      spare_bytes_ -= c.bytes;
      --selected_;
    }
    if (code == 0) {
      driver::access access;
      access.where = properties_.where;
      ++calls_;
      *api = "cuMemSetAccess";
      code = driver_.set_access(address, bytes, &access, 1);
    }
    selected_ = 0;
    if (code != 0 && mapped != 0) static_cast<void>(unmap(address, mapped));
    return as_runtime(code);
  }

  /// The whole chunks in a mapped stretch of addresses.
  struct stretch {
    std::uint64_t begin = 0, end = 0;
    [[nodiscard]] std::uint64_t bytes() const noexcept { return end - begin; }
  };
  /// @pre all of it is mapped
  [[nodiscard]] stretch whole_chunks(std::uint64_t begin, std::uint64_t end) const noexcept {
    chunk const& first = chunk_at(begin);
    chunk const& last = chunk_at(end - 1);
    stretch whole{first.address == begin ? begin : first.address + first.bytes,
                  last.address + last.bytes == end ? end : last.address};
    if (whole.end < whole.begin) whole.end = whole.begin;
    return whole;
  }
  /// Unmaps whole chunks; they become spare.
  /// @pre no work uses them any more; all of it is mapped
  /// @return an error code, without any effect on an error
  cudaError_t unmap(std::uint64_t address, std::uint64_t bytes) noexcept {
    ++calls_;
    driver::result const code = driver_.unmap(address, bytes);
    if (code != 0) return as_runtime(code);
    for (std::uint64_t at = address; at < address + bytes;) {
      std::uint32_t const index = chunk_of_granule_[index_of(at)];
      at += chunks_[index].bytes;
      chunks_[index].address = 0;
      spare_.push_back(index);  // create() has reserved capacity
    }
    spare_bytes_ += bytes;
    return cudaSuccess;
  }

  /// Returns spare chunks to the device, the largest first, as long as `keep_bytes` remain spare.
  cudaError_t release_spare(std::uint64_t keep_bytes) noexcept {
    for (;;) {
      std::size_t best = spare_.size();
      for (std::size_t i = 0; i < spare_.size(); ++i) {
        std::uint64_t const bytes = chunks_[spare_[i]].bytes;
        if (bytes > spare_bytes_ - keep_bytes) continue;
        if (best == spare_.size() || bytes > chunks_[spare_[best]].bytes) best = i;
      }
      if (best == spare_.size()) return cudaSuccess;
      cudaError_t const result = release_chunk(best);
      if (result != cudaSuccess) return result;
    }
  }

 private:
  struct chunk {
    driver::memory_handle handle = 0;
    std::uint64_t address = 0;  // 0: spare
    std::uint64_t bytes = 0;    // 0: unused entry
  };
  cudaError_t create_chunk(std::uint64_t bytes) noexcept {
    try {
      // Later steps must not fail for want of host memory.
      chunks_.reserve(chunks_.size() + 1);
      spare_.reserve(chunks_.size() + 1);
    } catch (...) {
      return cudaErrorMemoryAllocation;
    }
    driver::memory_handle handle = 0;
    ++calls_;
    driver::result const code = driver_.create(&handle, bytes, &properties_, 0);
    if (code != 0) return as_runtime(code);
    std::uint32_t index = 0;
    while (index < chunks_.size() && chunks_[index].bytes != 0) ++index;
    if (index == chunks_.size()) chunks_.emplace_back();
    ++created_;
    chunks_[index] = chunk{handle, 0, bytes};
    spare_.push_back(index);
    physical_bytes_ += bytes;
    spare_bytes_ += bytes;
    return cudaSuccess;
  }
  cudaError_t release_chunk(std::size_t spare) noexcept {
    chunk& c = chunks_[spare_[spare]];
    ++calls_;
    driver::result const code = driver_.release(c.handle);
    if (code != 0) return as_runtime(code);
    ++released_;
    physical_bytes_ -= c.bytes;
    spare_bytes_ -= c.bytes;
    c = chunk{};
    spare_[spare] = spare_.back();
    spare_.pop_back();
    return cudaSuccess;
  }
  static cudaError_t as_runtime(driver::result code) noexcept {
    return static_cast<cudaError_t>(code);  // the same numbers since CUDA 10.1
  }
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const noexcept {
    return static_cast<std::size_t>((address - address_) / granule_bytes_);
  }
  [[nodiscard]] chunk const& chunk_at(std::uint64_t address) const noexcept {
    return chunks_[chunk_of_granule_[index_of(address)]];
  }

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
