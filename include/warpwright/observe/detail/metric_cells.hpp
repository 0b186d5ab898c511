// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of counters and histograms: rows of 64-bit cells, one row a thread, so that a thread
// counts without an atomic operation on memory that others write.
#pragma once

#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/detail/thread/thread.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

using metric_cell = atomic<std::uint64_t>;

inline std::uint64_t bits_of(double value) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline double double_of(std::uint64_t bits) noexcept {
  double value = 0.0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
/// @param alone  no other thread writes the cell
inline void add_to_cell(metric_cell& cell, double value, bool alone) noexcept {
  std::uint64_t before = cell.load(memory_order::relaxed);
  if (alone) return cell.store(bits_of(double_of(before) + value), memory_order::relaxed);
  while (!cell.compare_exchange_weak(before, bits_of(double_of(before) + value),
                                     memory_order::relaxed, memory_order::relaxed)) {
  }
}
inline void add_to_cell(metric_cell& cell, std::uint64_t n, bool alone) noexcept {
  if (!alone) return static_cast<void>(cell.fetch_add(n, memory_order::relaxed));
  cell.store(cell.load(memory_order::relaxed) + n, memory_order::relaxed);
}

/// Which row of cells a thread counts in. A row belongs to the first thread that comes to it, and
/// is not taken back: only a later thread, never one at the same time, has the same pthread_t.
/// Threads that find no row within `probes` steps share the last rows, with atomic additions.
class metric_rows {
 public:
  static constexpr unsigned owned = 128;
  static constexpr unsigned shared = 8;
  static constexpr unsigned count = owned + shared;
  static constexpr unsigned probes = 8;
  /// Cells from a row to the next: not a multiple of a page, whose rows would share a cache set.
  static constexpr std::size_t stride = 520;

  [[nodiscard]] unsigned of_this_thread() noexcept {
    std::uint64_t const self = pthread_self();
    unsigned const first = thread_slot<7>(self);
    for (unsigned i = 0; i != probes; ++i) {
      unsigned const row = (first + i) % owned;
      std::uint64_t owner = owners_[row].load(memory_order::relaxed);
      if (owner == self ||
          (owner == 0 && owners_[row].compare_exchange(owner, self, memory_order::relaxed,
                                                       memory_order::relaxed))) {
        return row;
      }
    }
    shared_used_.store(true, memory_order::relaxed);
    return owned + first % shared;
  }
  /// Calls visit(first cell) for the rows that have been counted in.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (unsigned row = 0; row != count; ++row) {
      bool const used = row < owned ? owners_[row].load(memory_order::relaxed) != 0
                                    : shared_used_.load(memory_order::relaxed);
      if (used) visit(row * stride);
    }
  }

 private:
  atomic<std::uint64_t> owners_[owned];
  atomic<bool> shared_used_;
};

/// What a counter or a histogram counts in: a counter one cell, a histogram those of its buckets
/// and then that of the sum; a gauge has its value in the first row's cell.
struct metric_cells {
  static constexpr unsigned most_bounds = 128;

  /// The sign, the exponent and two bits of the mantissa, in the order of the values.
  static unsigned key_of(double value) noexcept {
    std::uint64_t const bits = bits_of(value);
    std::uint64_t const flip = bits >> 63U != 0 ? ~std::uint64_t{0} : std::uint64_t{1} << 63U;
    return static_cast<unsigned>((bits ^ flip) >> 50U);
  }
  void add(std::uint64_t n) const noexcept {
    unsigned const row = rows->of_this_thread();
    add_to_cell(cells[row * metric_rows::stride], n, row < metric_rows::owned);
  }
  void observe(double value) const noexcept {
    unsigned const key = key_of(value);
    unsigned const at = key < first_key ? 0 : key - first_key;
    unsigned bucket = buckets[at < last ? at : last];
    while (bucket != count && !(value <= bounds[bucket])) ++bucket;  // a NaN is in the last one
    unsigned const row = rows->of_this_thread();
    metric_cell* const of_row = cells + row * metric_rows::stride;
    add_to_cell(of_row[bucket], std::uint64_t{1}, row < metric_rows::owned);
    add_to_cell(of_row[count + 1], value, row < metric_rows::owned);
  }
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    rows->for_each([&](std::size_t row) {
      for (unsigned i = 0; i <= count; ++i) sum += cells[row + i].load(memory_order::relaxed);
    });
    return sum;
  }

  metric_rows* rows = nullptr;
  metric_cell* cells = nullptr;
  double const* bounds = nullptr;
  unsigned char const* buckets = nullptr;  // by key: the lowest bucket that it may belong to
  unsigned count = 0;                      // of bounds
  unsigned first_key = 0;
  unsigned last = 0;  // of `buckets`
};

}  // namespace detail

WARPWRIGHT_END
