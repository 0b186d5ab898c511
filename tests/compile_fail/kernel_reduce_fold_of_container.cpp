// expect: the function must be trivially copyable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a container points to is not copied into a kernel.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
struct add {
  WARPWRIGHT_HOST_DEVICE float operator()(float x, float y) const { return x + y; }
};
auto build(float const* x) { return ew::fold(ew::in(x, 16), 0.0F, add{}); }
#else
#include <string>
struct add {
  std::string name;
  float operator()(float x, float y) const { return x + y; }
};
auto build(float const* x) { return ew::fold(ew::in(x, 16), 0.0F, add{}); }
#endif
