// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The devices of the streams that a cache was called with lately, by the streams' ids, which CUDA
/// does not use again.
class stream_table {
 public:
  static constexpr std::size_t capacity = 32;
  static constexpr int unknown = -1;

  [[nodiscard]] int device_of(std::uint64_t id) const noexcept {
    for (std::size_t i = 0; i < size_; ++i) {
      if (rows_[i].id == id) return rows_[i].device;
    }
    return unknown;
  }
  /// Adds a stream, in place of the one that was added first if the table is full.
  void add(std::uint64_t id, int device) noexcept {
    if (device_of(id) != unknown) return;
    rows_[next_] = {id, device};
    next_ = (next_ + 1) % capacity;
    if (size_ < capacity) ++size_;
  }

 private:
  struct row {
    std::uint64_t id;
    int device;
  };
  row rows_[capacity] = {};
  std::size_t size_ = 0;
  std::size_t next_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
