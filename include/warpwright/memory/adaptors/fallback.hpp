// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/live_block_map.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// A request that the first upstream could not serve.
struct fallback_event {
  void* pointer;            ///< from the second upstream; null: it was out of memory, too
  std::size_t bytes;        ///< as requested
  std::uint64_t fallbacks;  ///< requests to the second upstream so far, this one included
  source_location where;    ///< the caller's source location
};

/// A snapshot of a fallback_adaptor's counters.
struct fallback_statistics {
  std::uint64_t fallbacks = 0;    ///< requests to the second upstream
  std::uint64_t failures = 0;     ///< the part of fallbacks that failed
  std::uint64_t live_blocks = 0;  ///< of the second upstream
  std::uint64_t live_bytes = 0;   ///< of the second upstream, as requested
};

/// Allocates from a second upstream when the first is out of memory, and reports each time:
/// page-locked, then pageable memory, or device, then managed memory.
///
/// Only out of memory causes a fallback; other errors of the first upstream propagate.
/// @pre Both upstreams outlive the adaptor. The callers can use both kinds of memory.
/// **Threads:** as many as both upstreams allow. **Capture:** as the upstreams.
/// **Cost:** one atomic load a deallocation; while blocks of the second upstream are live also one
/// mutex and one look-up by address. A fallback first costs all that the first upstream tries: a
/// memory_pool waits for its streams on the host before it fails.
template <class First, class Second>
class fallback_adaptor : public detail::memory_interface<fallback_adaptor<First, Second>>,
                         private detail::noncopyable {
 public:
  /// Called for each fallback, after the second upstream has returned. Called without a lock, from
  /// any thread. Must not throw, since the block would be lost.
  using callback = void (*)(void* user, fallback_event const& event) noexcept;

  /// Creates the adaptor.
  /// @param first        the first upstream
  /// @param second       the upstream to use when the first is out of memory
  /// @param on_fallback  required: a program must report that it runs slowly from the wrong memory
  /// @param user         passed to the callback
  /// @throws std::invalid_argument  for a null callback
  fallback_adaptor(First& first, Second& second, callback on_fallback, void* user = nullptr,
                   source_location where = source_location::current())
      : first_{first}, second_{second}, on_fallback_{on_fallback}, user_{user} {
    if (on_fallback == nullptr) {
      detail::throw_invalid_argument(
          "fallback_adaptor: the callback is null; pass a function that reports the fallback",
          where);
    }
  }
  fallback_adaptor(First&, Second&, std::nullptr_t,
                   void* = nullptr) = delete;  // the callback is required

  /// @return the first upstream
  [[nodiscard]] First& first() const noexcept { return first_; }
  /// @return the upstream to use when the first is out of memory
  [[nodiscard]] Second& second() const noexcept { return second_; }
  /// @return the first upstream's device
  [[nodiscard]] device_id device() const noexcept { return first_.device(); }
  /// @return a snapshot of the counters
  [[nodiscard]] fallback_statistics statistics() const noexcept {
    return fallback_statistics{fallbacks_.load(detail::memory_order::relaxed),
                               failures_.load(detail::memory_order::relaxed),
                               second_blocks_.blocks(), second_blocks_.bytes()};
  }

 private:
  friend class detail::memory_interface<fallback_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    void* const pointer = detail::allocate_from<false>(first_, request);
    return pointer != nullptr ? pointer : take_second<Throws>(request);
  }
  template <bool Throws>
  [[gnu::cold]] void* take_second(detail::memory_request const& request) {
    detail::live_block_map::reservation entry{second_blocks_};
    fallback_event event{nullptr, request.bytes,
                         fallbacks_.fetch_add(1, detail::memory_order::relaxed) + 1, request.where};
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
    entry.insert(detail::live_block{event.pointer, request.bytes, 0, 0, request.where});
    on_fallback_(user_, event);
    return event.pointer;
  }
  void fail(fallback_event const& event) noexcept {
    failures_.fetch_add(1, detail::memory_order::relaxed);
    on_fallback_(user_, event);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    auto const free = [&](detail::live_block const&) {
      second_.deallocate(stream, pointer, bytes, where);
    };
    if (second_blocks_.free_if_found("fallback_adaptor", pointer, bytes, where, free)) return;
    first_.deallocate(stream, pointer, bytes, where);
  }

  First& first_;
  Second& second_;
  callback on_fallback_;
  void* user_;
  detail::live_block_map second_blocks_;
  detail::atomic<std::uint64_t> fallbacks_;
  detail::atomic<std::uint64_t> failures_;
};

WARPWRIGHT_END
