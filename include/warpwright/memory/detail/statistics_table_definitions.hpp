// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/statistics_table.hpp>

#include <cstdio>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE std::size_t statistics_table::tag(char const* name) {
  unique_lock<spin_lock> const lock{lock_};
  std::size_t const existing = find(name, untagged);  // "all" is a valid tag
  if (existing != rows_.size()) return existing;
  rows_.push_back(row{name, {}});
  return existing;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string statistics_table::report() const {
  std::string table =
      "  live bytes    peak bytes   live blocks   peak blocks   allocations      failures  tag\n";
  for (std::size_t i = 0;; ++i) {
    row r{nullptr, {}};
    {
      unique_lock<spin_lock> const lock{lock_};
      if (i == rows_.size()) return table;
      r = rows_[i];
    }
    char counters[160] = {};
    std::snprintf(counters, sizeof counters, "%12lld  %12lld  %12lld  %12lld  %12llu  %12llu  ",
                  static_cast<long long>(r.counters.live_bytes),
                  static_cast<long long>(r.counters.live_peak_bytes),
                  static_cast<long long>(r.counters.live_blocks),
                  static_cast<long long>(r.counters.live_peak_blocks),
                  static_cast<unsigned long long>(r.counters.allocations),
                  static_cast<unsigned long long>(r.counters.failures));
    table.append(counters).append(r.name).append("\n");
  }
}

}  // namespace detail

WARPWRIGHT_END
