// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/memory/detail/address_map.hpp>
#include <warpwright/memory/detail/locks.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// What an adaptor remembers of a live block.
struct booked_block {
  void* pointer;
  std::size_t bytes;
  std::size_t front_bytes;  // between the upstream's block and the user's
  std::uint64_t since_ns;
  source_location where;
};

/// The live blocks of an adaptor, by address.
///
/// Room for an entry is made before upstream is asked (place), and an entry leaves before upstream
/// gets the block back (taken): so neither a lack of host memory loses a block, nor does an address
/// that another thread gets at once meet its old entry.
/// **Threads:** any number; one mutex.
class block_books {
 public:
  class place;
  class taken;

  /// Calls visit(booked_block const&) for each block; no other call gets on meanwhile.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    held<blocking_mutex> const lock{mutex_};
    for (booked_block const& block : blocks_) visit(block);
  }
  [[nodiscard]] std::size_t blocks() const noexcept {
    held<blocking_mutex> const lock{mutex_};
    return blocks_.size();
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    held<blocking_mutex> const lock{mutex_};
    return bytes_;
  }

 private:
  static std::uint64_t key(void const* pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }
  void make_room() {
    std::size_t const count = blocks_.size() + places_ + 1;
    blocks_.reserve(count);
    numbers_.reserve(count);
    ++places_;
  }
  // @pre a place is open
  void insert(booked_block const& block) noexcept {
    --places_;
    bytes_ += block.bytes;
    std::uint32_t const number = numbers_.find(key(block.pointer));
    if (number != address_map::none) {
      // The old block was freed behind our back, else its address could not be here again.
      bytes_ -= blocks_[number].bytes;
      blocks_[number] = block;
      return;
    }
    numbers_.insert(key(block.pointer), static_cast<std::uint32_t>(blocks_.size()));
    blocks_.push_back(block);
  }
  // Leaves a place open.
  bool remove(void const* pointer, booked_block& block) noexcept {
    std::uint32_t const number = numbers_.erase(key(pointer));
    if (number == address_map::none) return false;
    block = blocks_[number];
    bytes_ -= block.bytes;
    ++places_;
    booked_block const last = blocks_.back();
    blocks_.pop_back();
    if (last.pointer != pointer) {  // the last one moves into the gap
      numbers_.erase(key(last.pointer));
      numbers_.insert(key(last.pointer), number);
      blocks_[number] = last;
    }
    return true;
  }

  mutable blocking_mutex mutex_;
  // Guarded by mutex_:
  array<booked_block> blocks_;
  address_map numbers_;  // address to place in blocks_
  std::size_t places_ = 0;
  std::uint64_t bytes_ = 0;
};

/// Room for one entry; given up at the end unless it was filled.
class block_books::place {
 public:
  explicit place(block_books& books) : books_{books} {
    held<blocking_mutex> const lock{books_.mutex_};
    books_.make_room();
  }
  ~place() {
    if (!open_) return;
    held<blocking_mutex> const lock{books_.mutex_};
    --books_.places_;
  }
  place(place const&) = delete;
  place& operator=(place const&) = delete;

  void fill(booked_block const& block) noexcept {
    held<blocking_mutex> const lock{books_.mutex_};
    books_.insert(block);
    open_ = false;
  }

 private:
  block_books& books_;
  bool open_ = true;
};

/// An entry taken out; it comes back at the end unless gone() was called.
class block_books::taken {
 public:
  taken(block_books& books, void* pointer, source_location where) noexcept
      : books_{books}, block_{pointer, 0, 0, 0, where} {
    held<blocking_mutex> const lock{books_.mutex_};
    found_ = books_.remove(pointer, block_);
  }
  ~taken() {
    if (!found_) return;
    held<blocking_mutex> const lock{books_.mutex_};
    if (gone_) {
      --books_.places_;
    } else {
      books_.insert(block_);
    }
  }
  taken(taken const&) = delete;
  taken& operator=(taken const&) = delete;

  [[nodiscard]] bool found() const noexcept { return found_; }
  [[nodiscard]] booked_block const& block() const noexcept { return block_; }
  void gone() noexcept { gone_ = true; }

  /// Refuses a pointer that is not in the books, or a size that is not the one in the books.
  void require(char const* who, std::size_t bytes, source_location where) const {
    if (!found_) {
      throw_invalid_argument(text{who} + ": cannot free " + block_.pointer + " (" + bytes +
                                 " bytes): it is no live block of this adaptor: freed already, or "
                                 "not allocated here; free it once, where it was allocated",
                             where);
    }
    if (block_.bytes != bytes) {
      throw_invalid_argument(
          text{who} + ": wrong size: " + block_.pointer + " is freed with " + bytes +
              " bytes, but " + block_.bytes + " bytes were allocated at " +
              text{block_.where.file(), block_.where.line()} + "; pass the same size",
          where);
    }
  }

 private:
  block_books& books_;
  booked_block block_;
  bool found_ = false;
  bool gone_ = false;
};

}  // namespace detail

WARPWRIGHT_END
