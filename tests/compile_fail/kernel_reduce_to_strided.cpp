// expect: warpwright::ew::to: a strided array; reductions write one element
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of rows follow each other.
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

void run(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce_rows_host({4, 4}, ew::to(y) = ew::sum(ew::in(x, 16)));
#else
  ew::reduce_rows_host({4, 4}, ew::to(ew::array(y, {4}, {2})) = ew::sum(ew::in(x, 16)));
#endif
}
