// expect: warpwright::ew::run_rows_host: an output is out_at() or scatter_add()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions of rows write whole arrays.
#include <warpwright/kernel/indices.hpp>
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_rows_host({4, 4}, ew::out(y, 16) = ew::softmax(ew::in(x, 16)));
#else
  ew::run_rows_host({4, 4}, ew::scatter_add(y, 16, ew::col(index, 4)) = ew::softmax(ew::in(x, 16)));
#endif
}
