// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One expression or, with WARPWRIGHT_NINE_EXPRESSIONS, eight further ones, each of its own type:
// what measure.sh compiles to tell what a further one costs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <warpwright/kernel.hpp>

namespace ww = warpwright;
namespace ew = warpwright::ew;

struct arrays {
  float *x, *y, *z, *o;
  __half *hx, *hy, *hz, *ho;
  __nv_bfloat16 *bx, *by, *bz, *bo;
  unsigned char* u;
};

void first(ww::stream_ref s, arrays const& a, std::size_t n) {
  ew::run(s, ew::out(a.o, n) = ew::in(a.x, n) * 2.0F);
}

#if WARPWRIGHT_NINE_EXPRESSIONS
void further(ww::stream_ref s, arrays const& a, std::size_t n) {
  ew::run(s, ew::out(a.o, n) = 1.5F * ew::in(a.x, n) + ew::in(a.y, n));
  ew::run(s, ew::out(a.o, n) = ew::gelu(ew::in(a.x, n) * ew::in(a.y, n) + ew::in(a.z, n)));
  ew::run(s, ew::out(a.ho, n) = ew::gelu(ew::in(a.hx, n) * ew::in(a.hy, n) + ew::in(a.hz, n)));
  ew::run(s, ew::out(a.bo, n) = ew::gelu(ew::in(a.bx, n) * ew::in(a.by, n) + ew::in(a.bz, n)));
  ew::run(s, ew::out(a.ho, n) = ew::cast<float>(ew::in(a.u, n)) * (1.0F / 255));
  ew::run(s, ew::out(a.bo, n) = ew::silu(ew::in(a.x, n)) + ew::row(a.y, 1024));
  ew::run(s, ew::tie(ew::out(a.z, n) = 0.8F * ew::in(a.x, n) - 0.6F * ew::in(a.y, n),
                     ew::out(a.o, n) = 0.6F * ew::in(a.x, n) + 0.8F * ew::in(a.y, n)));
  ew::run(s, ew::out(a.o, n) = ew::max(ew::abs(ew::in(a.x, n)), ew::in(a.hx, n)));
}
#endif
