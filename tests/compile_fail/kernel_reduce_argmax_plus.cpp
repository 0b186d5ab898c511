// expect: argmin() and argmax() find a located, no number: give it to map()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What argmax() finds is no number.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

struct index_of {
  WARPWRIGHT_HOST_DEVICE std::uint64_t operator()(ew::located<float> a) const { return a.index; }
};
void reduce(std::uint64_t* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce_host(16, ew::to(y) = ew::map(index_of{}, ew::argmax(ew::in(x, 16))) + 1);
#else
  ew::reduce_host(16, ew::to(y) = ew::argmax(ew::in(x, 16)) + 1);
#endif
}
