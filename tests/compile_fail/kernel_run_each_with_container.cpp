// expect: run_each: the function must be trivially copyable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A function that holds a container, which a kernel's argument cannot.
#include <warpwright/kernel/multi_tensor.hpp>

#include <vector>

namespace ew = warpwright::ew;

struct scaled {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  float const* factors;
#else
  std::vector<float> factors;
#endif
  WARPWRIGHT_HOST_DEVICE void operator()(float& x) const { x *= factors[0]; }
};

void apply(ew::tensor_list<float> const& list, scaled const& f) { ew::run_each_host(list, f); }
