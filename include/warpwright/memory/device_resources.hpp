// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/memory/resource_ref.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// The resource that a program uses on each device: an object that the program creates and passes
/// on; there is no global one.
///
///   ww::device_resources resources;
///   resources.install(pool);                                    // for pool.device()
///   ww::device_buffer<float, ww::resource_ref> x{resources.current(), stream, n};
///
/// @pre An installed resource outlives this object, or is replaced or removed before its
///   destruction, and outlives its blocks in any case: a block returns to the resource that it came
///   from, whatever is installed then.
/// **Threads:** any number may call any member at once. **Capture:** legal.
/// **Cost:** a spin lock and a search of a short list; current() one CUDA call in addition. Look a
/// resource up once, not at every allocation.
class device_resources : detail::noncopyable {
 public:
  device_resources() noexcept = default;

  /// Installs a resource for its device; replaces the one that is installed.
  /// @param resource  its device() is a device of CUDA's
  /// @throws std::invalid_argument  for a resource of host memory, which has no device
  /// @throws std::bad_alloc         when the host has no memory for the entry
  void install(resource_ref resource, source_location where = source_location::current()) {
    install(resource.device(), resource, where);
  }
  /// Installs a resource for a device; replaces the one that is installed.
  /// @param device    the device whose work uses the memory
  /// @param resource  of this device, or of host memory that the device can access
  /// @throws std::invalid_argument  for a device below 0, and for a resource of another device
  /// @throws std::bad_alloc         when the host has no memory for the entry
  void install(device_id device, resource_ref resource,
               source_location where = source_location::current()) {
    device_id const own = resource.device();
    if (device.value() < 0) {
      detail::throw_invalid_argument(
          detail::text{"device_resources: cannot install a resource for device "} + device.value() +
              "; name the device whose work uses the memory, from 0 on",
          where);
    }
    if (own.value() >= 0 && own != device) {
      detail::throw_invalid_argument(
          detail::text{"device_resources: cannot install a resource of device "} + own.value() +
              " for device " + device.value() + "; install it for its own device",
          where);
    }
    detail::unique_lock<detail::spin_lock> const lock{lock_};
    for (entry& existing : entries_) {
      if (existing.device == device) {
        existing.resource = resource;
        return;
      }
    }
    entries_.push_back(entry{device, resource});
  }
  /// Removes the resource of a device; does nothing if there is none.
  void remove(device_id device) noexcept {
    detail::unique_lock<detail::spin_lock> const lock{lock_};
    for (entry& existing : entries_) {
      if (existing.device != device) continue;
      existing = entries_.back();
      entries_.pop_back();
      return;
    }
  }
  /// @return whether a resource is installed for the device
  [[nodiscard]] bool contains(device_id device) const noexcept {
    detail::unique_lock<detail::spin_lock> const lock{lock_};
    return find(device) != nullptr;
  }
  /// Returns the resource of a device.
  /// @throws std::invalid_argument  when none is installed
  [[nodiscard]] resource_ref at(device_id device,
                                source_location where = source_location::current()) const {
    {
      detail::unique_lock<detail::spin_lock> const lock{lock_};
      if (entry const* const found = find(device)) return found->resource;
    }
    throw_missing(device, where);
  }
  /// Returns the resource of the calling thread's current device.
  /// @throws std::invalid_argument  when none is installed
  /// @throws cuda_error             when the device cannot be queried
  [[nodiscard]] resource_ref current(source_location where = source_location::current()) const {
    return at(current_device(where), where);
  }

 private:
  struct entry {
    device_id device;
    resource_ref resource;
  };

  entry const* find(device_id device) const noexcept {
    for (entry const& existing : entries_) {
      if (existing.device == device) return &existing;
    }
    return nullptr;
  }
  [[noreturn]] WARPWRIGHT_COLD void throw_missing(device_id device, source_location where) const {
    detail::text problem =
        detail::text{"device_resources: no resource is installed for device "} + device.value();
    {
      detail::unique_lock<detail::spin_lock> const lock{lock_};
      for (std::size_t i = 0; i < entries_.size(); ++i) {
        problem += i == 0 ? "; there is one for " : ", ";
        problem += entries_[i].device.value();
      }
    }
    detail::throw_invalid_argument(problem + "; call install() for it first", where);
  }

  mutable detail::spin_lock lock_;
  detail::array<entry> entries_;  // guarded by lock_
};

WARPWRIGHT_END
