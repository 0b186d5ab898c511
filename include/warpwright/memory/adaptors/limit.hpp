// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/memory/detail/adaptor.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Limits the live bytes of one part of a program to a share of a pool.
///
/// @pre The upstream outlives the adaptor, and the adaptor all its blocks.
/// **Threads:** as many as the upstream allows. **Capture:** as the upstream.
/// **Cost:** two atomic additions for an allocation and its deallocation.
template <class Upstream>
class limit_adaptor : public detail::memory_adaptor<limit_adaptor<Upstream>, Upstream> {
 public:
  /// Creates the adaptor.
  /// @param upstream     where the memory comes from
  /// @param limit_bytes  the maximum of live bytes, as requested, without the upstream's rounding
  limit_adaptor(Upstream& upstream, std::size_t limit_bytes) noexcept
      : base{upstream}, limit_bytes_{limit_bytes} {}

  /// @return the limit
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }
  /// @return the live bytes, including requests in progress
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_bytes_.load(detail::memory_order::relaxed);
  }

 private:
  using base = detail::memory_adaptor<limit_adaptor, Upstream>;
  friend class detail::memory_interface<limit_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    // Counted before the upstream is called, so that two threads cannot exceed the limit together.
    std::size_t live = live_bytes();
    do {
      if (live > limit_bytes_ || request.bytes > limit_bytes_ - live) {
        if constexpr (Throws) throw_over_limit(request, live);
        return nullptr;
      }
    } while (!live_bytes_.compare_exchange_weak(
        live, live + request.bytes, detail::memory_order::relaxed, detail::memory_order::relaxed));
    void* pointer = nullptr;
    try {
      pointer = detail::allocate_from<Throws>(this->upstream(), request);
    } catch (...) {
      release(request.bytes);
      throw;
    }
    if (pointer == nullptr) release(request.bytes);
    return pointer;
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    this->upstream().deallocate(stream, pointer, bytes, where);
    release(bytes);
  }
  void release(std::size_t bytes) noexcept {
    live_bytes_.fetch_sub(bytes, detail::memory_order::relaxed);
  }
  [[noreturn]] WARPWRIGHT_COLD void throw_over_limit(detail::memory_request const& request,
                                                     std::size_t live) const {
    std::size_t const left = live < limit_bytes_ ? limit_bytes_ - live : 0;
    throw out_of_memory{
        memory_report{request.bytes, live, live, left, limit_bytes_, this->device().value()},
        request.where};
  }

  std::size_t limit_bytes_;
  detail::atomic<std::size_t> live_bytes_;
};

WARPWRIGHT_END
