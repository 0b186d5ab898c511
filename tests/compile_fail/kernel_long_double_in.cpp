// expect: GPUs have no long double; the numbers are float, double
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU's long double is a double, of another size than the host's: here an array.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto read(double const* x) { return ew::in(x, 16); }
#else
auto read(long double const* x) { return ew::in(x, 16); }
#endif
