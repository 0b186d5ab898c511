// expect: the outputs are of several functions of rows; name one
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One function of rows a kernel.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void run(float* y, float* z, float const* x) {
  auto const soft = ew::softmax(ew::in(x, 16));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_rows_host({4, 4}, ew::out(y, 16) = soft, ew::out(z, 16) = soft * 2);
#else
  ew::run_rows_host({4, 4}, ew::out(y, 16) = soft,
                    ew::out(z, 16) = ew::rms_norm(ew::in(x, 16), 1e-5));
#endif
}
