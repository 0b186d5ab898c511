// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/live_block_map.hpp>

#include <cstdint>
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

/// Merges the entries of each call site; then most bytes first.
void group_by_site(array<allocation_site>& sites) noexcept;
/// The live blocks grouped by call site, most bytes first.
array<allocation_site> sites_of(live_block_map const& live);
/// The same as a table.
std::string report_of(live_block_map const& live);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/allocation_sites_definitions.hpp>
#endif
