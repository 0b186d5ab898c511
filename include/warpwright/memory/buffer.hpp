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

/// n * sizeof(T), or more than any memory has when that overflows.
template <class T>
constexpr std::size_t bytes_for(std::size_t n) noexcept {
  return n <= ~std::size_t{0} / sizeof(T) ? n * sizeof(T) : ~std::size_t{0};
}

}  // namespace detail

/// An array of device memory with an owner: from a pool on a stream, given back at the end. The
/// pool is a memory_pool, or anything with its interface: a memory_cache, an adaptor.
///
/// @pre The pool outlives the buffer, and the buffer's stream is alive at the buffer's end.
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

  /// @param pool    outlives the buffer
  /// @param stream  the elements may be used by work given to this stream from now on; they are
  ///   freed on it
  /// @param size    number of elements, not initialised; 0 takes no memory
  /// @throws out_of_memory                      when the memory cannot be had; also when
  ///   size * sizeof(T) overflows
  /// @throws std::invalid_argument, cuda_error  as memory_pool::allocate()
  /// **Stream:** ordered on `stream`. **Capture:** as the pool's.
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
  /// Frees what this buffer has first; the other buffer is left empty.
  device_buffer& operator=(device_buffer&& other) noexcept {
    if (this == &other) return *this;
    free();
    pool_ = other.pool_;
    stream_ = other.stream_;
    data_ = detail::exchange(other.data_, nullptr);
    size_ = detail::exchange(other.size_, 0);
    return *this;
  }
  /// Frees the elements on stream(). Never throws: an error of the pool is dropped.
  ~device_buffer() { free(); }

  /// @return the first element, in device memory; nullptr when empty
  [[nodiscard]] T* data() const noexcept { return data_; }
  /// @return the number of elements
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// @return the size of all elements in bytes
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  /// @return whether there are no elements
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// @return the stream that the elements are freed on
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// @return the pool; nullptr for a buffer that was default-constructed
  [[nodiscard]] Pool* pool() const noexcept { return pool_; }

  /// Replaces the elements by `size` new ones, not initialised.
  /// The old ones are freed first, so that the new ones may use their memory; when the allocation
  /// fails the buffer is empty. @throws as the constructor
  /// **Stream:** ordered on stream(). **Capture:** as the pool's.
  void reallocate(std::size_t size, source_location where = source_location::current()) {
    free();
    data_ = allocate(size, where);
    size_ = size;
  }

  /// Changes the number of elements and keeps the values of those that stay; new ones are not
  /// initialised. When it throws, the buffer is as it was. @throws as the constructor
  /// **Stream:** one copy on stream() when something stays; does not block. **Capture:** as the
  /// pool's.
  /// **Cost:** both sizes live for a moment; nothing when the size stays.
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

  /// Frees the elements on another stream from now on.
  /// @pre that stream is ordered behind all work with the elements when they are freed
  void set_stream(stream_ref stream) noexcept { stream_ = stream; }

  /// Gives the elements out of the buffer's hands.
  /// @return what data() was; free it with pool()->deallocate(stream, pointer, size_bytes as
  /// before)
  [[nodiscard]] T* release() noexcept {
    size_ = 0;
    return detail::exchange(data_, nullptr);
  }

 private:
  T* allocate(std::size_t size, source_location where) {
    if (size == 0) return nullptr;
    if (pool_ == nullptr) {
      detail::throw_invalid_argument(
          detail::text{"device_buffer: a default-constructed buffer has no pool to take "} + size +
              " elements from; construct it with a pool and a stream",
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
    } catch (...) {  // a destructor cannot report; the pool counts the block as live
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
