// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/device_id.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE int device_count(source_location where) {
  int count = 0;
  cudaError_t const status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  if (status == cudaErrorInsufficientDriver) {
    // The code is the same for a driver that is too old and for no driver, whose version is 0.
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

namespace detail {

WARPWRIGHT_INLINE text missing_device(device_id device, int count) {
  return text{"device "} + device.value() + " does not exist: the number of visible devices is " +
         count + " (check CUDA_VISIBLE_DEVICES)";
}

WARPWRIGHT_INLINE void throw_with_device(cudaError_t status, device_id device, char const* api,
                                         source_location where) {
  if (status != cudaErrorInvalidDevice) throw_cuda_error(status, api, where);
  int count = 0;
  discard(cudaGetDeviceCount(&count));
  throw_cuda_error(status, api, where, missing_device(device, count).c_str());
}

}  // namespace detail

WARPWRIGHT_INLINE device_id current_device(source_location where) {
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "cudaGetDevice", where);
  return device_id{ordinal};
}

WARPWRIGHT_INLINE scoped_device::scoped_device(device_id device, source_location where)
    : previous_{current_device(where)}, changed_{previous_ != device} {
  if (changed_) {
    detail::check_with_device(cudaSetDevice(device.value()), device, "cudaSetDevice", where);
  }
}

WARPWRIGHT_INLINE scoped_device::~scoped_device() {
  if (changed_) detail::discard(cudaSetDevice(previous_.value()));
}

WARPWRIGHT_END
