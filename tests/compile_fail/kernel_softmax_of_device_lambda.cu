// expect: the lambda of map() must be __host__ __device__, or say what it returns, as in -> float
// flags: --extended-lambda
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// As below a reduction.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;
namespace ww = warpwright;

void apply(ww::stream_ref stream, float const* x, float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  auto const twice = ew::map([] __host__ __device__(float a) { return a * 2; }, ew::in(x, 16));
#else
  auto const twice = ew::map([] __device__(float a) { return a * 2; }, ew::in(x, 16));
#endif
  ew::run_rows(stream, {4, 4}, ew::out(y, 16) = ew::softmax(twice + 1.0F));
}
