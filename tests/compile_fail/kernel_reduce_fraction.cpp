// expect: warpwright::ew::reduce: a number of elements is an integer
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A number of elements that would be cut off.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void total(float* y, float const* x) { ew::reduce_host(2, ew::to(y) = ew::sum(ew::in(x, 2))); }
#else
void total(float* y, float const* x) { ew::reduce_host(2.5, ew::to(y) = ew::sum(ew::in(x, 2))); }
#endif
