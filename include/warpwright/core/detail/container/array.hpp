// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>

WARPWRIGHT_BEGIN

namespace detail {

/// A growing array with the subset of std::vector's interface that the library needs. It compiles
/// much faster than std::vector.
///
/// @pre T is trivially relocatable: it can be moved by copying its bytes
template <class T>
class array {
 public:
  array() noexcept = default;
  explicit array(std::size_t size) { resize(size); }
  array(array&& other) noexcept
      : data_{other.data_}, size_{other.size_}, capacity_{other.capacity_} {
    other.data_ = nullptr;
    other.size_ = other.capacity_ = 0;
  }
  array& operator=(array&& other) = delete;
  ~array() {
    clear();
    std::free(static_cast<void*>(data_));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  T const& operator[](std::size_t i) const noexcept { return data_[i]; }
  [[nodiscard]] T& front() noexcept { return data_[0]; }
  [[nodiscard]] T const& front() const noexcept { return data_[0]; }
  [[nodiscard]] T& back() noexcept { return data_[size_ - 1]; }
  [[nodiscard]] T const& back() const noexcept { return data_[size_ - 1]; }
  [[nodiscard]] T* begin() noexcept { return data_; }
  [[nodiscard]] T* end() noexcept { return data_ + size_; }
  [[nodiscard]] T const* begin() const noexcept { return data_; }
  [[nodiscard]] T const* end() const noexcept { return data_ + size_; }

  /// Reserves memory: push_back() cannot fail until there are `count` elements.
  /// @throws std::bad_alloc  and the array is unchanged
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    std::size_t capacity = capacity_ < 8 ? 8 : capacity_ * 2;
    if (capacity < count) capacity = count;
    void* const data = capacity <= ~std::size_t{0} / sizeof(T)
                           ? std::realloc(static_cast<void*>(data_), capacity * sizeof(T))
                           : nullptr;
    if (data == nullptr) throw std::bad_alloc{};
    data_ = static_cast<T*>(data);
    capacity_ = capacity;
  }
  /// @throws std::bad_alloc  and the array is unchanged
  void push_back(T const& value) {
    T copy(value);  // it may be an element of this array, which reserve() moves
    reserve(size_ + 1);
    ::new (static_cast<void*>(data_ + size_)) T(static_cast<T&&>(copy));
    ++size_;
  }
  /// @pre no argument refers to an element of this array
  /// @throws std::bad_alloc, or what T's constructor throws, and the array is unchanged
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    reserve(size_ + 1);
    T* const element =
        ::new (static_cast<void*>(data_ + size_)) T{static_cast<Arguments&&>(arguments)...};
    ++size_;
    return *element;
  }
  void pop_back() noexcept { data_[--size_].~T(); }
  /// Appends default-constructed elements. @pre size is at least size()
  void resize(std::size_t size) {
    reserve(size);
    while (size_ < size) emplace_back();
  }
  /// Removes the first elements. @pre count is at most size(), T is trivially destructible
  void remove_front(std::size_t count) noexcept {
    for (std::size_t i = count; i < size_; ++i) data_[i - count] = data_[i];
    size_ -= count;
  }
  void clear() noexcept {
    while (size_ != 0) pop_back();
  }
  void swap(array& other) noexcept {
    detail::swap(data_, other.data_);
    detail::swap(size_, other.size_);
    detail::swap(capacity_, other.capacity_);
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
