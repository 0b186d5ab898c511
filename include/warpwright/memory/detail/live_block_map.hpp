// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/address_map.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
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

/// An adaptor's record of a live block.
struct live_block {
  void* pointer;
  std::size_t bytes;
  std::size_t front_bytes;  // from the start of upstream's block to the user's
  std::uint64_t note;  // tracking: when it was allocated, in ns; aligned_blocks: bytes of the whole
                       // block; 0: none
  source_location where;
};

/// The live blocks of an adaptor, by address.
///
/// An entry is reserved before the upstream allocates (reservation), and removed before the
/// upstream frees (removal). So a lack of host memory loses no block, and an address that another
/// thread gets at once does not collide with its old entry.
/// **Threads:** any number; one mutex.
class live_block_map {
 public:
  class reservation;
  class removal;

  /// Frees a block if it is in the map.
  /// @param free  takes the live_block; if it throws, the block is still live
  /// **Cost:** one atomic load while the map is empty.
  template <class Free>
  bool free_if_found(char const* who, void* pointer, std::size_t bytes, source_location where,
                     Free&& free);
  /// Calls visit(live_block const&) for each block. Other calls wait meanwhile.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    unique_lock<mutex> const lock{mutex_};
    for (live_block const& block : blocks_) visit(block);
  }
  [[nodiscard]] std::size_t blocks() const noexcept {
    unique_lock<mutex> const lock{mutex_};
    return blocks_.size();
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    unique_lock<mutex> const lock{mutex_};
    return bytes_;
  }

 private:
  static std::uint64_t key(void const* pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }
  void reserve_entry();
  // @pre an entry is reserved
  void insert(live_block const& block) noexcept;
  // The entry stays reserved.
  bool remove(void const* pointer, live_block& block) noexcept;

  mutable mutex mutex_;
  // Guarded by mutex_:
  array<live_block> blocks_;
  address_map numbers_;  // address to index in blocks_
  std::size_t reservations_ = 0;
  std::uint64_t bytes_ = 0;
  // The caller of a free has received its block after this was set.
  atomic<std::size_t> count_;
};

/// Capacity for one entry; released by the destructor unless insert() was called.
class live_block_map::reservation : noncopyable {
 public:
  explicit reservation(live_block_map& map) : map_{map} {
    unique_lock<mutex> const lock{map_.mutex_};
    map_.reserve_entry();
  }
  ~reservation() {
    if (!pending_) return;
    unique_lock<mutex> const lock{map_.mutex_};
    --map_.reservations_;
  }

  void insert(live_block const& block) noexcept {
    unique_lock<mutex> const lock{map_.mutex_};
    map_.insert(block);
    pending_ = false;
  }

 private:
  live_block_map& map_;
  bool pending_ = true;
};

/// A removed entry; the destructor inserts it again unless commit() was called.
class live_block_map::removal : noncopyable {
 public:
  removal(live_block_map& map, void* pointer, source_location where) noexcept
      : map_{map}, block_{pointer, 0, 0, 0, where} {
    unique_lock<mutex> const lock{map_.mutex_};
    found_ = map_.remove(pointer, block_);
  }
  ~removal();

  [[nodiscard]] bool found() const noexcept { return found_; }
  [[nodiscard]] live_block const& block() const noexcept { return block_; }
  void commit() noexcept { committed_ = true; }

  /// Throws for a pointer that is not in the map, and for another size than the one allocated.
  void check(char const* who, std::size_t bytes, source_location where) const;

 private:
  live_block_map& map_;
  live_block block_;
  bool found_ = false;
  bool committed_ = false;
};

template <class Free>
bool live_block_map::free_if_found(char const* who, void* pointer, std::size_t bytes,
                                   source_location where, Free&& free) {
  if (count_.load(memory_order::relaxed) == 0) return false;
  removal removed{*this, pointer, where};
  if (!removed.found()) return false;
  removed.check(who, bytes, where);
  free(removed.block());
  removed.commit();
  return true;
}

/// The live blocks grouped by call site, most bytes first.
array<allocation_site> sites_of(live_block_map const& live);
/// The same as a table.
std::string report_of(live_block_map const& live);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/live_block_map_definitions.hpp>
#endif
