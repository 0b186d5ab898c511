// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures a kernel hot and cold, and compares one launch with four launches of a quarter each.
#include <warpwright/core/launch.hpp>
#include <warpwright/measure/compare.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/memory/buffer.hpp>

#include <cstdio>
#include <exception>

namespace ww = warpwright;

struct scale {
  float* data;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { data[i] *= 0.5F; }
};

void print(char const* name, ww::measurement const& m) {
  std::printf("%-5s %8.2f us per call (%.2f to %.2f), the host %.2f us; %s, %s\n", name,
              1e6 * m.summary.median_seconds, 1e6 * m.summary.median_low_seconds,
              1e6 * m.summary.median_high_seconds, 1e6 * m.host.median_seconds,
              ww::to_string(m.reason), ww::to_string(m.stability));
}

int main() try {
  constexpr std::size_t count = 1U << 16U;
  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> x{pool, stream, count};
  ww::check(cudaMemsetAsync(x.data(), 0, x.size_bytes(), stream.get()), "cudaMemsetAsync");

  // A short run. The defaults sample for half a second, and see slower changes.
  auto const options = ww::measure_options{}.min_seconds(0.1).max_seconds(0.5);
  auto const one = [&] { ww::for_each_index(stream, count, scale{x.data()}); };
  auto const four = [&] {
    for (std::size_t k = 0; k < 4; ++k) {
      ww::for_each_index(stream, count / 4, scale{x.data() + k * count / 4});
    }
  };
  print("hot", ww::measure(stream, one, options));
  ww::l2_flush flush;
  print("cold", ww::measure_cold(stream, flush, one, options));

  ww::comparison const c = ww::compare(stream, options, one, four);
  ww::time_ratio const ratio = c.ratio(0, 1);
  std::printf("one launch against four: %s (%.3f, from %.3f to %.3f)\n",
              ww::to_string(c.verdict(0, 1)), ratio.median, ratio.low, ratio.high);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
