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
  ww::graph_replay step;  // runs its body once eagerly, then captures it, then replays the graph
  for (int i = 0; i < 100; ++i)
    step.run(stream, [&](ww::stream_ref s) {
      ww::device_buffer<float> x{pool, s, n};  // once captured, its memory is the graph's
      ew::run(s, ew::out(x.data(), n) = ew::cast<float>(ew::index()) * 0.5F);
      ew::run(s, ew::out(y, n) = ew::gelu(ew::in(x.data(), n) + ew::in(y, n) * 0.25F));
    });
  stream.synchronize();
}
// End of the README's example.

int main() {
  std::size_t const n = 1 << 20;
  ww::memory_pool pool{ww::current_device()};
  ww::stream stream;
  ww::device_buffer<float> y{pool, stream, n};
  ew::run(stream, ew::out(y.data(), n) = 0.0F);
  stream.synchronize();
  hundred_steps(y.data(), n);
  float last = 0.0F;  // y = x + y / 4 where gelu does nothing: 4 / 3 x
  ww::check(cudaMemcpy(&last, y.data() + 24, sizeof last, cudaMemcpyDefault), "cudaMemcpy");
  return last > 15.9F && last < 16.1F ? 0 : 1;
}
