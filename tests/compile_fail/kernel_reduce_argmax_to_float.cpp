// expect: what argmin() finds to a located or to an integer
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A float holds no index past 2^24.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto build(std::uint64_t* y, float const* x) { return ew::to(y) = ew::argmax(ew::in(x, 16)); }
#else
auto build(float* y, float const* x) { return ew::to(y) = ew::argmax(ew::in(x, 16)); }
#endif
