// expect: the numbers must be two of float, double, __half or __nv_bfloat16
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Integers have no units in the last place.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/numeric.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto far_off() { return ew::ulp_distance(1.0F, 2.0F); }
#else
auto far_off() { return ew::ulp_distance(1, 2); }
#endif
