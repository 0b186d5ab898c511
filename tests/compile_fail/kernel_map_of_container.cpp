// expect: the function must be trivially copyable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A function travels as a kernel's argument: by its bytes.
#include <warpwright/kernel.hpp>

#include <vector>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
struct lookup {
  float const* table;
  float operator()(float x) const { return table[static_cast<int>(x)]; }
};
#else
struct lookup {
  std::vector<float> table;
  float operator()(float x) const { return table[static_cast<unsigned>(x)]; }
};
#endif

auto apply(lookup const& f, float const* x) { return ew::map(f, ew::in(x, 16)); }
