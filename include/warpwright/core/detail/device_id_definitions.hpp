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

WARPWRIGHT_INLINE device_id current_device(source_location where) {
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "cudaGetDevice", where);
  return device_id{ordinal};
}

WARPWRIGHT_INLINE scoped_device::scoped_device(device_id device, source_location where)
    : previous_{current_device(where)}, changed_{previous_ != device} {
  if (changed_) check(cudaSetDevice(device.value()), "cudaSetDevice", where);
}

WARPWRIGHT_INLINE scoped_device::~scoped_device() {
  if (changed_) detail::discard(cudaSetDevice(previous_.value()));
}

WARPWRIGHT_END
