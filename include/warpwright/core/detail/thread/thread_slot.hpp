// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdint>

#include <pthread.h>

WARPWRIGHT_BEGIN

namespace detail {

/// A number below `1 << Bits`, a different one for most threads that exist at once.
///
/// A thread is named by an address in its stack. Stacks are regular distances apart, but which ones
/// differs between systems: with huge pages and heaps between them it is a multiple of 64 pages, so
/// that the page's low bits would be the same for all. Multiples of the golden ratio spread any.
template <unsigned Bits>
unsigned thread_slot(pthread_t thread) noexcept {
  std::uint64_t const address = thread;
  return static_cast<unsigned>(((address >> 12U) * 0x9e3779b97f4a7c15ULL) >> (64U - Bits));
}

}  // namespace detail

WARPWRIGHT_END
