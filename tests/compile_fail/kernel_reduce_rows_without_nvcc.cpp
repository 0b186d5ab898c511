// expect: warpwright: this call needs a kernel: compile this file with nvcc
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// As kernel_reduce_without_nvcc, for rows.
#include <warpwright/kernel/reduce_matrix.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void run(float* y, float const* x) {
  ew::reduce_rows_host({4, 4}, ew::to(y) = ew::sum(ew::in(x, 16)));
}
#else
void run(warpwright::stream_ref stream, float* y, float const* x) {
  ew::reduce_rows(stream, {4, 4}, ew::to(y) = ew::sum(ew::in(x, 16)));
}
#endif
