// expect: put row(), index() and what else is of elements into it
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// What is of elements has no place beside a sum of them.
#include <warpwright/kernel/reduce_matrix.hpp>

namespace ew = warpwright::ew;

void reduce(float* y, float const* x, float const* w) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce_rows_host({4, 4}, ew::to(y) = ew::sum(ew::in(x, 16) * ew::row(w, 4)));
#else
  ew::reduce_rows_host({4, 4}, ew::to(y) = ew::sum(ew::in(x, 16)) * ew::row(w, 4));
#endif
}
