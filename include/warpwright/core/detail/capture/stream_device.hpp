// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// The device of a stream; with a toolkit older than 12.8 the current device.
/// @pre the stream is not capturing: the query would invalidate the capture
inline device_id device_of(stream_ref stream, source_location where) {
#if CUDART_VERSION >= 12080
  // The default streams are those of the current device.
  if (stream.get() != cudaStreamLegacy && stream.get() != cudaStreamPerThread) {
    int ordinal = 0;
    check(cudaStreamGetDevice(stream.get(), &ordinal), "cudaStreamGetDevice", where);
    return device_id{ordinal};
  }
#else
  static_cast<void>(stream);
#endif
  return current_device(where);
}

}  // namespace detail

WARPWRIGHT_END
