// expect: the offset must be an unsigned integer of 64 bits
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An offset in memory has 64 bits.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>

namespace ew = warpwright::ew;

auto generator(unsigned const* offset) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  return ew::philox{1, *offset};
#else
  return ew::philox{1, offset};
#endif
}
