// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/detail/allocation_sites.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

// qsort, since <algorithm> costs each including file more to compile than this header.
WARPWRIGHT_INLINE int compare_locations(source_location a, source_location b) noexcept {
  int const files = std::strcmp(a.file(), b.file());
  if (files != 0) return files;
  return a.line() < b.line() ? -1 : (a.line() > b.line() ? 1 : 0);
}
WARPWRIGHT_INLINE int compare_sites_by_location(void const* left, void const* right) noexcept {
  return compare_locations(static_cast<allocation_site const*>(left)->where,
                           static_cast<allocation_site const*>(right)->where);
}
WARPWRIGHT_INLINE int compare_sites_by_bytes(void const* left, void const* right) noexcept {
  auto const& a = *static_cast<allocation_site const*>(left);
  auto const& b = *static_cast<allocation_site const*>(right);
  if (a.bytes != b.bytes) return a.bytes > b.bytes ? -1 : 1;
  return compare_locations(a.where, b.where);
}

WARPWRIGHT_INLINE void group_by_site(array<allocation_site>& sites) noexcept {
  if (sites.empty()) return;
  std::qsort(sites.begin(), sites.size(), sizeof(allocation_site), &compare_sites_by_location);
  std::size_t last = 0;
  for (std::size_t i = 1; i < sites.size(); ++i) {
    allocation_site const site = sites[i];
    if (compare_locations(sites[last].where, site.where) != 0) {
      sites[++last] = site;
      continue;
    }
    sites[last].bytes += site.bytes;
    sites[last].blocks += site.blocks;
    if (site.oldest_ns > sites[last].oldest_ns) sites[last].oldest_ns = site.oldest_ns;
  }
  while (sites.size() > last + 1) sites.pop_back();
  std::qsort(sites.begin(), sites.size(), sizeof(allocation_site), &compare_sites_by_bytes);
}

WARPWRIGHT_INLINE array<allocation_site> sites_of(live_block_map const& live) {
  array<allocation_site> sites;
  std::uint64_t const now = monotonic_nanoseconds();
  live.for_each([&](live_block const& block) {
    std::uint64_t const age = now > block.note ? now - block.note : 0;
    sites.push_back(allocation_site{block.where, block.bytes, 1, age});
  });
  group_by_site(sites);
  return sites;
}

WARPWRIGHT_INLINE std::string report_of(live_block_map const& live) {
  array<allocation_site> const sites = sites_of(live);
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  for (allocation_site const& site : sites) {
    bytes += site.bytes;
    blocks += site.blocks;
  }
  char line[160] = {};
  std::snprintf(line, sizeof line, "%llu bytes are outstanding (blocks: %llu, call sites: %zu)\n",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(blocks),
                sites.size());
  std::string report = line;
  if (sites.empty()) return report;
  report.append("       bytes    blocks      oldest  allocated at\n");
  for (allocation_site const& site : sites) {
    std::snprintf(line, sizeof line, "%12llu  %8llu  %6llu.%03llu s  ",
                  static_cast<unsigned long long>(site.bytes),
                  static_cast<unsigned long long>(site.blocks),
                  static_cast<unsigned long long>(site.oldest_ns / 1000000000U),
                  static_cast<unsigned long long>(site.oldest_ns / 1000000U % 1000U));
    report.append(line).append(site.where.file());
    std::snprintf(line, sizeof line, ":%d\n", site.where.line());
    report.append(line);
  }
  return report;
}

}  // namespace detail

WARPWRIGHT_END
