// expect: reduce_cols() takes sum() and max()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_cols() reduces each column by its own name.
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/row_gradients.hpp>

namespace ew = warpwright::ew;

void call(float* sums, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce_cols_host({4, 4}, ew::to(sums) = ew::sum(ew::in(x, 16)));
#else
  ew::reduce_cols_host({4, 4}, ew::to(sums) = ew::column_sum(ew::in(x, 16)));
#endif
}
