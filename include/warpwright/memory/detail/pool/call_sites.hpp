// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pool/pool_heap.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

struct call_site {
  char const* file = "an unknown location";
  int line = 0;
  operator text() const noexcept { return text{file, line}; }
};

/// Where live blocks were allocated and the last freed ones were freed: recorded in checked mode,
/// otherwise empty. Guarded by the heap's lock.
class call_sites {
 public:
  struct freed_block {
    std::uint64_t address = 0;
    std::uint64_t requested_bytes = 0;
    call_site allocated;
    call_site freed;
  };

  explicit call_sites(bool enabled);
  [[nodiscard]] bool enabled() const noexcept { return !frees_.empty(); }

  void record_allocation(pool_heap const& heap, std::uint32_t node, source_location where) noexcept;
  void record_free(pool_heap const& heap, std::uint32_t node, source_location where) noexcept;
  [[nodiscard]] call_site of(std::uint32_t node) const noexcept;
  /// The last free of a block at the address; null if there is none in the record.
  [[nodiscard]] freed_block const* last_free_of(std::uint64_t address) const noexcept;
  /// The `shown` locations with the most live bytes.
  [[nodiscard]] text largest(pool_heap const& heap, unsigned shown) const noexcept;

 private:
  array<call_site> sites_;  // by block number
  array<freed_block> frees_;
  std::size_t next_free_ = 0;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pool/misuse_definitions.hpp>
#endif
