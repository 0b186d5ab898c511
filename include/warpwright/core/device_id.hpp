// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

/// The ordinal of a CUDA device. It does not convert from int, so a size or flag cannot be passed
/// as a device by mistake.
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

namespace detail {

// What is wrong with a device that is not one of `count`.
text missing_device(device_id device, int count);

[[noreturn]] WARPWRIGHT_COLD void throw_with_device(cudaError_t status, device_id device,
                                                    char const* api, source_location where);

// check() of a call that gets a device: the text of an invalid one has its ordinal and the remedy.
inline void check_with_device(cudaError_t status, device_id device, char const* api,
                              source_location where) {
  if (status != cudaSuccess) throw_with_device(status, device, api, where);
}

}  // namespace detail

/// Returns the number of CUDA devices visible to this process.
/// @return the number; 0 if there is no device or no driver
/// @throws cuda_error  for any other failure, for instance a driver older than the runtime
/// **Threads:** any. **Capture:** legal.
int device_count(source_location where = source_location::current());

/// Returns the calling thread's current device.
/// @throws cuda_error  when CUDA cannot be initialised
/// **Threads:** any; each thread has its own. **Capture:** legal. **Cost:** one CUDA call.
device_id current_device(source_location where = source_location::current());

/// Makes a device current for the calling thread, and restores the previous one at the end of
/// scope.
/// **Threads:** destroy it on the thread that constructed it. **Capture:** legal.
/// **Cost:** one cudaGetDevice, and two cudaSetDevice if the device changes.
class scoped_device : detail::noncopyable {
 public:
  /// @param device  the device to use inside the scope
  /// @throws cuda_error  for an ordinal that does not exist
  /// **Stream:** none. **Capture:** legal.
  explicit scoped_device(device_id device, source_location where = source_location::current());
  ~scoped_device();

 private:
  device_id previous_;
  bool changed_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/device/device_id_definitions.hpp>
#endif
