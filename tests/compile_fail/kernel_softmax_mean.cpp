// expect: this function of rows has no such part
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The mean is layer_norm's.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto build(float const* x) { return ew::layer_norm(ew::in(x, 16), 1e-5).mean(); }
#else
auto build(float const* x) { return ew::softmax(ew::in(x, 16)).mean(); }
#endif
