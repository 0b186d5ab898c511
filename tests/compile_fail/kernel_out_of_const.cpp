// expect: an output must be writable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The output's pointer is to const.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void evaluate(float* y) { ew::evaluate_host(ew::out(y, 16) = 1); }
#else
void evaluate(float const* y) { ew::evaluate_host(ew::out(y, 16) = 1); }
#endif
