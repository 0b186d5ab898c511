// expect: trivially copyable
// flags: -DWARPWRIGHT_HOST_RUNTIME=1
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A functor travels as a kernel's argument: by its bytes.
#include <warpwright/core/launch.hpp>

#include <vector>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
struct fill {
  float* values;
  void operator()(std::uint64_t i) const { values[i] = 1.0F; }
};
#else
struct fill {
  std::vector<float> values;
  void operator()(std::uint64_t) const {}
};
#endif

void run(warpwright::stream_ref stream, fill const& f) {
  warpwright::for_each_index(stream, 16, f);
}
