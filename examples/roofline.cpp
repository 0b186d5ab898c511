// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Places a kernel under the roofs of this device, rightly, and in three ways that are often seen
// and wrong. Writes the chart into a file, if one is named.
#include <warpwright/measure/ceilings.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/observe/monitor.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <thread>

namespace ww = warpwright;

namespace {

struct saxpy {
  float a;
  float const* x;
  float* y;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { y[i] = a * x[i] + y[i]; }
};

// Keeps one thread busy.
struct one_thread {
  float* y;
  int rounds;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    float v = *y;
    for (int i = 0; i < rounds; ++i) v = v * 0.5F + 1.0F;
    *y = v;
  }
};

void finish(char const* path, ww::device_ceilings const& c, ww::roofline_point const& p) {
  if (path != nullptr) std::ofstream{path} << ww::to_svg(c, {{"saxpy", p}});
  if (!(p.fraction > 0.0)) throw std::runtime_error{"wrong answer"};
}

void run(char const* path) {
  ww::stream stream;
  ww::device_ceilings const c =
      ww::measure_ceilings(stream, ww::ceiling_options{}.seconds_each(0.1));
  std::printf("%s\n", ww::to_text(c).c_str());

  std::size_t const n = std::size_t{1} << (c.device.host_runtime ? 20U : 28U);
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> x{pool, stream, n}, y{pool, stream, n};
  ww::check(cudaMemsetAsync(x.data(), 0, x.size_bytes(), stream.get()), "cudaMemsetAsync");
  ww::check(cudaMemsetAsync(y.data(), 0, y.size_bytes(), stream.get()), "cudaMemsetAsync");
  auto const call = [&] { ww::for_each_index(stream, n, saxpy{2.0F, x.data(), y.data()}); };
  double const seconds = ww::measure(stream, call).summary.median_seconds;
  auto const elements = static_cast<double>(n);
  auto const say = [](char const* what, ww::roofline_point const& p) {
    std::printf("%-28s %s\n", what, ww::explain(p).c_str());
  };

  // Two operations an element; it reads x and y, and writes y.
  ww::roofline_point const right = ww::roofline(c, {2.0 * elements, 12.0 * elements}, seconds);
  say("y = a x + y:", right);
  say("wrong, y counted once:", ww::roofline(c, {2.0 * elements, 8.0 * elements}, seconds));
  auto const begin = std::chrono::steady_clock::now();
  call();
  std::chrono::duration<double> const enqueued = std::chrono::steady_clock::now() - begin;
  stream.synchronize();
  say("wrong, not synchronised:",
      ww::roofline(c, {2.0 * elements, 12.0 * elements}, enqueued.count()));

  // By Amdahl's law, with measured parts: what the roof leaves for a program of two kernels.
  double const program =
      ww::measure(stream, [&] {
        ww::check(cudaMemsetAsync(y.data(), 0, y.size_bytes(), stream.get()), "cudaMemsetAsync");
        call();
      }).summary.median_seconds;
  double const part = seconds < program ? seconds : program;
  double const most = right.fraction < 1.0 ? 1.0 / right.fraction : 1.0;
  std::printf(
      "y = 0, then y = a x + y:     %.0f of %.0f us are the second; at its roof %.3f, "
      "without it %.3f times as fast\n",
      1e6 * part, 1e6 * program, ww::amdahl(part, program, most),
      ww::amdahl(part, program, std::numeric_limits<double>::infinity()));

  // A GPU on which one thread runs is "utilized" all the time.
  ww::monitor watch;
  if (!watch.unavailable().empty()) return finish(path, c, right);
  ww::for_each_index(stream, 1, one_thread{y.data(), 1000000000});  // some seconds
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  static_cast<void>(watch.sample());
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  ww::gpu_sample const sample = watch.sample();
  if (sample.utilization && sample.sm_activity) {
    std::printf("one thread: utilization %.0f %%, multiprocessors with work %.2g %%\n",
                100.0 * *sample.utilization, 100.0 * *sample.sm_activity);
  }
  finish(path, c, right);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 ? arguments[1] : nullptr);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
