// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of a pool's parts share: a heap of addresses that nobody touches, with its events
// and streams.
#pragma once

#include "memory/support.hpp"

#include <warpwright/memory/detail/pool/epoch_tracker.hpp>

#include <cstdint>

namespace test_support {

constexpr std::uint64_t unit = 4096;

/// One segment of 64 units at address 65536, ready.
struct tracked_heap {
  ww::detail::pool_heap heap;
  ww::detail::event_store events{heap};
  ww::detail::epoch_tracker streams{heap, events};

  tracked_heap() {
    heap.driver.find();
    heap.blocks.add_segment(65536, 64 * unit);
  }
  std::uint32_t list_of(ww::stream const& s) {
    return streams.list_of(ww::stream_ref{s}.id(), s.get());
  }
  std::uint32_t allocate(std::uint32_t list = ww::detail::block_heap::ready,
                         std::uint64_t units = 1) {
    return heap.blocks.allocate(list, units * unit, ww::detail::block_heap::granule_bytes, true,
                                units * unit);
  }
  [[nodiscard]] std::uint64_t ready_units() const {
    return heap.blocks.bytes_in(ww::detail::block_heap::ready) / unit;
  }
};

constexpr ww::source_location here = ww::source_location::current();

}  // namespace test_support
