// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/block_books.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// A request that the first upstream could not serve.
struct fallback_event {
  void* pointer;            ///< what the second upstream answered; null: it had none either
  std::size_t bytes;        ///< as asked for
  std::uint64_t fallbacks;  ///< how often the second was asked, this time included
  source_location where;    ///< the caller's place
};

/// The figures of a fallback_adaptor at one moment.
struct fallback_statistics {
  std::uint64_t fallbacks = 0;    ///< requests that the second upstream was asked for
  std::uint64_t failures = 0;     ///< of these, the ones that it could not serve
  std::uint64_t live_blocks = 0;  ///< of the second upstream
  std::uint64_t live_bytes = 0;   ///< of the second upstream, as asked for
};

/// Takes memory from a second place when the first is out of it, and says so each time:
/// page-locked, then pageable memory, or device, then managed memory.
///
/// Only running out of memory counts; other errors of the first upstream pass through.
/// @pre Both upstreams outlive the adaptor. Both kinds of memory are what the callers can use.
/// **Threads:** as many as both upstreams take. **Capture:** as the upstreams.
/// **Cost:** one atomic load a deallocation; while blocks of the second are live also one mutex and
/// one look-up by address. A request that falls back first pays for all that the first tries: a
/// memory_pool waits for its streams on the host before it gives up.
template <class First, class Second>
class fallback_adaptor : public detail::memory_interface<fallback_adaptor<First, Second>> {
 public:
  /// Told of each fallback, after the second upstream has answered. Called without a lock, by any
  /// thread; it may not throw, for the block would be lost.
  using callback = void (*)(void* user, fallback_event const& event) noexcept;

  /// @param first        asked first
  /// @param second       asked when the first is out of memory
  /// @param on_fallback  required: a program that runs slowly from the wrong memory must say so
  /// @param user         passed to it
  /// @throws std::invalid_argument  for a null callback
  fallback_adaptor(First& first, Second& second, callback on_fallback, void* user = nullptr,
                   source_location where = source_location::current())
      : first_{first}, second_{second}, on_fallback_{on_fallback}, user_{user} {
    if (on_fallback == nullptr) {
      detail::throw_invalid_argument(
          "fallback_adaptor: the callback is null; a fallback is never silent, pass one", where);
    }
  }
  fallback_adaptor(First&, Second&, std::nullptr_t, void* = nullptr) = delete;  // never silent
  fallback_adaptor(fallback_adaptor const&) = delete;
  fallback_adaptor& operator=(fallback_adaptor const&) = delete;

  /// @return the upstream that is asked first
  [[nodiscard]] First& first() const noexcept { return first_; }
  /// @return the upstream that is asked when the first is out of memory
  [[nodiscard]] Second& second() const noexcept { return second_; }
  /// @return the first upstream's device
  [[nodiscard]] device_id device() const noexcept { return first_.device(); }
  /// @return the figures of this moment
  [[nodiscard]] fallback_statistics statistics() const noexcept {
    return fallback_statistics{__atomic_load_n(&fallbacks_, __ATOMIC_RELAXED),
                               __atomic_load_n(&failures_, __ATOMIC_RELAXED), books_.blocks(),
                               books_.bytes()};
  }

 private:
  friend class detail::memory_interface<fallback_adaptor>;

  template <bool Throws>
  void* take(detail::memory_request const& request) {
    void* const pointer = detail::allocate_from<false>(first_, request);
    return pointer != nullptr ? pointer : take_second<Throws>(request);
  }
  template <bool Throws>
  [[gnu::cold]] void* take_second(detail::memory_request const& request) {
    detail::block_books::place place{books_};
    fallback_event event{nullptr, request.bytes,
                         __atomic_add_fetch(&fallbacks_, 1, __ATOMIC_RELAXED), request.where};
    try {
      event.pointer = detail::allocate_from<Throws>(second_, request);
    } catch (...) {
      fail(event);
      throw;
    }
    if (event.pointer == nullptr) {
      fail(event);
      return nullptr;
    }
    place.fill(detail::booked_block{event.pointer, request.bytes, 0, 0, request.where});
    __atomic_fetch_add(&live_, 1, __ATOMIC_RELAXED);
    on_fallback_(user_, event);
    return event.pointer;
  }
  void fail(fallback_event const& event) noexcept {
    __atomic_fetch_add(&failures_, 1, __ATOMIC_RELAXED);
    on_fallback_(user_, event);
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    // Who frees a block of the second has been handed it, and so sees that live_ is not 0.
    if (__atomic_load_n(&live_, __ATOMIC_RELAXED) != 0) {
      detail::block_books::taken block{books_, pointer, where};
      if (block.found()) {
        block.require("fallback_adaptor", bytes, where);
        second_.deallocate(stream, pointer, bytes, where);
        block.gone();
        __atomic_fetch_sub(&live_, 1, __ATOMIC_RELAXED);
        return;
      }
    }
    first_.deallocate(stream, pointer, bytes, where);
  }

  First& first_;
  Second& second_;
  callback on_fallback_;
  void* user_;
  detail::block_books books_;  // of the second's blocks
  std::uint64_t live_ = 0;     // how many these are
  std::uint64_t fallbacks_ = 0;
  std::uint64_t failures_ = 0;
};

WARPWRIGHT_END
