// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/free_behind.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/memory/resource_ref.hpp>

#include <cstddef>
#include <new>
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
/// The pool is a memory_pool or a class with its interface: a memory_cache, a resource, an adaptor,
/// or a resource_ref, which the buffer copies.
///
/// @pre The pool outlives the buffer, and the buffer's stream is alive at the buffer's destruction.
///   Work on another stream than stream() is ordered by the caller: a copy on `s` behind the
///   elements' allocation and last write, and the free behind the copy (set_stream()).
/// **Threads:** as a std::vector: one at a time, or several that only read.
template <class T, class Pool = memory_pool>
class device_buffer {
  static_assert(std::is_object<T>::value && std::is_trivially_copyable<T>::value &&
                    !std::is_const<T>::value && !std::is_array<T>::value,
                "warpwright::device_buffer<T>: T must be trivially copyable and not const, for its "
                "objects are made and copied as bytes: hold a plain struct or a number type");

 public:
  using value_type = T;
  /// Pool&; resource_ref, where the pool is a resource_ref.
  using pool_argument = typename detail::pool_pointer<Pool>::argument;

  /// An empty buffer without a pool.
  device_buffer() noexcept = default;

  /// Allocates a buffer.
  /// @param pool    outlives the buffer
  /// @param stream  work submitted to this stream from now on may use the elements; they are freed
  ///   on it. A default stream is that of the current device, and the per-thread one that of this
  ///   thread, wherever the buffer ends
  /// @param size    number of elements, not initialised; 0 allocates nothing
  /// @throws out_of_memory                      when there is not enough memory, or size *
  ///   sizeof(T) overflows
  /// @throws std::invalid_argument, cuda_error  as memory_pool::allocate()
  /// **Stream:** ordered on `stream`. **Capture:** as the pool.
  device_buffer(pool_argument pool, stream_ref stream, std::size_t size,
                source_location where = source_location::current())
      : pool_{pool}, stream_{stream} {
    reallocate(size, where);
  }

  /// Allocates a buffer and copies elements into it.
  /// @param pool    outlives the buffer
  /// @param stream  as above
  /// @param source  `size` elements, of host or device memory, as copy_from()
  /// @param size    number of elements; 0 allocates nothing
  /// @throws as above, and cuda_error when the copy fails
  /// **Stream:** ordered on `stream`; copy_from() says when it blocks. **Capture:** as the pool and
  /// copy_from().
  device_buffer(pool_argument pool, stream_ref stream, T const* source, std::size_t size,
                source_location where = source_location::current())
      : device_buffer{pool, stream, size, where} {
    copy_from(stream, source, size, 0, where);
  }

  /// Allocates a copy of another buffer.
  /// @param pool    outlives the buffer; it may be another one than other.pool()
  /// @param stream  as above; it is ordered behind the last write to `other`
  /// @param other   its elements are copied, its capacity is not
  /// @throws as above, and cuda_error when the copy fails
  /// **Stream:** ordered on `stream`; does not block. **Capture:** as the pool.
  template <class OtherPool>
  device_buffer(pool_argument pool, stream_ref stream, device_buffer<T, OtherPool> const& other,
                source_location where = source_location::current())
      : device_buffer{pool, stream, other.data(), other.size(), where} {}

  /// The other buffer is left empty, with its pool and stream.
  device_buffer(device_buffer&& other) noexcept
      : pool_{other.pool_}, stream_{other.stream_}, held_{detail::exchange(other.held_, {})} {}
  /// Frees this buffer's elements first; the other buffer is left empty.
  device_buffer& operator=(device_buffer&& other) noexcept {
    if (this == &other) return *this;
    free();
    pool_ = other.pool_;
    stream_ = other.stream_;
    held_ = detail::exchange(other.held_, {});
    return *this;
  }
  /// Frees the elements on stream(). Never throws: what the pool refuses is tried once more, and
  /// then stays live there.
  ~device_buffer() { free(); }

  /// @return the first element, in device memory; nullptr when nothing is allocated
  [[nodiscard]] T* data() const noexcept { return held_.data; }
  /// @return the number of elements
  [[nodiscard]] std::size_t size() const noexcept { return held_.size; }
  /// @return the size of all elements in bytes
  [[nodiscard]] std::size_t size_bytes() const noexcept { return held_.size * sizeof(T); }
  /// @return the number of elements that the allocated memory has room for; size() unless reserve()
  ///   was called
  [[nodiscard]] std::size_t capacity() const noexcept { return held_.capacity; }
  /// @return the size of the allocated memory in bytes
  [[nodiscard]] std::size_t capacity_bytes() const noexcept { return held_.capacity * sizeof(T); }
  /// @return whether there are no elements
  [[nodiscard]] bool empty() const noexcept { return held_.size == 0; }
  /// @return the stream on which the elements are freed
  [[nodiscard]] stream_ref stream() const noexcept { return stream_.stream(); }
  /// @return the pool; for a resource_ref the buffer's copy, valid until the buffer is moved or
  ///   destroyed; nullptr for a buffer that was default-constructed
  [[nodiscard]] auto pool() const noexcept { return pool_.get(); }

  /// Replaces the elements by `size` new ones, not initialised. The old elements are freed first,
  /// so that the new ones may use their memory; after a failed allocation the buffer is empty.
  /// @throws as the constructor
  /// **Stream:** ordered on stream(). **Capture:** as the pool.
  void reallocate(std::size_t size, source_location where = source_location::current()) {
    free();
    held_.data = allocate(size, where);
    held_.size = held_.capacity = size;
  }

  /// Changes the number of elements and keeps the values of the remaining ones; new elements are
  /// not initialised.
  /// @throws as the constructor; the buffer is unchanged then
  /// **Stream:** one copy on stream() if elements remain; does not block. **Capture:** as the pool.
  /// **Cost:** nothing up to the number that was reserved, and when the size stays; otherwise new
  /// memory of the new size, and both arrays are live during the call.
  void resize(std::size_t size, source_location where = source_location::current()) {
    if (size == held_.size) return;
    if (held_.reserved == 0 || size > held_.reserved) return move_elements(size, size, where);
    held_.size = size;
  }

  /// Makes room for a number of elements: resize() up to it keeps the elements where they are, and
  /// does not free memory.
  /// @param capacity  number of elements; the buffer never has less room until shrink_to_fit(),
  ///   reallocate() or release()
  /// @throws as the constructor; the buffer is unchanged then
  /// **Stream:** as resize(). **Capture:** as the pool.
  void reserve(std::size_t capacity, source_location where = source_location::current()) {
    if (capacity > held_.capacity) move_elements(capacity, held_.size, where);
    if (capacity > held_.reserved) held_.reserved = capacity;
  }

  /// Frees the memory that reserve() has added, by moving the elements into memory of their size.
  /// @throws as the constructor; the buffer is unchanged then
  /// **Stream:** as resize(). **Capture:** as the pool.
  void shrink_to_fit(source_location where = source_location::current()) {
    if (held_.capacity != held_.size) move_elements(held_.size, held_.size, where);
    held_.reserved = 0;
  }

  /// Copies elements into the buffer.
  /// @param stream  the stream of the copy
  /// @param source  `count` elements of host or device memory. Page-locked memory stays unchanged
  ///   until the stream has completed the copy, and so does pageable memory on systems where the
  ///   GPU accesses it directly; in a capture, until the graph is destroyed
  /// @param count   number of elements
  /// @param first   index of the first element to overwrite
  /// @throws std::invalid_argument  for elements beyond size()
  /// @throws cuda_error             when the copy fails
  /// **Stream:** ordered on `stream`; may block the host for pageable memory. **Capture:** legal,
  /// with the addresses of the call.
  void copy_from(stream_ref stream, T const* source, std::size_t count, std::size_t first = 0,
                 source_location where = source_location::current()) {
    check_range("copy to", first, count, where);
    copy(held_.data + first, source, count, stream, where);
  }
  /// Copies elements out of the buffer. Throws, and is ordered, as copy_from().
  /// @param stream       the stream of the copy
  /// @param destination  room for `count` elements in host or device memory, which have their
  ///   values when the stream has completed the copy
  /// @param count        number of elements
  /// @param first        index of the first element to copy
  /// **Capture:** legal, with the addresses of the call.
  void copy_to(stream_ref stream, T* destination, std::size_t count, std::size_t first = 0,
               source_location where = source_location::current()) const {
    check_range("copy", first, count, where);
    copy(destination, held_.data + first, count, stream, where);
  }

  /// Returns the value of one element.
  /// @param stream  ordered behind the last write to the element
  /// @param index   below size()
  /// @throws std::invalid_argument  for an index of size() or above, and for a capturing stream
  /// @throws cuda_error             when the copy fails, and for an error of earlier work
  /// **Stream:** waits on the host for `stream`. **Capture:** not legal.
  [[nodiscard]] T element(stream_ref stream, std::size_t index,
                          source_location where = source_location::current()) const {
    check_range("read", index, 1, where);
    detail::check_not_capturing("device_buffer", "read an element", stream, where);
    alignas(T) unsigned char bytes[sizeof(T)];
    copy(bytes, held_.data + index, 1, stream, where);
    stream.synchronize(where);
    return *std::launder(reinterpret_cast<T*>(bytes));
  }
  /// Changes one element; the value may be a temporary. Throws, and waits, as element().
  /// @param stream  the stream of the copy
  /// @param index   below size()
  /// @param value   the new value
  /// **Capture:** not legal.
  void set_element(stream_ref stream, std::size_t index, T const& value,
                   source_location where = source_location::current()) {
    check_range("write", index, 1, where);
    detail::check_not_capturing("device_buffer", "write an element and wait", stream, where);
    copy(held_.data + index, &value, 1, stream, where);
    stream.synchronize(where);
  }
  /// Changes one element, without waiting.
  /// @param stream  the stream of the copy
  /// @param index   below size()
  /// @param value   alive and unchanged until the stream has completed the copy; in a capture,
  ///   until the graph is destroyed. A temporary does not compile
  /// @throws std::invalid_argument  for an index of size() or above
  /// @throws cuda_error             when the copy fails
  /// **Stream:** ordered on `stream`. **Capture:** legal, with the address of `value`.
  void set_element_async(stream_ref stream, std::size_t index, T const& value,
                         source_location where = source_location::current()) {
    check_range("write", index, 1, where);
    copy(held_.data + index, &value, 1, stream, where);
  }
  void set_element_async(stream_ref stream, std::size_t index, T const&& value,
                         source_location where = source_location::current()) =
      delete;  // the copy may read the value after the temporary's end: use set_element()

  /// Sets all bytes of all elements to zero.
  /// @param stream  ordered behind the elements' last use
  /// @throws cuda_error  when the call fails
  /// **Stream:** ordered on `stream`; does not block. **Capture:** legal.
  void set_to_zero(stream_ref stream, source_location where = source_location::current()) {
    if (held_.size == 0) return;
    check(cudaMemsetAsync(held_.data, 0, size_bytes(), stream.get()), "cudaMemsetAsync", where);
  }

  /// Changes the stream on which the elements are freed.
  /// @pre at the free, `stream` is ordered behind all work with the elements
  void set_stream(stream_ref stream) noexcept { stream_ = detail::named_stream{stream}; }

  /// Releases ownership of the elements.
  /// @return data(); free it with pool()->deallocate(stream, pointer, capacity_bytes() before the
  ///   call), which is size_bytes() unless reserve() was called
  [[nodiscard]] T* release() noexcept { return detail::exchange(held_, {}).data; }

 private:
  struct memory {
    T* data = nullptr;
    std::size_t size = 0;
    std::size_t capacity = 0;  // of the allocated memory
    std::size_t reserved = 0;  // what reserve() has promised; at most capacity
  };

  T* allocate(std::size_t size, source_location where) {
    if (size == 0) return nullptr;
    if (pool_.get() == nullptr) {
      detail::throw_invalid_argument(
          detail::text{"device_buffer: a default-constructed buffer has no pool to allocate "} +
              size + " elements from; construct it with a pool and a stream",
          where);
    }
    constexpr std::size_t alignment =
        alignof(T) > Pool::block_alignment_bytes ? alignof(T) : Pool::block_alignment_bytes;
    stream_ref const stream = stream_.here();
    detail::device_of_default const current{stream, stream_.device()};
    return static_cast<T*>(
        pool_.get()->allocate(stream, detail::bytes_for<T>(size), alignment, where));
  }
  // Replaces the memory by one for `capacity` elements that starts with as many as possible of the
  // old ones, and has `size`.
  void move_elements(std::size_t capacity, std::size_t size, source_location where) {
    device_buffer moved{};
    moved.pool_ = pool_;
    moved.stream_ = stream_;
    moved.reallocate(capacity, where);
    stream_ref const stream = stream_.here();
    detail::device_of_default const current{stream, stream_.device()};
    copy(moved.held_.data, held_.data, held_.size < capacity ? held_.size : capacity, stream,
         where);
    moved.held_.size = size;
    moved.held_.reserved = held_.reserved;
    *this = std::move(moved);
  }
  static void copy(void* to, void const* from, std::size_t count, stream_ref stream,
                   source_location where) {
    if (count == 0) return;
    check(detail::copy_async(to, from, count * sizeof(T), cudaMemcpyDefault, stream.get()),
          "cudaMemcpyAsync", where);
  }
  void check_range(char const* verb, std::size_t first, std::size_t count,
                   source_location where) const {
    if (first <= held_.size && count <= held_.size - first) return;
    detail::throw_invalid_argument(detail::text{"device_buffer: cannot "} + verb + " " + count +
                                       " elements from index " + first + " on: the buffer has " +
                                       held_.size + "; resize it, or use an index below that",
                                   where);
  }
  void free() noexcept {
    if (held_.data != nullptr)
      detail::free_behind(*pool_.get(), stream_, held_.data, capacity_bytes());
    held_ = {};
  }

  detail::pool_pointer<Pool> pool_;
  detail::named_stream stream_;
  memory held_;
};

WARPWRIGHT_END
