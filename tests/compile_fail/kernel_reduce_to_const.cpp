// expect: the pointer is to const; a result must be writable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A result is written.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto build(float* y, float const* x) { return ew::to(y) = ew::sum(ew::in(x, 16)); }
#else
auto build(float const* y, float const* x) { return ew::to(y) = ew::sum(ew::in(x, 16)); }
#endif
