// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/event_count.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/serve/batcher_options.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

class ticket_store;

/// What a ticket says beside its status.
struct answer_figures {
  double seconds = 0.0;      // from submission to the answer
  double predicted = 0.0;    // to the answer, if that is the reason
  double retry_after = 0.0;  // seconds
};

/// What a ticket and a batcher share: the input, and the answer.
///
/// state: a ticket_status, and who uses the slot. The status leaves `pending` once, so that a
/// request is answered once; who has set `claimed` writes the figures.
struct ticket_slot {
  static constexpr std::uint32_t status_bits = 7;
  static constexpr std::uint32_t claimed = 7;   // pending for those who ask
  static constexpr std::uint32_t waited = 8;    // a thread waits, or has waited, for the answer
  static constexpr std::uint32_t ticket = 16;   // a ticket uses the slot
  static constexpr std::uint32_t batcher = 32;  // the batcher does
  static constexpr std::uint32_t timer = 64;    // who answers it late while its batch runs does
  static constexpr std::uint32_t users = ticket | batcher | timer;
  static constexpr std::uint32_t inbox = 128;  // the policy does not know the request yet

  atomic<std::uint32_t> state;
  std::uint32_t index = 0;
  ticket_store* store = nullptr;
  ticket_slot* next = nullptr;  // in the list of free ones, or in the inbox
  atomic<unsigned> depth;       // of the inbox, with it
  char* input = nullptr;
  char* output = nullptr;
  char* failure = nullptr;  // a text of malloc(), of `failed`
  answer_figures figures;
  double submitted = 0.0;  // a time
  request_values values;

  [[nodiscard]] bool is_in_inbox() const noexcept {
    return (state.load(memory_order::relaxed) & inbox) != 0;
  }
  void leave_inbox() noexcept { static_cast<void>(state.fetch_sub(inbox, memory_order::relaxed)); }
  [[nodiscard]] ticket_status status() const noexcept {
    std::uint32_t const s = state.load(memory_order::acquire) & status_bits;
    return s == claimed ? ticket_status::pending : static_cast<ticket_status>(s);
  }
};

/// The slots of a batcher. Tickets may outlive the batcher; the last one frees the memory.
class ticket_store : noncopyable {
 public:
  ticket_store(std::size_t input_bytes, std::size_t output_bytes) noexcept;

  /// @return a slot that the ticket and the batcher use. It is another request's when nobody does
  /// @throws std::bad_alloc
  ticket_slot* take();
  /// @pre under the batcher's lock
  [[nodiscard]] ticket_slot* at(std::uint32_t index) const noexcept {
    return &chunks_[index / slots_of_chunk_].tickets[index % slots_of_chunk_];
  }

  /// Ends a use of a slot.
  static void release(ticket_slot& slot, std::uint32_t by) noexcept;
  /// Gives the answer, unless there is one.
  /// @param releases  batcher or timer, whose use ends in any case; 0
  /// @return whether it was given
  static bool answer(ticket_slot& slot, ticket_status status, std::uint32_t releases,
                     answer_figures const& figures, char const* failure = nullptr) noexcept;
  /// Waits until there is an answer.
  /// @param until  a time of CLOCK_MONOTONIC, ns. @return whether there is one
  static bool wait(ticket_slot& slot, std::uint64_t until) noexcept;

  /// A ticket calls the batcher: @return false: it has ended, or is about to
  bool begin_visit() noexcept {
    static_cast<void>(visits_.fetch_add(1, memory_order::seq_cst));
    if (!left_.load(memory_order::seq_cst)) return true;
    end_visit();
    return false;
  }
  void end_visit() noexcept { static_cast<void>(visits_.fetch_sub(1, memory_order::release)); }
  /// The batcher ends: no visit begins behind this.
  void end_visits() noexcept {
    left_.store(true, memory_order::seq_cst);
    for (int step = 0; visits_.load(memory_order::seq_cst) != 0; ++step) spin_wait(step);
  }
  /// The batcher uses no slot any more. Frees the store, or leaves that to the last ticket.
  void leave() noexcept;

  spin_lock& lock() noexcept { return lock_; }

 private:
  ~ticket_store();
  struct chunk {
    ticket_slot* tickets;
    char* data;
  };
  static constexpr unsigned shards = 64;

  void put_back(ticket_slot& slot) noexcept;
  void grow();

  std::size_t input_bytes_;
  std::size_t output_bytes_;
  std::uint32_t slots_of_chunk_ = 256;
  array<chunk> chunks_;
  mutex growing_;
  spin_lock lock_;  // of chunks_ and of the policy, which knows slots by their indices
  spin_lock free_lock_;
  ticket_slot* free_ = nullptr;
  std::size_t in_use_ = 0;
  bool ends_ = false;  // with the last slot in use
  atomic<bool> left_;
  atomic<unsigned> visits_;
  event_count answered_[shards];
};

/// What a ticket says that has no value.
/// @param slot  null: of no request
std::string ticket_error(ticket_status status, ticket_slot const* slot);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/serve/detail/ticket_store_definitions.hpp>
#endif
