// expect: warpwright::ew: an index is an integer
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A float is no index.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 4) = ew::gather(ew::in(x, 16), ew::in(index, 4)));
#else
  ew::evaluate_host(ew::out(y, 4) = ew::gather(ew::in(x, 16), ew::in(x, 4)));
#endif
}
