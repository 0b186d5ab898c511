// expect: GPUs add __nv_bfloat16 atomically from compute capability 9.0 on
// flags: -arch=sm_80
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An architecture without the instruction.
#include <cuda_bf16.h>

#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void add(warpwright::stream_ref s, __nv_bfloat16* y, float const* x, int const* index) {
  auto const to = ew::scatter_add(y, 16, ew::col(index, 4));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run(s, to.in_order() = ew::in(x, 8));
#else
  ew::run(s, to = ew::in(x, 8));
#endif
}
