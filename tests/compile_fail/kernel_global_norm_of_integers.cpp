// expect: warpwright::ew: a norm is of tensors with elements of floating point
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The norm of integers.
#include <warpwright/kernel/tensor_norms.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
double apply(ew::tensor_list<float> const& list) { return ew::global_norm_host(list); }
#else
double apply(ew::tensor_list<int> const& list) { return ew::global_norm_host(list); }
#endif
