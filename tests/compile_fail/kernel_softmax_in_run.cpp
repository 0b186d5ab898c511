// expect: are functions of whole rows: evaluate them with run_rows(stream, {rows, cols}, ...)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An element alone has no softmax.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void run(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_rows_host({4, 4}, ew::out(y, 16) = ew::softmax(ew::in(x, 16)) * 2);
#else
  ew::evaluate_host(ew::out(y, 16) = ew::softmax(ew::in(x, 16)) * 2);
#endif
}
