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

/// The driver's functions for virtual memory, found through the runtime, so that nothing links
/// libcuda.
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

  /// @return whether this driver has them all
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

/// A range of addresses of one device, into which physical memory is mapped granule by granule, and
/// mapped elsewhere when it is not needed there any more.
///
/// Functions answer with the driver's code, which has the runtime's number. Not thread-safe.
class virtual_range {
 public:
  virtual_range() noexcept = default;
  ~virtual_range() { reset(); }
  virtual_range(virtual_range const&) = delete;
  virtual_range& operator=(virtual_range const&) = delete;

  /// Gives everything back. @pre nothing uses the memory any more
  void reset() noexcept {
    if (address_ == 0) return;
    std::uint64_t const end = address_ + handles_.size() * granule_bytes_;
    for (std::uint64_t at = address_; at < end; at += granule_bytes_) {
      if (handle_at(at) != 0) static_cast<void>(unmap(at, granule_bytes_));
    }
    for (driver::memory_handle handle : spare_) static_cast<void>(driver_.release(handle));
    static_cast<void>(driver_.unreserve(address_, bytes_));
    address_ = 0;
    count_ = 0;
    handles_.clear();
    spare_.clear();
  }

  /// Takes the addresses; no memory yet.
  /// @return false where the device or its driver cannot
  bool reserve(device_id device, std::uint64_t bytes) noexcept {
    constexpr int supported = driver::attribute_virtual_memory;
    constexpr int rdma = driver::attribute_rdma_with_virtual_memory;
    int yes = 0;
    if (!driver_.find() || driver_.device_attribute(&yes, supported, device.value()) != 0 ||
        yes == 0) {
      return false;
    }
    properties_.where.id = device.value();
    // What cudaMalloc's memory can do: network cards may reach it.
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
  /// Physical memory that is mapped nowhere.
  [[nodiscard]] std::uint64_t spare_bytes() const noexcept {
    return spare_.size() * granule_bytes_;
  }
  /// Calls that made, mapped, unmapped or released memory so far.
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  /// All physical memory held, mapped or spare.
  [[nodiscard]] std::uint64_t physical_bytes() const noexcept { return count_ * granule_bytes_; }

  /// Makes spare memory.
  /// @return cudaErrorMemoryAllocation when device or host have no more; what came before it stays
  cudaError_t create_spare(std::uint64_t bytes) noexcept {
    for (; bytes != 0; bytes -= granule_bytes_) {
      driver::memory_handle handle = 0;
      if (!make_room(spare_, count_ + 1)) return cudaErrorMemoryAllocation;
      ++calls_;
      driver::result const answer = driver_.create(&handle, granule_bytes_, &properties_, 0);
      if (answer != 0) return as_runtime(answer);
      spare_.push_back(handle);
      ++count_;
    }
    return cudaSuccess;
  }

  /// Maps spare memory to a part of the range where nothing is mapped.
  /// @pre as much is spare; address and size are multiples of granule_bytes()
  /// @return on an error nothing has changed
  cudaError_t map(std::uint64_t address, std::uint64_t bytes) noexcept {
    std::size_t const last = index_of(address + bytes);
    if (last > handles_.size()) {
      if (!make_room(handles_, last)) return cudaErrorMemoryAllocation;
      handles_.resize(last);
    }
    std::uint64_t mapped = 0;
    driver::result answer = 0;
    for (; mapped < bytes; mapped += granule_bytes_) {
      ++calls_;
      answer = driver_.map(address + mapped, granule_bytes_, 0, spare_.back(), 0);
      if (answer != 0) break;
      handles_[index_of(address + mapped)] = spare_.back();
      spare_.pop_back();
    }
    if (answer == 0) {
      driver::access access;
      access.where = properties_.where;
      ++calls_;
      answer = driver_.set_access(address, bytes, &access, 1);
    }
    if (answer != 0 && mapped != 0) static_cast<void>(unmap(address, mapped));
    return as_runtime(answer);
  }

  /// Takes memory out of a part of the range; it is spare then.
  /// @pre nothing uses it any more; all of it is mapped
  /// @return on an error nothing has changed
  cudaError_t unmap(std::uint64_t address, std::uint64_t bytes) noexcept {
    ++calls_;
    driver::result const answer = driver_.unmap(address, bytes);
    if (answer != 0) return as_runtime(answer);
    for (std::uint64_t done = 0; done < bytes; done += granule_bytes_) {
      spare_.push_back(handle_at(address + done));  // create_spare() made room for all
      handles_[index_of(address + done)] = 0;
    }
    return cudaSuccess;
  }

  /// Gives spare memory back to the device, all but `keep_bytes`.
  cudaError_t release_spare(std::uint64_t keep_bytes) noexcept {
    while (!spare_.empty() && spare_bytes() > keep_bytes) {
      ++calls_;
      driver::result const answer = driver_.release(spare_.back());
      if (answer != 0) return as_runtime(answer);
      spare_.pop_back();
      --count_;
    }
    return cudaSuccess;
  }

 private:
  using handle_array = array<driver::memory_handle>;
  static cudaError_t as_runtime(driver::result answer) noexcept {
    return static_cast<cudaError_t>(answer);  // one numbering since CUDA 10.1
  }
  static bool make_room(handle_array& handles, std::size_t count) noexcept {
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
  std::size_t count_ = 0;
  std::uint64_t calls_ = 0;
  handle_array handles_;  // by granule of the range; 0: nothing is mapped there
  handle_array spare_;
};

}  // namespace detail

WARPWRIGHT_END
