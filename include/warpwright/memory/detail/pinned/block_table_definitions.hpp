// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pinned/block_table.hpp>

#include <new>

#include <sys/mman.h>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE block_table::~block_table() {
  for (regions* some = &first_; some != nullptr;) {
    for (region const& r : some->each) {
      if (r.blocks != nullptr) munmap(r.blocks, r.capacity * sizeof(pinned_block));
    }
    regions* const next = some->next.load(memory_order::relaxed);
    if (some != &first_) delete some;
    some = next;
  }
}

WARPWRIGHT_INLINE block_table::region const* block_table::region_of(
    std::uint64_t address) const noexcept {
  for (regions const* some = &first_; some != nullptr;
       some = some->next.load(memory_order::acquire)) {
    for (region const& r : some->each) {
      if (r.contains(address)) return &r;
    }
  }
  return nullptr;
}

/// An unused region that can hold so many entries: the smallest that there is, else a new one.
WARPWRIGHT_INLINE block_table::region& block_table::region_for(std::uint64_t granules) {
  region* best = nullptr;
  region* fresh = nullptr;
  regions* last = &first_;
  for (regions* some = &first_; some != nullptr; some = some->next.load(memory_order::relaxed)) {
    last = some;
    for (region& r : some->each) {
      if (r.blocks == nullptr && fresh == nullptr) fresh = &r;
      if (r.bytes.load(memory_order::relaxed) != 0 || r.capacity < granules) continue;
      if (best == nullptr || r.capacity < best->capacity) best = &r;
    }
  }
  if (best != nullptr) return *best;
  // A power of two, so that later segments fit: segments that come and go leave few regions.
  std::uint64_t capacity = 4096 / sizeof(pinned_block);
  while (capacity < granules) capacity *= 2;
  std::uint64_t const bytes = capacity * sizeof(pinned_block);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc{};
  madvise(memory, bytes, MADV_NOHUGEPAGE);  // few of the pages are used
  if (fresh == nullptr) {
    regions* const more = new (std::nothrow) regions;
    if (more == nullptr) {
      munmap(memory, bytes);
      throw std::bad_alloc{};
    }
    last->next.store(more, memory_order::release);
    fresh = &more->each[0];
  }
  fresh->blocks = static_cast<pinned_block*>(memory);
  fresh->capacity = capacity;
  return *fresh;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void block_table::add(std::uint64_t address,
                                                        std::uint64_t bytes) {
  region& r = region_for(bytes / granule);
  r.address.store(address, memory_order::release);  // shows a reader that the size was 0
  r.bytes.store(bytes, memory_order::release);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void block_table::remove(std::uint64_t address) noexcept {
  for (regions* some = &first_; some != nullptr; some = some->next.load(memory_order::relaxed)) {
    for (region& r : some->each) {
      if (r.bytes.load(memory_order::relaxed) == 0) continue;
      if (r.address.load(memory_order::relaxed) != address) continue;
      r.bytes.store(0, memory_order::relaxed);
      madvise(r.blocks, r.capacity * sizeof(pinned_block), MADV_DONTNEED);  // all are 0 again
      return;
    }
  }
}

}  // namespace detail

WARPWRIGHT_END
