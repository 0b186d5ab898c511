// expect: is of softmax(), layer_norm() or the like; evaluate it with run()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// run_rows() is for functions of rows.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void run(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::in(x, 16) * 2);
#else
  ew::run_rows_host({4, 4}, ew::out(y, 16) = ew::in(x, 16) * 2);
#endif
}
