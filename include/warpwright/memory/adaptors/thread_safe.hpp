// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/locks.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Lets one caller at a time into an upstream that has no lock of its own; the pools of this
/// library have one.
///
/// @pre The upstream outlives the adaptor, and is used only through it.
/// **Threads:** any number. **Capture:** as upstream.
/// **Cost:** one mutex, held for the whole of upstream's call.
template <class Upstream>
class thread_safe_adaptor : public detail::memory_adaptor<thread_safe_adaptor<Upstream>, Upstream> {
 public:
  /// @param upstream  where the memory comes from
  explicit thread_safe_adaptor(Upstream& upstream) noexcept : base{upstream} {}

 private:
  using base = detail::memory_adaptor<thread_safe_adaptor, Upstream>;
  friend class detail::memory_interface<thread_safe_adaptor>;

  template <bool Throws>
  void* take(detail::memory_request const& request) {
    detail::held<detail::blocking_mutex> const lock{mutex_};
    return detail::allocate_from<Throws>(this->upstream(), request);
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::held<detail::blocking_mutex> const lock{mutex_};
    this->upstream().deallocate(stream, pointer, bytes, where);
  }

  detail::blocking_mutex mutex_;
};

WARPWRIGHT_END
