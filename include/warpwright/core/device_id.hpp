// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

/// The ordinal of a CUDA device; explicit, so that a size or a flag never passes for a device.
class device_id {
 public:
  /// @param ordinal  0 to device_count() - 1, as CUDA numbers the visible devices
  explicit constexpr device_id(int ordinal) noexcept : ordinal_{ordinal} {}
  /// @return the ordinal
  [[nodiscard]] constexpr int value() const noexcept { return ordinal_; }
  friend constexpr bool operator==(device_id a, device_id b) noexcept {
    return a.ordinal_ == b.ordinal_;
  }
  friend constexpr bool operator!=(device_id a, device_id b) noexcept { return !(a == b); }

 private:
  int ordinal_;
};

/// How many CUDA devices this process sees.
/// @return the number; 0 when there is no device or no driver
/// @throws cuda_error  for any other failure, a driver older than the runtime for one
/// **Threads:** any. **Capture:** legal.
inline int device_count(source_location where = source_location::current()) {
  int count = 0;
  cudaError_t const status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  if (status == cudaErrorInsufficientDriver) {
    // The code for "too old" stands for "none" as well, whose version is 0.
    int driver_version = 0;
    check(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion", where);
    if (driver_version == 0) {
      static_cast<void>(cudaGetLastError());
      return 0;
    }
  }
  check(status, "cudaGetDeviceCount", where);
  return count;
}

/// The device that the calling thread's CUDA calls go to.
/// @throws cuda_error  when CUDA cannot be initialised
/// **Threads:** any; each thread has its own. **Capture:** legal. **Cost:** one CUDA call, tens of
/// ns.
inline device_id current_device(source_location where = source_location::current()) {
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "cudaGetDevice", where);
  return device_id{ordinal};
}

/// Makes a device current for the calling thread, and the earlier one again at the scope's end.
/// **Threads:** belongs to the thread that made it. **Capture:** legal.
/// **Cost:** one cudaGetDevice, and two cudaSetDevice only when the device really changes.
class scoped_device {
 public:
  /// @param device  the device to use inside the scope
  /// @throws cuda_error  for an ordinal that does not exist
  /// **Stream:** none. **Capture:** legal.
  explicit scoped_device(device_id device, source_location where = source_location::current())
      : before_{current_device(where)}, changed_{before_ != device} {
    if (changed_) check(cudaSetDevice(device.value()), "cudaSetDevice", where);
  }
  ~scoped_device() {
    if (changed_) detail::discard(cudaSetDevice(before_.value()));
  }
  scoped_device(scoped_device const&) = delete;
  scoped_device& operator=(scoped_device const&) = delete;

 private:
  device_id before_;
  bool changed_;
};

WARPWRIGHT_END
