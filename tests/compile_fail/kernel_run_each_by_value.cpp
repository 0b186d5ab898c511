// expect: the function takes an array that is written by value, so that nothing would change
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A function that would change a copy of the element.
#include <warpwright/kernel/multi_tensor.hpp>

namespace ew = warpwright::ew;

struct halved {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  WARPWRIGHT_HOST_DEVICE void operator()(float& x, float) const { x *= 0.5F; }
#else
  WARPWRIGHT_HOST_DEVICE void operator()(float x, float) const { x *= 0.5F; }
#endif
};

void apply(ew::tensor_list<float, float const> const& list) { ew::run_each_host(list, halved{}); }
