// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// cudaMemcpyAsync on a stream of any device. CUDA refuses memory that only the stream's device can
/// access, as a memory pool's, while another device is current.
inline cudaError_t copy_async(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                              cudaStream_t stream) noexcept {
  auto const copy = [&](bool) { return cudaMemcpyAsync(to, from, bytes, kind, stream); };
  return launch_on_any(stream, copy);
}

}  // namespace detail

WARPWRIGHT_END
