// expect: cast it to a pointer to their type, as in static_cast<float*>(data)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 2
//
// A result of which the type is not known.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

void reduce(void* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce_host(16, ew::to(static_cast<float*>(y)) = ew::sum(ew::in(x, 16)));
#else
  ew::reduce_host(16, ew::to(y) = ew::sum(ew::in(x, 16)));
#endif
}
