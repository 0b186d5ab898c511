// expect: as arguments, not in tie()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Several outputs of a pass are arguments.
#include <warpwright/kernel/row_gradients.hpp>

namespace ew = warpwright::ew;

void call(float* y, float const* x) {
  auto const a = ew::out(y, 16) = ew::in(x, 16);
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_row_gradients_host({4, 4}, a);
#else
  ew::run_row_gradients_host({4, 4}, ew::tie(a));
#endif
}
