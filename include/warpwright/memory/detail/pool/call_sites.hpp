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

  explicit call_sites(bool enabled) {
    if (enabled) frees_.resize(256);
  }
  [[nodiscard]] bool enabled() const noexcept { return !frees_.empty(); }

  void record_allocation(pool_heap const& heap, std::uint32_t node,
                         source_location where) noexcept {
    if (!enabled()) return;
    if (sites_.size() < heap.blocks.node_count_bound()) {
      try {
        sites_.resize(heap.blocks.node_count_bound());
      } catch (std::bad_alloc const&) {
        return;  // a less exact error message is better than a lost block
      }
    }
    sites_[node] = call_site{where.file(), where.line()};
  }
  void record_free(pool_heap const& heap, std::uint32_t node, source_location where) noexcept {
    if (!enabled()) return;
    block_heap::block const& b = heap.blocks.at(node);
    frees_[next_free_] =
        freed_block{b.address, b.requested_bytes, of(node), call_site{where.file(), where.line()}};
    next_free_ = (next_free_ + 1) % frees_.size();
  }
  [[nodiscard]] call_site of(std::uint32_t node) const noexcept {
    return node < sites_.size() ? sites_[node] : call_site{};
  }
  /// The last free of a block at the address; null if there is none in the record.
  [[nodiscard]] freed_block const* last_free_of(std::uint64_t address) const noexcept {
    for (std::size_t i = 0; i < frees_.size(); ++i) {
      // Newest first, because addresses are reused.
      freed_block const& freed = frees_[(next_free_ + frees_.size() - 1 - i) % frees_.size()];
      if (freed.address == address) return &freed;
    }
    return nullptr;
  }
  /// The `shown` locations with the most live bytes; empty when the host is out of memory, too.
  [[nodiscard]] text largest(pool_heap const& heap, unsigned shown) const noexcept;

 private:
  array<call_site> sites_;  // by block number
  array<freed_block> frees_;
  std::size_t next_free_ = 0;
};

inline text call_sites::largest(pool_heap const& heap, unsigned shown) const noexcept {
  struct site {
    call_site at;
    std::uint64_t bytes = 0;
  };
  array<site> sites;
  address_map numbers;
  text list = "";
  try {
    heap.blocks.for_each([&](std::uint32_t node, block_heap::block const& b) {
      if (b.list != block_heap::none || b.tag == pool_heap::deferred_free) return;
      call_site const from = of(node);
      // Locations with the same key, which are next to impossible, get the following keys.
      std::uint64_t key =
          address_of(from.file) * 0x9e3779b97f4a7c15U + static_cast<unsigned>(from.line);
      std::uint32_t number = numbers.find(key);
      while (number != address_map::none &&
             (sites[number].at.file != from.file || sites[number].at.line != from.line)) {
        number = numbers.find(++key);
      }
      if (number == address_map::none) {
        number = static_cast<std::uint32_t>(sites.size());
        sites.push_back(site{from, 0});
        numbers.reserve(sites.size());
        numbers.insert(key, number);
      }
      sites[number].bytes += b.bytes;
    });
  } catch (std::bad_alloc const&) {
    return list;
  }
  for (unsigned i = 0; i < shown && i < sites.size(); ++i) {
    std::size_t most = i;
    for (std::size_t k = i; k < sites.size(); ++k) {
      if (sites[k].bytes > sites[most].bytes) most = k;
    }
    site const found = sites[most];
    sites[most] = sites[i];
    sites[i] = found;
    list +=
        text{i == 0 ? ". Live, allocated at: " : ", "} + found.at + " " + found.bytes + " bytes";
  }
  return list;
}

}  // namespace detail

WARPWRIGHT_END
