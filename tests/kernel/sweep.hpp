// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every size up to 4,096 and every offset, in memory that is taken once.
#pragma once

#include <cstring>
#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"

namespace kernel_test {

inline constexpr std::size_t most_size = 4096;
inline constexpr std::size_t most_offset = 16;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer);
#else
constexpr bool sanitized = false;
#endif

// What follows n in a sweep over all sizes. With what the sanitizers add, all would take minutes:
// past `every` they see one of seven, which meets every remainder of every vector.
constexpr std::size_t next_size(std::size_t n, std::size_t every = 300) {
  return sanitized && n >= every ? n + 7 : n + 1;
}

// Memory that both runtimes' kernels and the host may touch, for up to `most` elements. An offset
// counts the type's alignment: of structs and complex numbers that is less than an element.
template <class T>
class room {
 public:
  explicit room(std::size_t most)
      : bytes_{guard + most_offset * alignof(T) + most * sizeof(T) + guard} {
    void* p = nullptr;
    ww::check(cudaMallocManaged(&p, bytes_), "cudaMallocManaged");
    data_ = static_cast<unsigned char*>(p);
    REQUIRE(reinterpret_cast<std::uintptr_t>(data_) % 256 == 0);
  }
  room(room const&) = delete;
  room& operator=(room const&) = delete;
  ~room() { ww::detail::discard(cudaFree(data_)); }

  /// @return the place `offset` past a boundary; all is poisoned
  T* poisoned(std::size_t offset) const {
    std::memset(data_, poison, bytes_);
    return reinterpret_cast<T*>(data_ + guard + offset * alignof(T));
  }
  /// The same with these elements there.
  T* holding(std::vector<T> const& values, std::size_t offset) const {
    T* const p = poisoned(offset);
    if (!values.empty()) {
      std::memcpy(static_cast<void*>(p), values.data(), values.size() * sizeof(T));
    }
    return p;
  }
  /// Whether all but `count` elements at `offset` is poison still.
  bool intact(std::size_t offset, std::size_t count) const {
    std::size_t const begin = guard + offset * alignof(T);
    std::size_t const end = begin + count * sizeof(T);
    return is_poison(data_, begin) && is_poison(data_ + end, bytes_ - end);
  }
  /// Whether these elements are there, bit for bit, and all else is poison.
  bool holds(std::vector<T> const& values, std::size_t offset) const {
    unsigned char const* const p = data_ + guard + offset * alignof(T);
    bool const same =
        values.empty() || std::memcmp(p, values.data(), values.size() * sizeof(T)) == 0;
    return same && intact(offset, values.size());
  }
  /// An element that was not written.
  static T untouched() {
    T value;
    std::memset(static_cast<void*>(&value), poison, sizeof value);
    return value;
  }

 private:
  static constexpr std::size_t guard = 256;
  std::size_t bytes_;
  unsigned char* data_ = nullptr;
};

template <class T>
std::vector<T> first_of(std::vector<T> const& values, std::size_t n) {
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n)};
}

// Offsets for a size: on boundaries, then off alike, then each as it comes.
template <std::size_t Count>
struct some_offsets {
  std::size_t of[Count] = {};
  some_offsets(std::size_t n, random_numbers& random) {
    for (std::size_t& o : of) o = n % 3 == 0 ? 0 : random.below(most_offset);
    for (std::size_t& o : of) o = n % 3 == 1 ? of[0] : o;
  }
};

}  // namespace kernel_test
