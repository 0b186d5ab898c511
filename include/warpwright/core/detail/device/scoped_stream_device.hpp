// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// Makes the device of a stream the current one during its lifetime. It does nothing for a default
/// stream, whose handle means that of the current device.
///
/// By the driver's contexts, which unlike cudaStreamGetDevice may be asked for during a capture,
/// also with toolkits older than 12.8; and unlike cudaSetDevice they make no context on a device
/// that the thread has not used.
/// **Capture:** legal. **Cost:** two calls of the driver if the device is current already.
class scoped_stream_device : noncopyable {
 public:
  explicit scoped_stream_device(cudaStream_t stream) noexcept;
  ~scoped_stream_device();

  /// @return whether another device was current
  [[nodiscard]] bool changed() const noexcept { return changed_; }

 private:
  bool changed_ = false;
};

/// The second attempt of launch_on_any(), below.
/// @param status  of the first
template <class Launch>
WARPWRIGHT_COLD cudaError_t launch_again(cudaStream_t stream, cudaError_t status,
                                         Launch const& launch) {
  scoped_stream_device const scope{stream};
  if (!scope.changed()) return status;
  static_cast<void>(cudaGetLastError());
  return launch(true);
}

/// Launches on a stream of any device. CUDA documents that a launch fails if the stream's device is
/// not current, so it is done again with that device: the first attempt costs no further call.
/// @param launch  `cudaError_t(bool again)`
template <class Launch>
cudaError_t launch_on_any(cudaStream_t stream, Launch const& launch) {
  cudaError_t const status = launch(false);
  return status == cudaSuccess ? status : launch_again(stream, status, launch);
}

/// cudaMemcpyAsync on a stream of any device. CUDA refuses memory that only the stream's device can
/// access, as a memory pool's, while another device is current.
inline cudaError_t copy_async(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                              cudaStream_t stream) noexcept {
  auto const copy = [&](bool) { return cudaMemcpyAsync(to, from, bytes, kind, stream); };
  return launch_on_any(stream, copy);
}

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/device/scoped_stream_device_definitions.hpp>
#endif
