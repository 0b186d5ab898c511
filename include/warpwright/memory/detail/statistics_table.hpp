// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

WARPWRIGHT_BEGIN

/// A snapshot of the counters of a statistics_adaptor or of one of its tags. Sizes are in bytes, as
/// requested. A tag's live values become negative when its blocks are freed through another handle.
struct allocation_statistics {
  std::int64_t live_bytes = 0;        ///< allocated and not freed
  std::int64_t live_peak_bytes = 0;   ///< the highest live_bytes since the start or reset_peaks()
  std::int64_t live_blocks = 0;       ///< allocated and not freed
  std::int64_t live_peak_blocks = 0;  ///< the highest live_blocks, as above
  std::uint64_t allocated_bytes = 0;  ///< the sum of all allocations
  std::uint64_t allocations = 0;      ///< successful ones
  std::uint64_t deallocations = 0;    ///< successful ones
  std::uint64_t failures = 0;         ///< failed allocations, for any reason
};

namespace detail {

/// The counters of all tags: row 0 is the total, row 1 counts allocations without a tag.
class statistics_table {
 public:
  static constexpr std::size_t all = 0;
  static constexpr std::size_t untagged = 1;

  statistics_table() {
    rows_.push_back(row{"all", {}});
    rows_.push_back(row{"untagged", {}});
  }
  /// The row of a tag, created if there is none with this name.
  std::size_t tag(char const* name);
  void allocated(std::size_t tag, std::size_t bytes) noexcept {
    unique_lock<spin_lock> const lock{lock_};
    add(rows_[all].counters, bytes);
    add(rows_[tag].counters, bytes);
  }
  void deallocated(std::size_t tag, std::size_t bytes) noexcept {
    unique_lock<spin_lock> const lock{lock_};
    subtract(rows_[all].counters, bytes);
    subtract(rows_[tag].counters, bytes);
  }
  void failed(std::size_t tag) noexcept {
    unique_lock<spin_lock> const lock{lock_};
    ++rows_[all].counters.failures;
    ++rows_[tag].counters.failures;
  }
  void reset_peaks() noexcept {
    unique_lock<spin_lock> const lock{lock_};
    for (row& r : rows_) {
      r.counters.live_peak_bytes = r.counters.live_bytes;
      r.counters.live_peak_blocks = r.counters.live_blocks;
    }
  }
  [[nodiscard]] allocation_statistics counters(std::size_t number) const noexcept {
    unique_lock<spin_lock> const lock{lock_};
    return rows_[number].counters;
  }
  /// Zeros for an unknown name.
  [[nodiscard]] allocation_statistics counters(char const* name) const noexcept {
    unique_lock<spin_lock> const lock{lock_};
    std::size_t const number = find(name, untagged);
    return number == rows_.size() ? allocation_statistics{} : rows_[number].counters;
  }
  [[nodiscard]] std::string report() const;

 private:
  struct row {
    char const* name;
    allocation_statistics counters;
  };
  static void add(allocation_statistics& s, std::size_t bytes) noexcept {
    s.live_bytes += static_cast<std::int64_t>(bytes);
    if (s.live_bytes > s.live_peak_bytes) s.live_peak_bytes = s.live_bytes;
    if (++s.live_blocks > s.live_peak_blocks) s.live_peak_blocks = s.live_blocks;
    s.allocated_bytes += bytes;
    ++s.allocations;
  }
  static void subtract(allocation_statistics& s, std::size_t bytes) noexcept {
    s.live_bytes -= static_cast<std::int64_t>(bytes);
    --s.live_blocks;
    ++s.deallocations;
  }
  [[nodiscard]] std::size_t find(char const* name, std::size_t from) const noexcept {
    std::size_t number = from;
    while (number < rows_.size() && std::strcmp(rows_[number].name, name) != 0) ++number;
    return number;
  }

  mutable spin_lock lock_;
  array<row> rows_;  // guarded by lock_
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/statistics_table_definitions.hpp>
#endif
