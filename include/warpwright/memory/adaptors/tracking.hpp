// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/live_block_map.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

WARPWRIGHT_BEGIN

/// The outstanding blocks that one source location has allocated.
struct allocation_site {
  source_location where;    ///< the source location
  std::uint64_t bytes;      ///< of all blocks, as requested
  std::uint64_t blocks;     ///< the number of blocks
  std::uint64_t oldest_ns;  ///< the age of the oldest block
};

namespace detail {

// qsort, since <algorithm> costs each including file more to compile than this header.
inline int compare_locations(source_location a, source_location b) noexcept {
  int const files = std::strcmp(a.file(), b.file());
  if (files != 0) return files;
  return a.line() < b.line() ? -1 : (a.line() > b.line() ? 1 : 0);
}
inline int compare_sites_by_location(void const* left, void const* right) noexcept {
  return compare_locations(static_cast<allocation_site const*>(left)->where,
                           static_cast<allocation_site const*>(right)->where);
}
inline int compare_sites_by_bytes(void const* left, void const* right) noexcept {
  auto const& a = *static_cast<allocation_site const*>(left);
  auto const& b = *static_cast<allocation_site const*>(right);
  if (a.bytes != b.bytes) return a.bytes > b.bytes ? -1 : 1;
  return compare_locations(a.where, b.where);
}

/// The live blocks grouped by call site, most bytes first.
inline array<allocation_site> sites_of(live_block_map const& live) {
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

inline std::string report_of(live_block_map const& live) {
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

/// Records where each live block was allocated, and reports blocks that are not freed.
///
/// A free of an unknown pointer, or with another size than allocated, throws std::invalid_argument;
/// the error names the allocation's source location.
/// @pre The upstream outlives the adaptor. Blocks still live at its destruction stay live in the
///   upstream.
/// **Threads:** as many as the upstream allows. **Capture:** as the upstream.
/// **Cost:** one mutex, locked twice a call, one look-up by address, one clock reading an
/// allocation, and 80 to 160 bytes of host memory a live block; no CUDA call.
template <class Upstream>
class tracking_adaptor : public detail::memory_adaptor<tracking_adaptor<Upstream>, Upstream> {
 public:
  /// Called by the adaptor's destructor when blocks are outstanding, with report()'s text.
  using leak_callback = void (*)(void* user, char const* report) noexcept;

  /// Creates the adaptor.
  /// @param upstream  where the memory comes from
  /// @param on_leak   see leak_callback; null: none
  /// @param user      passed to the callback
  explicit tracking_adaptor(Upstream& upstream, leak_callback on_leak = nullptr,
                            void* user = nullptr) noexcept
      : base{upstream}, on_leak_{on_leak}, user_{user} {}
  ~tracking_adaptor() {
    if (on_leak_ == nullptr || outstanding_blocks() == 0) return;
    try {
      on_leak_(user_, report().c_str());
    } catch (...) {
      on_leak_(user_, "blocks are outstanding, and the host has no memory for a report\n");
    }
  }

  /// @return the number of blocks that are not freed
  [[nodiscard]] std::size_t outstanding_blocks() const noexcept { return blocks_.blocks(); }
  /// @return their bytes, as requested
  [[nodiscard]] std::uint64_t outstanding_bytes() const noexcept { return blocks_.bytes(); }
  /// @return the outstanding blocks as text: a line of totals, then one line a call site with
  ///   bytes, blocks, the age of the oldest, file and line; most bytes first
  /// @throws std::bad_alloc  when the host has no memory for it
  /// **Cost:** sorts the outstanding blocks; calls of other threads wait while they are copied.
  [[nodiscard]] std::string report() const { return detail::report_of(blocks_); }
  /// Calls visit(allocation_site const&) for each call site, most bytes first.
  /// @throws std::bad_alloc, or what `visit` throws
  /// **Cost:** as report().
  template <class Visitor>
  void for_each_site(Visitor&& visit) const {
    for (allocation_site const& site : detail::sites_of(blocks_)) visit(site);
  }

 private:
  using base = detail::memory_adaptor<tracking_adaptor, Upstream>;
  friend class detail::memory_interface<tracking_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::live_block_map::reservation entry{blocks_};
    void* const pointer = detail::allocate_from<Throws>(this->upstream(), request);
    if (pointer != nullptr) {
      entry.insert(detail::live_block{pointer, request.bytes, 0, detail::monotonic_nanoseconds(),
                                      request.where});
    }
    return pointer;
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::live_block_map::removal removed{blocks_, pointer, where};
    removed.check("tracking_adaptor", bytes, where);
    this->upstream().deallocate(stream, pointer, bytes, where);
    removed.commit();
  }

  leak_callback on_leak_;
  void* user_;
  detail::live_block_map blocks_;
};

WARPWRIGHT_END
