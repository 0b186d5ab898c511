// expect: in_order() is of rows: the index is col(pointer, cols)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements are added by atomic operations alone.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::scatter_add(y, 16, ew::in(index, 4)) = ew::in(x, 4));
#else
  ew::evaluate_host(ew::scatter_add(y, 16, ew::in(index, 4)).in_order() = ew::in(x, 4));
#endif
}
