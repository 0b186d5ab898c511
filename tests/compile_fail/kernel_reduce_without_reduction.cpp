// expect: no reduction, as sum(x), on the right side; elements go to out()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// to() is not out().
#include <warpwright/kernel/reduce_matrix.hpp>

namespace ew = warpwright::ew;

void reduce(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce_rows_host({4, 4}, ew::to(y) = ew::sum(ew::in(x, 16)) * 2);
#else
  ew::reduce_rows_host({4, 4}, ew::to(y) = ew::in(x, 16) * 2);
#endif
}
