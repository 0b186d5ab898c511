// expect: cast it to a pointer to their type, as in static_cast<float*>(data)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 2
//
// Tensors of which the type is not known.
#include <warpwright/kernel/multi_tensor.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
using list = ew::tensor_list<float>;
#else
using list = ew::tensor_list<void>;
#endif

void add(list& tensors, float* x) { tensors.add(x, 16); }
