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

/// An address range of one device into which physical memory is mapped granule by granule, and
/// remapped to other addresses of the range.
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
    std::uint64_t const end = address_ + handles_.size() * granule_bytes_;
    for (std::uint64_t at = address_; at < end; at += granule_bytes_) {
      if (handle_at(at) != 0) static_cast<void>(unmap(at, granule_bytes_));
    }
    for (driver::memory_handle handle : spare_) static_cast<void>(driver_.release(handle));
    static_cast<void>(driver_.unreserve(address_, bytes_));
    address_ = 0;
    granule_count_ = 0;
    handles_.clear();
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
  [[nodiscard]] std::uint64_t spare_bytes() const noexcept {
    return spare_.size() * granule_bytes_;
  }
  /// Calls so far that created, mapped, unmapped or released memory.
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  /// All physical memory, mapped or spare.
  [[nodiscard]] std::uint64_t physical_bytes() const noexcept {
    return granule_count_ * granule_bytes_;
  }

  /// Creates spare memory.
  /// @return cudaErrorMemoryAllocation when device or host have not enough memory; what was created
  ///   before stays spare
  cudaError_t create_spare(std::uint64_t bytes) noexcept {
    for (; bytes != 0; bytes -= granule_bytes_) {
      driver::memory_handle handle = 0;
      if (!try_reserve(spare_, granule_count_ + 1)) return cudaErrorMemoryAllocation;
      ++calls_;
      driver::result const code = driver_.create(&handle, granule_bytes_, &properties_, 0);
      if (code != 0) return as_runtime(code);
      spare_.push_back(handle);
      ++granule_count_;
    }
    return cudaSuccess;
  }

  /// Maps spare memory to a part of the range where nothing is mapped.
  /// @pre enough memory is spare; address and size are multiples of granule_bytes()
  /// @return an error code, without any effect on an error
  cudaError_t map(std::uint64_t address, std::uint64_t bytes) noexcept {
    std::size_t const last = index_of(address + bytes);
    if (last > handles_.size()) {
      if (!try_reserve(handles_, last)) return cudaErrorMemoryAllocation;
      handles_.resize(last);
    }
    std::uint64_t mapped = 0;
    driver::result code = 0;
    for (; mapped < bytes; mapped += granule_bytes_) {
      ++calls_;
      code = driver_.map(address + mapped, granule_bytes_, 0, spare_.back(), 0);
      if (code != 0) break;
      handles_[index_of(address + mapped)] = spare_.back();
      spare_.pop_back();
    }
    if (code == 0) {
      driver::access access;
      access.where = properties_.where;
      ++calls_;
      code = driver_.set_access(address, bytes, &access, 1);
    }
    if (code != 0 && mapped != 0) static_cast<void>(unmap(address, mapped));
    return as_runtime(code);
  }

  /// Unmaps a part of the range; its memory becomes spare.
  /// @pre no work uses it any more; all of it is mapped
  /// @return an error code, without any effect on an error
  cudaError_t unmap(std::uint64_t address, std::uint64_t bytes) noexcept {
    ++calls_;
    driver::result const code = driver_.unmap(address, bytes);
    if (code != 0) return as_runtime(code);
    for (std::uint64_t done = 0; done < bytes; done += granule_bytes_) {
      spare_.push_back(handle_at(address + done));  // create_spare() has reserved capacity
      handles_[index_of(address + done)] = 0;
    }
    return cudaSuccess;
  }

  /// Returns spare memory to the device, all but `keep_bytes`.
  cudaError_t release_spare(std::uint64_t keep_bytes) noexcept {
    while (!spare_.empty() && spare_bytes() > keep_bytes) {
      ++calls_;
      driver::result const code = driver_.release(spare_.back());
      if (code != 0) return as_runtime(code);
      spare_.pop_back();
      --granule_count_;
    }
    return cudaSuccess;
  }

 private:
  using handle_array = array<driver::memory_handle>;
  static cudaError_t as_runtime(driver::result code) noexcept {
    return static_cast<cudaError_t>(code);  // the same numbers since CUDA 10.1
  }
  static bool try_reserve(handle_array& handles, std::size_t count) noexcept {
    try {
      handles.reserve(count);
    } catch (...) {
      return false;
    }
    return true;
  }
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const noexcept {
    return static_cast<std::size_t>((address - address_) / granule_bytes_);
  }
  [[nodiscard]] driver::memory_handle handle_at(std::uint64_t address) const noexcept {
    return handles_[index_of(address)];
  }

  virtual_memory_functions driver_;
  driver::allocation_properties properties_;
  driver::device_pointer address_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t granule_bytes_ = 0;
  std::size_t granule_count_ = 0;
  std::uint64_t calls_ = 0;
  handle_array handles_;  // by granule of the range; 0: not mapped
  handle_array spare_;
};

}  // namespace detail

WARPWRIGHT_END
