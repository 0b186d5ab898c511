// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/memory/detail/adaptor.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Serialises all calls to an upstream that is not thread-safe. The pools of this library are.
///
/// @pre The upstream outlives the adaptor, and is used only through it.
/// **Threads:** any number. **Capture:** as the upstream.
/// **Cost:** one mutex, held for the whole of the upstream's call.
template <class Upstream>
class thread_safe_adaptor : public detail::memory_adaptor<thread_safe_adaptor<Upstream>, Upstream> {
 public:
  /// Creates an adaptor.
  /// @param upstream  where the memory comes from
  explicit thread_safe_adaptor(Upstream& upstream) noexcept : base{upstream} {}

 private:
  using base = detail::memory_adaptor<thread_safe_adaptor, Upstream>;
  friend class detail::memory_interface<thread_safe_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::unique_lock<detail::mutex> const lock{mutex_};
    return detail::allocate_from<Throws>(this->upstream(), request);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::unique_lock<detail::mutex> const lock{mutex_};
    this->upstream().deallocate(stream, pointer, bytes, where);
  }

  detail::mutex mutex_;
};

WARPWRIGHT_END
