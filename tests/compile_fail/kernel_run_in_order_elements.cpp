// expect: warpwright::ew::run_in_order: takes `out_at(data, count, n, col(index, cols)) +=
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Single elements are not added in order.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void add(warpwright::stream_ref stream, float* y, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  static_cast<void>(stream);
  ew::evaluate_host(ew::out_at(y, 8, 8, ew::in(index, 8)) += ew::in(x, 8));
#else
  ew::run_in_order(stream, ew::out_at(y, 8, 8, ew::in(index, 8)) += ew::in(x, 8));
#endif
}
