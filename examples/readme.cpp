// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/warpwright.hpp>

namespace ww = warpwright;
namespace ew = warpwright::ew;

int main() {
  std::size_t const n = 1 << 20;
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> x{pool, stream, n}, y{pool, stream, n};
  ew::run(stream, ew::out(x.data(), n) = 1.0F);

  ww::graph_replay step;  // eager once, then captured, then one call a step
  for (int i = 0; i < 100; ++i) {
    step.run(stream, [&](ww::stream_ref s) {
      ew::run(s, ew::out(y.data(), n) = ew::gelu(ew::in(x.data(), n) * 0.5F + 1.0F));
    });
  }
  float first = 0.0F;
  ww::check(cudaMemcpyAsync(&first, y.data(), sizeof first, cudaMemcpyDefault, stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();
  return first > 1.39F && first < 1.41F ? 0 : 1;  // gelu(1.5) = 1.3998
}
