// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/stream.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// The device of a stream that may be capturing; the current one if the stream does not exist.
inline device_id device_of_any(stream_ref stream, source_location where) {
  scoped_stream_device const scope{stream.get()};
  return current_device(where);
}

/// The device of a stream.
/// @pre the stream is not capturing: cudaStreamGetDevice would invalidate the capture
inline device_id device_of(stream_ref stream, source_location where) {
#if CUDART_VERSION >= 12080
  // The default streams are those of the current device.
  if (stream.get() != cudaStreamLegacy && stream.get() != cudaStreamPerThread) {
    int ordinal = 0;
    check(cudaStreamGetDevice(stream.get(), &ordinal), "cudaStreamGetDevice", where);
    return device_id{ordinal};
  }
#endif
  return device_of_any(stream, where);
}

}  // namespace detail

WARPWRIGHT_END
