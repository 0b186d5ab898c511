// expect: warpwright::ew: a norm is stored as float or double
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Norms that would be rounded to integers.
#include <warpwright/kernel/tensor_norms.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void apply(ew::tensor_list<float> const& list, double* norms) {
  ew::max_norm_each_host(list, norms);
}
#else
void apply(ew::tensor_list<float> const& list, int* norms) { ew::max_norm_each_host(list, norms); }
#endif
