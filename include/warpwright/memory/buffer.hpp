// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/memory/pool.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// n * sizeof(T); on overflow a size that no device has.
template <class T>
constexpr std::size_t bytes_for(std::size_t n) noexcept {
  return n <= ~std::size_t{0} / sizeof(T) ? n * sizeof(T) : ~std::size_t{0};
}

}  // namespace detail

/// An owning array of device memory, allocated from a pool on a stream and freed by the destructor.
/// The pool is a memory_pool or a class with its interface: a memory_cache, an adaptor.
///
/// @pre The pool outlives the buffer, and the buffer's stream is alive at the buffer's destruction.
/// **Threads:** as a std::vector: one at a time, or several that only read.
template <class T, class Pool = memory_pool>
class device_buffer {
  static_assert(std::is_object<T>::value && std::is_trivially_copyable<T>::value &&
                    !std::is_const<T>::value && !std::is_array<T>::value,
                "warpwright::device_buffer<T>: T must be trivially copyable and not const, for its "
                "objects are made and copied as bytes: hold a plain struct or a number type");

 public:
  using value_type = T;

  /// An empty buffer without a pool.
  device_buffer() noexcept = default;

  /// Allocates a buffer.
  /// @param pool    outlives the buffer
  /// @param stream  work submitted to this stream from now on may use the elements; they are freed
  ///   on it
  /// @param size    number of elements, not initialised; 0 allocates nothing
  /// @throws out_of_memory                      when there is not enough memory, or size *
  ///   sizeof(T) overflows
  /// @throws std::invalid_argument, cuda_error  as memory_pool::allocate()
  /// **Stream:** ordered on `stream`. **Capture:** as the pool.
  device_buffer(Pool& pool, stream_ref stream, std::size_t size,
                source_location where = source_location::current())
      : pool_{&pool}, stream_{stream} {
    reallocate(size, where);
  }

  /// The other buffer is left empty, with its pool and stream.
  device_buffer(device_buffer&& other) noexcept
      : pool_{other.pool_},
        stream_{other.stream_},
        data_{detail::exchange(other.data_, nullptr)},
        size_{detail::exchange(other.size_, 0)} {}
  /// Frees this buffer's elements first; the other buffer is left empty.
  device_buffer& operator=(device_buffer&& other) noexcept {
    if (this == &other) return *this;
    free();
    pool_ = other.pool_;
    stream_ = other.stream_;
    data_ = detail::exchange(other.data_, nullptr);
    size_ = detail::exchange(other.size_, 0);
    return *this;
  }
  /// Frees the elements on stream(). Never throws: an error of the pool is ignored.
  ~device_buffer() { free(); }

  /// @return the first element, in device memory; nullptr when empty
  [[nodiscard]] T* data() const noexcept { return data_; }
  /// @return the number of elements
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// @return the size of all elements in bytes
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  /// @return whether there are no elements
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// @return the stream on which the elements are freed
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// @return the pool; nullptr for a buffer that was default-constructed
  [[nodiscard]] Pool* pool() const noexcept { return pool_; }

  /// Replaces the elements by `size` new ones, not initialised. The old elements are freed first,
  /// so that the new ones may use their memory; after a failed allocation the buffer is empty.
  /// @throws as the constructor
  /// **Stream:** ordered on stream(). **Capture:** as the pool.
  void reallocate(std::size_t size, source_location where = source_location::current()) {
    free();
    data_ = allocate(size, where);
    size_ = size;
  }

  /// Changes the number of elements and keeps the values of the remaining ones; new elements are
  /// not initialised.
  /// @throws as the constructor; the buffer is unchanged then
  /// **Stream:** one copy on stream() if elements remain; does not block. **Capture:** as the pool.
  /// **Cost:** both arrays are live during the call; nothing when the size stays.
  void resize(std::size_t size, source_location where = source_location::current()) {
    if (size == size_) return;
    device_buffer larger{};
    larger.pool_ = pool_;
    larger.stream_ = stream_;
    larger.reallocate(size, where);
    std::size_t const kept = size < size_ ? size : size_;
    if (kept != 0) {
      check(cudaMemcpyAsync(larger.data_, data_, kept * sizeof(T), cudaMemcpyDeviceToDevice,
                            stream_.get()),
            "cudaMemcpyAsync", where);
    }
    *this = std::move(larger);
  }

  /// Changes the stream on which the elements are freed.
  /// @pre at the free, `stream` is ordered behind all work with the elements
  void set_stream(stream_ref stream) noexcept { stream_ = stream; }

  /// Releases ownership of the elements.
  /// @return data(); free it with pool()->deallocate(stream, pointer, size_bytes() before the call)
  [[nodiscard]] T* release() noexcept {
    size_ = 0;
    return detail::exchange(data_, nullptr);
  }

 private:
  T* allocate(std::size_t size, source_location where) {
    if (size == 0) return nullptr;
    if (pool_ == nullptr) {
      detail::throw_invalid_argument(
          detail::text{"device_buffer: a default-constructed buffer has no pool to allocate "} +
              size + " elements from; construct it with a pool and a stream",
          where);
    }
    constexpr std::size_t alignment =
        alignof(T) > Pool::block_alignment_bytes ? alignof(T) : Pool::block_alignment_bytes;
    return static_cast<T*>(pool_->allocate(stream_, detail::bytes_for<T>(size), alignment, where));
  }
  void free() noexcept {
    if (data_ == nullptr) return;
    try {
      pool_->deallocate(stream_, data_, size_bytes());
    } catch (...) {  // a destructor cannot throw; the pool counts the block as live
    }
    data_ = nullptr;
    size_ = 0;
  }

  Pool* pool_ = nullptr;
  stream_ref stream_ = stream_ref::legacy_default();
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

WARPWRIGHT_END
