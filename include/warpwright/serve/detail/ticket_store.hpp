// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/serve/batcher_options.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

class ticket_store;

/// What a ticket and a batcher share: the input, and the answer.
///
/// state: a ticket_status, who still uses the slot, and whether a thread waits. The status leaves
/// `pending` once, so that a request is answered once; who has set `claimed` writes the figures.
struct ticket_slot {
  static constexpr std::uint32_t status_bits = 7;
  static constexpr std::uint32_t claimed = 7;   // pending for those who ask
  static constexpr std::uint32_t waited = 8;    // a thread waits for the answer
  static constexpr std::uint32_t ticket = 16;   // a ticket uses the slot
  static constexpr std::uint32_t batcher = 32;  // the batcher does
  static constexpr std::uint32_t orphan = 64;   // there is no batcher any more
  static constexpr std::uint32_t inbox = 128;   // the policy does not know the request yet

  atomic<std::uint32_t> state;
  std::uint32_t index = 0;
  ticket_store* store = nullptr;
  ticket_slot* next = nullptr;  // in the list of free ones, or in the inbox
  char* input = nullptr;
  char* output = nullptr;
  char* failure = nullptr;        // a text of malloc(), of `failed`
  double answered_seconds = 0.0;  // from submission to the end of the batch
  double waited_seconds = 0.0;    // of those without a value
  double predicted_seconds = 0.0;
  double retry_after_seconds = 0.0;
  double submitted = 0.0;  // a time, if there is a deadline
  request_values values;

  [[nodiscard]] bool is_in_inbox() const noexcept {
    return (state.load(memory_order::relaxed) & inbox) != 0;
  }
  [[nodiscard]] ticket_status status() const noexcept {
    std::uint32_t const s = state.load(memory_order::acquire) & status_bits;
    return s == claimed ? ticket_status::pending : static_cast<ticket_status>(s);
  }
};

/// The slots of a batcher. Tickets may outlive the batcher; the last one frees the memory.
class ticket_store : noncopyable {
 public:
  /// @param page_locked  whether inputs lie in page-locked memory
  ticket_store(std::size_t input_bytes, std::size_t output_bytes, bool page_locked) noexcept;

  /// @return a slot that the ticket and the batcher use. Others may use it after both have released
  ///   it
  /// @throws std::bad_alloc, cuda_error
  ticket_slot* take(source_location where);
  /// @pre under the batcher's lock, as grow()
  [[nodiscard]] ticket_slot* at(std::uint32_t index) const noexcept {
    return &chunks_[index / slots_of_chunk_].tickets[index % slots_of_chunk_];
  }

  /// Ends the use of a slot by the ticket or the batcher.
  static void release(ticket_slot& slot, std::uint32_t by) noexcept;
  /// The policy knows the request.
  static void leave_inbox(ticket_slot& slot) noexcept;
  /// Gives the answer, unless there is one. @return whether it was given
  /// @param releases  batcher: ends the batcher's use as well; 0
  static bool answer(ticket_slot& slot, ticket_status status, std::uint32_t releases) noexcept;
  /// As answer(), of all but `answered`, with what error() says.
  static bool answer(ticket_slot& slot, ticket_status status, std::uint32_t releases,
                     double waited_seconds, double predicted_seconds,
                     char const* failure = nullptr) noexcept;
  /// Waits until there is an answer.
  /// @param until  a time of CLOCK_MONOTONIC, ns. @return whether there is one
  static bool wait(ticket_slot& slot, std::uint64_t until) noexcept;

  /// The batcher ends. Frees the store, or leaves that to the last ticket.
  void leave() noexcept;

  spin_lock& lock() noexcept { return lock_; }

 private:
  ~ticket_store();
  struct chunk {
    ticket_slot* tickets;
    char* data;
  };
  struct shard {
    mutex lock;
    condition_variable answered;
  };
  static constexpr unsigned shards = 64;

  shard& shard_of(ticket_slot const& slot) noexcept { return shards_[slot.index % shards]; }
  void put_back(ticket_slot& slot) noexcept;
  void grow(source_location where);

  std::size_t input_bytes_;
  std::size_t output_bytes_;
  bool page_locked_;
  std::uint32_t slots_of_chunk_;
  array<chunk> chunks_;
  mutex growing_;
  spin_lock lock_;  // of chunks_ and of the policy, which knows slots by their indices
  spin_lock free_lock_;
  ticket_slot* free_ = nullptr;
  atomic<std::size_t> users_{1};  // when the batcher has left: tickets, and it
  shard shards_[shards];
};

/// @return when so many seconds have passed, in ns of CLOCK_MONOTONIC; the largest number: never
std::uint64_t monotonic_after(double seconds) noexcept;

/// What a ticket says that has no value.
/// @param slot  null: of no request
std::string ticket_error(ticket_status status, ticket_slot const* slot);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/serve/detail/ticket_store_definitions.hpp>
#endif
