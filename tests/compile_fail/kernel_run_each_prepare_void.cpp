// expect: prepare() must return bool: false leaves all tensors as they are
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A prepare() that does not say whether to go on.
#include <warpwright/kernel/multi_tensor.hpp>

namespace ew = warpwright::ew;

struct scaled {
  float const* factor;
  float value;
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  WARPWRIGHT_HOST_DEVICE bool prepare() {
    value = *factor;
    return true;
  }
#else
  WARPWRIGHT_HOST_DEVICE void prepare() { value = *factor; }
#endif
  WARPWRIGHT_HOST_DEVICE void operator()(float& x) const { x *= value; }
};

void apply(ew::tensor_list<float> const& list, float const* factor) {
  ew::run_each_host(list, scaled{factor, 0});
}
