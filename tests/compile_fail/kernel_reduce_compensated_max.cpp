// expect: compensated() is for sum(), mean() and norm()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A maximum is not rounded.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto build(float const* x) { return ew::max(ew::in(x, 16)); }
#else
auto build(float const* x) { return ew::max(ew::in(x, 16)).compensated(); }
#endif
