// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The choices of a chooser by shape. Reading takes no lock: entries are never changed or removed,
// only superseded, and stay alive until the table is destroyed, as do smaller arrays of slot_array.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/shape_key.hpp>
#include <warpwright/measure/choose.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr std::size_t no_candidate = static_cast<std::size_t>(-1);

class choice_table {
 public:
  struct entry {
    shape_key shape;
    std::uint64_t hash;
    bool final;  // otherwise insert() supersedes it
    std::size_t candidates;
    choice value;
  };

  choice_table() = default;
  choice_table(choice_table const&) = delete;
  choice_table& operator=(choice_table const&) = delete;
  ~choice_table() {
    for (entry* const e : entries_) delete e;
    for (slot_array const* const s : all_slots_) delete s;
  }

  // @return null if there is none
  [[nodiscard]] entry const* find(shape_key const& shape) const noexcept {
    slot_array const* const current = slots_.load(memory_order::acquire);
    if (current == nullptr) return nullptr;
    std::uint64_t const hash = shape.hash();
    return current->at(current->position(shape, hash));
  }

  // Keeps a choice, unless a final one is kept already. @return what is kept
  entry const& insert(shape_key const& shape, choice value, bool final) {
    unique_lock<mutex> const lock{mutex_};
    std::uint64_t const hash = shape.hash();
    reserve_one();
    slot_array* const current = slots_.load(memory_order::relaxed);
    std::size_t const position = current->position(shape, hash);
    entry const* const old = current->at(position);
    if (old != nullptr && (old->final || !final)) return *old;
    entries_.reserve(entries_.size() + 1);
    std::size_t const candidates = value.candidates.size();
    entry* const added = new entry{shape, hash, final, candidates, std::move(value)};
    entries_.push_back(added);
    current->put(position, added);
    if (old == nullptr) ++shapes_;
    return *added;
  }

  [[nodiscard]] std::size_t size() const noexcept {
    unique_lock<mutex> const lock{mutex_};
    return shapes_;
  }

 private:
  using slot = atomic<entry const*>;

  // Open addressing with linear probing, at most half full; the capacity is a power of two.
  class slot_array {
   public:
    explicit slot_array(std::size_t capacity) : mask_{capacity - 1}, data_(capacity) {}

    // Where a shape is, or would be.
    [[nodiscard]] std::size_t position(shape_key const& shape, std::uint64_t hash) const noexcept {
      for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
        entry const* const e = at(i);
        if (e == nullptr || (e->hash == hash && e->shape == shape)) return i;
      }
    }
    [[nodiscard]] entry const* at(std::size_t i) const noexcept {
      return data_[i].load(memory_order::acquire);
    }
    void put(std::size_t i, entry const* e) noexcept { data_[i].store(e, memory_order::release); }
    [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

   private:
    std::size_t mask_;
    array<slot> data_;  // never grows
  };

  void reserve_one() {
    slot_array* const old = slots_.load(memory_order::relaxed);
    std::size_t const capacity = old == nullptr ? 0 : old->capacity();
    if (2 * (shapes_ + 1) <= capacity) return;
    all_slots_.reserve(all_slots_.size() + 1);
    slot_array* const larger = new slot_array{capacity == 0 ? 32 : 2 * capacity};
    all_slots_.push_back(larger);
    for (std::size_t i = 0; i < capacity; ++i) {
      entry const* const e = old->at(i);
      if (e != nullptr) larger->put(larger->position(e->shape, e->hash), e);
    }
    slots_.store(larger, memory_order::release);
  }

  mutable mutex mutex_;
  atomic<slot_array*> slots_;
  array<slot_array*> all_slots_;
  array<entry*> entries_;
  std::size_t shapes_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
