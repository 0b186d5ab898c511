// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// Frees a block for a destructor, which cannot throw; tries it once more when it fails. Then the
/// pool counts the block as live.
template <class Pool>
void free_or_retry(Pool& pool, stream_ref stream, void* pointer, std::size_t bytes) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      pool.deallocate(stream, pointer, bytes);
      return;
    } catch (...) {
    }
  }
}

/// As free_behind(), for a default stream, and after a failure.
template <class Pool>
WARPWRIGHT_NOINLINE void free_behind_any(Pool& pool, named_stream const& named, void* pointer,
                                         std::size_t bytes) noexcept {
  stream_ref stream = named.here();
  device_of_default const current{stream, named.device()};
  if (stream != named.stream() && may_be_capturing_anywhere()) {
    // Any use of the legacy stream would break a capture of a blocking stream.
    relaxed_capture_mode const relaxed;
    if (wait_for_running_work() != cudaSuccess) return;
    stream = stream_ref::per_thread();
  }
  free_or_retry(pool, stream, pointer, bytes);
}

/// Frees a block of an object that ends, on the stream that it has named, in any thread and with
/// any device current. Tries it once more when it fails.
template <class Pool>
void free_behind(Pool& pool, named_stream const& named, void* pointer, std::size_t bytes) noexcept {
  if (!is_default_stream(named.stream())) {
    try {
      pool.deallocate(named.stream(), pointer, bytes);
      return;
    } catch (...) {
    }
  }
  free_behind_any(pool, named, pointer, bytes);
}

}  // namespace detail

WARPWRIGHT_END
