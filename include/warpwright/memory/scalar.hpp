// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/buffer.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// One value in device memory: what a kernel counts into, or a reduction writes. It is a
/// device_buffer of one element, with that element's functions.
///
///   ww::device_scalar<int> count{pool, stream};
///   count.set_to_zero(stream);
///   // ... submit work that uses count.data() to `stream` ...
///   int const n = count.value(stream);   // waits
///
/// @pre As device_buffer: the pool outlives the scalar, and its stream is alive at its destruction.
/// **Threads:** one at a time, or several that only read.
template <class T, class Pool = memory_pool>
class device_scalar {
 public:
  using value_type = T;
  /// Pool&; resource_ref, where the pool is a resource_ref.
  using pool_argument = typename device_buffer<T, Pool>::pool_argument;

  /// Allocates a value, not initialised.
  /// @param pool    outlives the scalar
  /// @param stream  work submitted to this stream from now on may use the value; it is freed on it
  /// @throws as device_buffer's constructor
  /// **Stream:** ordered on `stream`; does not block. **Capture:** as the pool.
  device_scalar(pool_argument pool, stream_ref stream,
                source_location where = source_location::current())
      : element_{pool, stream, 1, where} {}

  /// Allocates a value, as above, and sets it, as set_value(), which waits on the host.
  /// **Capture:** not legal.
  device_scalar(pool_argument pool, stream_ref stream, T const& value,
                source_location where = source_location::current())
      : device_scalar{pool, stream, where} {
    set_value(stream, value, where);
  }

  /// Allocates a copy of another scalar, of any pool, as device_buffer's constructor does.
  /// @param stream  as above; it is ordered behind the last write to `other`
  template <class OtherPool>
  device_scalar(pool_argument pool, stream_ref stream, device_scalar<T, OtherPool> const& other,
                source_location where = source_location::current())
      : element_{pool, stream, other.data(), 1, where} {}

  /// Returns the value, as device_buffer::element().
  /// **Stream:** waits on the host for `stream`. **Capture:** not legal.
  [[nodiscard]] T value(stream_ref stream,
                        source_location where = source_location::current()) const {
    return element_.element(stream, 0, where);
  }
  /// Sets the value, which may be a temporary, as device_buffer::set_element().
  /// **Stream:** waits on the host for `stream`. **Capture:** not legal.
  void set_value(stream_ref stream, T const& value,
                 source_location where = source_location::current()) {
    element_.set_element(stream, 0, value, where);
  }
  /// Sets the value, without waiting, as device_buffer::set_element_async(): `value` is alive and
  /// unchanged until the stream has completed the copy; in a capture, until the graph is destroyed.
  /// **Stream:** ordered on `stream`. **Capture:** legal, with the address of `value`.
  void set_value_async(stream_ref stream, T const& value,
                       source_location where = source_location::current()) {
    element_.set_element_async(stream, 0, value, where);
  }
  void set_value_async(stream_ref stream, T const&& value,
                       source_location where = source_location::current()) =
      delete;  // the copy may read the value after the temporary's end: use set_value()
  /// Sets all bytes of the value to zero, as device_buffer::set_to_zero().
  /// **Stream:** ordered on `stream`; does not block. **Capture:** legal.
  void set_to_zero(stream_ref stream, source_location where = source_location::current()) {
    element_.set_to_zero(stream, where);
  }

  /// @return the value's address, in device memory; nullptr after a move
  [[nodiscard]] T* data() const noexcept { return element_.data(); }
  /// @return the stream on which the value is freed
  [[nodiscard]] stream_ref stream() const noexcept { return element_.stream(); }
  /// Changes the stream on which the value is freed.
  /// @pre at the free, `stream` is ordered behind all work with the value
  void set_stream(stream_ref stream) noexcept { element_.set_stream(stream); }
  /// @return as device_buffer::pool()
  [[nodiscard]] auto pool() const noexcept { return element_.pool(); }

 private:
  device_buffer<T, Pool> element_;
};

WARPWRIGHT_END
