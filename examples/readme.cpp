// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The README's example, up to the line below, and a program that calls it.
#include <warpwright/warpwright.hpp>
namespace ww = warpwright;
namespace ew = warpwright::ew;

void hundred_steps(float* y, std::size_t n) {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> x{pool, stream, n};
  ew::run(stream, ew::out(x.data(), n) = 1.0F);
  ww::graph_replay step;  // runs its body once eagerly, then captures it, then replays the graph
  for (int i = 0; i < 100; ++i)
    step.run(stream, [&](ww::stream_ref s) {
      ew::run(s, ew::out(y, n) = ew::gelu(ew::in(x.data(), n) * 0.5F + 1.0F));
    });
  stream.synchronize();
}
// End of the README's example.

int main() {
  std::size_t const n = 1 << 20;
  ww::memory_pool pool{ww::current_device()};
  ww::stream stream;
  ww::device_buffer<float> y{pool, stream, n};
  stream.synchronize();
  hundred_steps(y.data(), n);
  float first = 0.0F;
  ww::check(cudaMemcpy(&first, y.data(), sizeof first, cudaMemcpyDefault), "cudaMemcpy");
  return first > 1.39F && first < 1.41F ? 0 : 1;  // gelu(1.5) = 1.3998
}
