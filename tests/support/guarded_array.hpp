// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays for tests with poisoned guards on both sides. Kernels of both runtimes can access them,
// and so can the host once it has waited for the stream.
#pragma once

#include <warpwright/core/stream.hpp>

#include <cstddef>
#include <cstring>
#include <vector>

namespace test_support {

/// Elements at an offset, counted in units of their alignment, from a boundary of 256 bytes.
template <class T>
class guarded_array {
 public:
  static constexpr unsigned char poison = 0xa5;

  /// Room for `capacity` elements at any offset up to 16; all of it is poisoned.
  explicit guarded_array(std::size_t capacity, std::size_t offset = 0)
      : bytes_{2 * guard + max_offset * alignof(T) + capacity * sizeof(T)} {
    void* p = nullptr;
    warpwright::check(cudaMallocManaged(&p, bytes_), "cudaMallocManaged");
    memory_ = static_cast<unsigned char*>(p);
    size_ = capacity;
    clear(offset);
  }
  explicit guarded_array(std::vector<T> const& values, std::size_t offset = 0)
      : guarded_array(values.size(), offset) {
    assign(values, offset);
  }
  guarded_array(guarded_array const&) = delete;
  guarded_array& operator=(guarded_array const&) = delete;
  ~guarded_array() { warpwright::detail::discard(cudaFree(memory_)); }

  /// Poisons everything; elements then begin at `offset`, in units of their alignment.
  T* clear(std::size_t offset) const {
    begin_ = guard + offset * alignof(T);
    return clear();
  }
  /// Poisons everything; elements begin where they did.
  T* clear() const {
    std::memset(memory_, poison, bytes_);
    return data();
  }
  /// As clear() does, then copies these elements.
  T* assign(std::vector<T> const& values, std::size_t offset) const {
    begin_ = guard + offset * alignof(T);
    return assign(values);
  }
  T* assign(std::vector<T> const& values) const {
    clear();
    size_ = values.size();
    if (!values.empty()) {
      std::memcpy(static_cast<void*>(data()), values.data(), values.size() * sizeof(T));
    }
    return data();
  }

  T* data() const { return reinterpret_cast<T*>(memory_ + begin_); }
  std::size_t size() const { return size_; }
  T const& operator[](std::size_t i) const { return data()[i]; }

  /// Waits for `stream`, then copies the elements.
  std::vector<T> fetch(warpwright::stream_ref stream) const {
    stream.synchronize();
    std::vector<T> values(size_);
    if (size_ != 0) {
      std::memcpy(static_cast<void*>(values.data()), data(), size_ * sizeof(T));
    }
    return values;
  }
  /// Whether all but the elements, or all but the first `count`, is poison still.
  bool intact() const { return intact(size_); }
  bool intact(std::size_t count) const {
    std::size_t const end = begin_ + count * sizeof(T);
    return is_poison(0, begin_) && is_poison(end, bytes_);
  }
  bool intact(warpwright::stream_ref stream) const {
    stream.synchronize();
    return intact();
  }
  /// Whether these elements are there, bit for bit, and all else is poison.
  bool holds(std::vector<T> const& values) const {
    return intact(values.size()) &&
           (values.empty() || std::memcmp(data(), values.data(), values.size() * sizeof(T)) == 0);
  }
  /// An element that was not written.
  static T poisoned_element() {
    T value;
    std::memset(static_cast<void*>(&value), poison, sizeof value);
    return value;
  }

 private:
  static constexpr std::size_t guard = 256;
  static constexpr std::size_t max_offset = 16;
  bool is_poison(std::size_t begin, std::size_t end) const {
    return memory_[begin] == poison &&
           std::memcmp(memory_ + begin, memory_ + begin + 1, end - begin - 1) == 0;
  }

  std::size_t bytes_;
  unsigned char* memory_ = nullptr;
  mutable std::size_t begin_ = guard;
  mutable std::size_t size_ = 0;
};

}  // namespace test_support
