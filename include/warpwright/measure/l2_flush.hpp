// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Empties the L2 cache of a user's data, for cold measurements.
//
//   ww::l2_flush flush;
//   auto const cold = ww::measure_cold(stream, flush, [&] { step(stream); });
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/core/stream.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Owns a buffer of twice the size of the L2 cache, and overwrites it, so that nothing else is in
/// the cache. Not copyable.
///
/// **Threads:** one stream at a time.
class l2_flush {
 public:
  /// Allocates the buffer on the current device.
  /// @throws cuda_error if the cache's size cannot be queried, or for lack of memory
  /// **Capture:** not legal. **Cost:** one cudaMalloc of twice the size of the L2 cache; 100 MB on
  /// an H100.
  explicit l2_flush(source_location where = source_location::current()) : where_{where} {
    int l2_bytes = 0;
    check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, current_device(where).value()),
          "cudaDeviceGetAttribute", where);
    if (l2_bytes <= 0) return;  // no cache to flush
    bytes_ = 2 * static_cast<std::size_t>(l2_bytes);
    check(cudaMalloc(&buffer_, bytes_), "cudaMalloc", where);
  }
  /// The other object is left without a buffer.
  l2_flush(l2_flush&& other) noexcept
      : buffer_{detail::exchange(other.buffer_, nullptr)},
        bytes_{detail::exchange(other.bytes_, std::size_t{0})},
        where_{other.where_} {}
  l2_flush& operator=(l2_flush&&) = delete;
  /// Frees the buffer, which waits for the device.
  ~l2_flush() {
    if (buffer_ != nullptr) detail::discard(cudaFree(buffer_));
  }

  /// Overwrites the buffer.
  /// @param stream  of the device that was current at construction
  /// @throws cuda_error if the call fails
  /// **Stream:** one cudaMemsetAsync on `stream`; does not block. **Capture:** legal.
  void operator()(stream_ref stream) {
    if (buffer_ == nullptr) return;
    check(cudaMemsetAsync(buffer_, 0, bytes_, stream.get()), "cudaMemsetAsync", where_);
  }
  /// @return the size of the buffer; 0 on a device that reports no L2 cache
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_; }

 private:
  void* buffer_ = nullptr;
  std::size_t bytes_ = 0;
  source_location where_;
};

WARPWRIGHT_END
