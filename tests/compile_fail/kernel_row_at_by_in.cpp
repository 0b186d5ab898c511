// expect: warpwright::ew::row_at: write row_at(in(table, rows * cols), col(index, cols))
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The index of a row carries the length of a row.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::row_at(ew::in(x, 64), ew::col(index, 4)));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::row_at(ew::in(x, 64), ew::in(index, 4)));
#endif
}
