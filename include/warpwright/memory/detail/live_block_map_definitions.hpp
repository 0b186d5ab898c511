// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/detail/live_block_map.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE void live_block_map::reserve_entry() {
  std::size_t const count = blocks_.size() + reservations_ + 1;
  blocks_.reserve(count);
  numbers_.reserve(count);
  ++reservations_;
}

WARPWRIGHT_INLINE void live_block_map::insert(live_block const& block) noexcept {
  --reservations_;
  bytes_ += block.bytes;
  std::uint32_t const number = numbers_.find(key(block.pointer));
  if (number != address_map::none) {
    // The old block was freed without the adaptor, since its address could not be allocated again
    // otherwise.
    bytes_ -= blocks_[number].bytes;
    blocks_[number] = block;
    return;
  }
  numbers_.insert(key(block.pointer), static_cast<std::uint32_t>(blocks_.size()));
  blocks_.push_back(block);
  count_.store(blocks_.size(), memory_order::relaxed);
}

WARPWRIGHT_INLINE bool live_block_map::remove(void const* pointer, live_block& block) noexcept {
  std::uint32_t const number = numbers_.erase(key(pointer));
  if (number == address_map::none) return false;
  block = blocks_[number];
  bytes_ -= block.bytes;
  ++reservations_;
  live_block const last = blocks_.back();
  blocks_.pop_back();
  if (last.pointer != pointer) {  // the last entry moves into the gap
    numbers_.erase(key(last.pointer));
    numbers_.insert(key(last.pointer), number);
    blocks_[number] = last;
  }
  count_.store(blocks_.size(), memory_order::relaxed);
  return true;
}

WARPWRIGHT_INLINE live_block_map::removal::~removal() {
  if (!found_) return;
  unique_lock<mutex> const lock{map_.mutex_};
  if (committed_) {
    --map_.reservations_;
  } else {
    map_.insert(block_);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void live_block_map::removal::check(char const* who,
                                                                      std::size_t bytes,
                                                                      source_location where) const {
  if (!found_) {
    throw_invalid_argument(text{who} + ": cannot free " + block_.pointer + " (" + bytes +
                               " bytes): it is not a live block of this adaptor: freed already, or "
                               "not allocated here; free it once, where it was allocated",
                           where);
  }
  if (block_.bytes != bytes) {
    throw_invalid_argument(text{who} + ": wrong size: " + block_.pointer + " is freed with " +
                               bytes + " bytes, but " + block_.bytes + " bytes were allocated at " +
                               text{block_.where.file(), block_.where.line()} +
                               "; pass the same size",
                           where);
  }
}

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

WARPWRIGHT_INLINE array<allocation_site> sites_of(live_block_map const& live) {
  array<allocation_site> sites;
  std::uint64_t const now = monotonic_nanoseconds();
  live.for_each([&](live_block const& block) {
    std::uint64_t const age = now > block.note ? now - block.note : 0;
    sites.push_back(allocation_site{block.where, block.bytes, 1, age});
  });
  if (sites.empty()) return sites;
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
