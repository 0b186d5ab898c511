// expect: a function of rows within another: the outer one needs the inner one's whole row
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Two functions of rows after each other are two kernels.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto build(float const* x) { return ew::softmax(ew::in(x, 16) * 2); }
#else
auto build(float const* x) { return ew::softmax(ew::layer_norm(ew::in(x, 16), 1e-5) * 2); }
#endif
