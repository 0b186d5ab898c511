// expect: warpwright::ew: a norm is of tensors with elements of floating point
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The norms of integers.
#include <warpwright/kernel/tensor_norms.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void apply(ew::tensor_list<float> const& list, float* norms) { ew::norm_each_host(list, norms); }
#else
void apply(ew::tensor_list<int> const& list, float* norms) { ew::norm_each_host(list, norms); }
#endif
