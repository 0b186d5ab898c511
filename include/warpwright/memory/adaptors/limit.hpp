// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/adaptor.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Refuses what would take its live bytes above a limit: a share of a pool for one part of a
/// program.
///
/// @pre The upstream outlives the adaptor, and the adaptor all that it handed out.
/// **Threads:** as many as upstream takes. **Capture:** as upstream.
/// **Cost:** two atomic additions a pair of calls.
template <class Upstream>
class limit_adaptor : public detail::memory_adaptor<limit_adaptor<Upstream>, Upstream> {
 public:
  /// @param upstream     where the memory comes from
  /// @param limit_bytes  the most that may be live at once, as asked for, without what upstream
  ///   adds by rounding
  limit_adaptor(Upstream& upstream, std::size_t limit_bytes) noexcept
      : base{upstream}, limit_bytes_{limit_bytes} {}

  /// @return the limit
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }
  /// @return what is handed out, or just being asked for, in bytes
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return __atomic_load_n(&live_bytes_, __ATOMIC_RELAXED);
  }

 private:
  using base = detail::memory_adaptor<limit_adaptor, Upstream>;
  friend class detail::memory_interface<limit_adaptor>;

  template <bool Throws>
  void* take(detail::memory_request const& request) {
    // Booked before upstream is asked, so that two threads cannot pass the limit together.
    std::size_t live = live_bytes();
    do {
      if (live > limit_bytes_ || request.bytes > limit_bytes_ - live) {
        if constexpr (Throws) refuse(request, live);
        return nullptr;
      }
    } while (!__atomic_compare_exchange_n(&live_bytes_, &live, live + request.bytes, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    void* pointer = nullptr;
    try {
      pointer = detail::allocate_from<Throws>(this->upstream(), request);
    } catch (...) {
      forget(request.bytes);
      throw;
    }
    if (pointer == nullptr) forget(request.bytes);
    return pointer;
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    this->upstream().deallocate(stream, pointer, bytes, where);
    forget(bytes);
  }
  void forget(std::size_t bytes) noexcept {
    __atomic_fetch_sub(&live_bytes_, bytes, __ATOMIC_RELAXED);
  }
  [[noreturn]] WARPWRIGHT_COLD void refuse(detail::memory_request const& request,
                                           std::size_t live) const {
    memory_report report;
    report.requested_bytes = request.bytes;
    report.live_bytes = live;
    report.reserved_bytes = live;
    report.largest_hole_bytes = live < limit_bytes_ ? limit_bytes_ - live : 0;
    report.limit_bytes = limit_bytes_;
    report.device = this->device().value();
    throw out_of_memory{report, request.where};
  }

  std::size_t limit_bytes_;
  std::size_t live_bytes_ = 0;  // the compiler's atomics: <atomic> is slow to compile
};

WARPWRIGHT_END
