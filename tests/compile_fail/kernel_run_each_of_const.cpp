// expect: the function cannot be called with one element of each array
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A function that writes an array which the list has as const.
#include <warpwright/kernel/multi_tensor.hpp>

namespace ew = warpwright::ew;

struct halved {
  WARPWRIGHT_HOST_DEVICE void operator()(float& x) const { x *= 0.5F; }
};

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void apply(ew::tensor_list<float> const& list) { ew::run_each_host(list, halved{}); }
#else
void apply(ew::tensor_list<float const> const& list) { ew::run_each_host(list, halved{}); }
#endif
