// expect: what the reductions of one pass carry takes more than 1024 bytes
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A histogram is no state of a thread.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

template <int Bins>
struct histogram {
  int counts[Bins];
};
template <int Bins>
struct add {
  WARPWRIGHT_HOST_DEVICE histogram<Bins> operator()(histogram<Bins> a, histogram<Bins> b) const {
    for (int k = 0; k < Bins; ++k) a.counts[k] += b.counts[k];
    return a;
  }
};
template <int Bins>
void run(histogram<Bins>* y, histogram<Bins> const* x) {
  ew::reduce_host(16, ew::to(y) = ew::fold(ew::in(x, 16), histogram<Bins>{}, add<Bins>{}));
}

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
template void run(histogram<8>*, histogram<8> const*);
#else
template void run(histogram<512>*, histogram<512> const*);
#endif
