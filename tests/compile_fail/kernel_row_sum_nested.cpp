// expect: a sum of a row within another
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A pass adds up the rows once.
#include <warpwright/kernel/row_gradients.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto build(float const* x) { return ew::row_sum(ew::once(ew::in(x, 16))); }
#else
auto build(float const* x) {
  return ew::row_sum(ew::once(ew::in(x, 16) - ew::row_mean(ew::in(x, 16))));
}
#endif
