// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a service does before it accepts requests: it finds the fastest implementation for each
// shape, and checks that it is as fast as it should be.
#include <warpwright/core/device.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/tune/chooser.hpp>
#include <warpwright/tune/expect.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>

namespace ww = warpwright;
namespace ew = warpwright::ew;

struct scale_and_shift {
  float const* x;
  float* y;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { y[i] = x[i] * 0.5F + 1.0F; }
};

struct service {
  ww::stream_ref stream;
  ww::chooser& pick;
  float* x;
  float* y;

  // Blocks in docs/tuner.md are copies of lines from here on.
  ww::choice const& run(std::size_t n) {
    auto const fused = [&](ww::stream_ref s) {
      ew::run(s, ew::out(y, n) = ew::in(x, n) * 0.5F + 1.0F);
    };
    auto const by_hand = [&](ww::stream_ref s) { ww::for_each_index(s, n, scale_and_shift{x, y}); };
    auto const is_right = [&](ww::stream_ref s) { return first_and_last_are(1.0F, s, n); };
    auto const reset = [&](ww::stream_ref s) {
      ww::check(cudaMemsetAsync(y, 0xff, n * sizeof(float), s), "cudaMemsetAsync");
    };
    return pick(stream, n,
                ww::candidates(ww::candidate("fused", fused), ww::candidate("by hand", by_hand))
                    .verify(is_right, reset));
  }

  bool first_and_last_are(float value, ww::stream_ref s, std::size_t n) const {
    float ends[2] = {};
    for (int i = 0; i < 2; ++i) {
      float const* const from = i == 0 ? y : y + n - 1;
      ww::check(cudaMemcpyAsync(&ends[i], from, sizeof(float), cudaMemcpyDefault, s), "copy");
    }
    s.synchronize();
    return ends[0] > value - 1e-6F && ends[0] < value + 1e-6F && ends[1] > value - 1e-6F &&
           ends[1] < value + 1e-6F;
  }
};

void start(ww::stream_ref stream, service& serve) {
  for (std::size_t const n : {std::size_t{1} << 10, std::size_t{1} << 16}) {
    std::printf("%zu items\n%s", n, ww::to_text(serve.run(n)).c_str());
  }
  serve.pick.allow_measuring(false);  // from here on no request waits for a measurement

  auto const step = [&] { serve.run(1 << 16); };
  auto const expected =
      ww::expectations{}.throughput_at_least("step", 10e3).latency_at_most("step", 0.9, 1.0);
  auto const found = expected.check({ww::observe(stream, expected, "step", step, 1 << 16)});
  std::puts(found.to_text().c_str());
  found.throw_if_short();
}

int main() try {
  std::printf("on %s\n", ww::get_device_info(ww::current_device()).name.c_str());
  std::size_t const most = 1 << 16;
  ww::memory_pool pool{ww::current_device()};
  ww::stream const stream;
  ww::device_buffer<float> x{pool, stream, most};
  ww::device_buffer<float> y{pool, stream, most};
  ew::run(stream, ew::out(x.data(), most) = 0.0F);
  ww::chooser pick{"scale-and-shift-v1"};
  service serve{stream, pick, x.data(), y.data()};
  start(stream, serve);

  // A shape that was not prepared is served, and not measured.
  if (serve.run(100).source != ww::choice_source::not_measured) {
    throw std::runtime_error{"a request was measured"};
  }
  // What no GPU reaches is said to fall short.
  auto const step = [&] { serve.run(most); };
  auto const too_much = ww::expectations{}.throughput_at_least("step", 1e15);
  auto const found = too_much.check({ww::observe(stream, too_much, "step", step, most)});
  std::puts(found.to_text().c_str());
  return found.ok() ? throw std::runtime_error{"a shortfall was not found"} : 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
