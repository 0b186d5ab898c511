// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An empty kernel, and with one of the macros what a program does with the library: the files that
// measure.sh compiles to tell what they cost.
#include <cuda_runtime.h>

__global__ void kernel(float* p) { p[threadIdx.x] = 1; }

#if WARPWRIGHT_USE_pool
#include <warpwright/memory.hpp>

void use() {
  warpwright::memory_pool pool{warpwright::device_id{0}};
  warpwright::stream const stream;
  warpwright::device_buffer<float> const values{pool, stream, 1000};
  kernel<<<1, 32, 0, stream>>>(values.data());
  stream.synchronize();
}

#elif WARPWRIGHT_USE_tuner
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/report.hpp>

#include <cstdio>

void use(warpwright::stream_ref stream, float* p) {
  auto const run = [p](std::size_t batch, warpwright::stream_ref s) {
    kernel<<<static_cast<unsigned>(batch), 32, 0, s.get()>>>(p);
  };
  auto const best = warpwright::batch_tuner{}.range(1, 1024).tune(stream, run);
  std::printf("%s", warpwright::to_text(best).c_str());
}

#elif WARPWRIGHT_USE_mixed
#define WARPWRIGHT_NINE_EXPRESSIONS 1
#include "expressions.cpp"

#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/memory/buffer.hpp>

void twelve(ww::stream_ref s, arrays const& a, std::size_t n) {
  first(s, a, n);
  further(s, a, n);
  ew::run(s, ew::out(a.o, n) = ew::in(a.x, n) + ew::in(a.y, n));
  ew::run(s, ew::out(a.bo, n) = ew::in(a.bx, n) + ew::in(a.by, n));
  ew::run(s, ew::out(a.bo, n) = ew::cast<__nv_bfloat16>(ew::in(a.x, n)));
}

void use() {
  ww::memory_pool pool{ww::device_id{0}};
  ww::stream const stream;
  ww::device_buffer<float> const x{pool, stream, 1 << 20};
  ww::device_buffer<float> const y{pool, stream, 1 << 20};
  auto const in = ew::in(static_cast<float const*>(x.data()), x.size());
  ew::run_rows(stream, {1024, 1024}, ew::out(y.data(), y.size()) = ew::softmax(in));
  ew::reduce_cols(stream, pool, {1024, 1024}, ew::to(y.data()) = ew::sum(in));
}
#endif
