// expect: warpwright::ew::gather: the table must be in(pointer, count)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Only what lies in memory can be read by index.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 4) = 2 * ew::gather(ew::in(x, 16), ew::in(index, 4)));
#else
  ew::evaluate_host(ew::out(y, 4) = ew::gather(2 * ew::in(x, 16), ew::in(index, 4)));
#endif
}
