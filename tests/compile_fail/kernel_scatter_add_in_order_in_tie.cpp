// expect: warpwright::ew: scatter_add().in_order() is a kernel of its own
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Its kernel is not that of other outputs.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::tie(ew::scatter_add(y, 16, ew::col(index, 4)) = ew::in(x, 8)));
#else
  ew::evaluate_host(ew::tie(ew::scatter_add(y, 16, ew::col(index, 4)).in_order() = ew::in(x, 8)));
#endif
}
