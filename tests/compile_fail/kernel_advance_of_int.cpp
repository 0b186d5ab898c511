// expect: the offset must be an unsigned integer of 64 bits
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An offset of 32 bits would come round, and is not what philox reads.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto generator(std::uint64_t const* offset) { return ew::philox{1, offset}; }
#else
void next(warpwright::stream_ref stream, unsigned* offset) { ew::advance(stream, offset); }
#endif
