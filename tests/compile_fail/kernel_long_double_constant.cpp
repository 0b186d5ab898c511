// expect: GPUs have no long double; the numbers are float, double
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU's long double is a double, of another size than the host's: here constant().
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto number() { return ew::constant(0.1); }
#else
auto number() { return ew::constant(0.1L); }
#endif
