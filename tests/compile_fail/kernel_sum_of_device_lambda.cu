// expect: the lambda of map() must be __host__ __device__, or say what it returns, as in -> float
// flags: --extended-lambda
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The host does not know what a lambda for devices alone returns.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/memory.hpp>

namespace ew = warpwright::ew;
namespace ww = warpwright;

void apply(ww::stream_ref stream, ww::memory_pool& pool, float const* x, float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  auto const twice = ew::map([] __device__(float a) -> float { return a * 2; }, ew::in(x, 16));
#else
  auto const twice = ew::map([] __device__(float a) { return a * 2; }, ew::in(x, 16));
#endif
  ew::reduce(stream, pool, 16, ew::to(y) = ew::sum(twice));
}
