// expect: warpwright::ew::out: the array's elements are const; an output must be writable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The strided array is of a pointer to const.
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void evaluate(float* y) { ew::evaluate_host(ew::out(ew::array(y, {4, 4}, {5, 1})) = 1); }
#else
void evaluate(float const* y) { ew::evaluate_host(ew::out(ew::array(y, {4, 4}, {5, 1})) = 1); }
#endif
