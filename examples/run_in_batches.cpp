// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A million points in ordinary memory through a function of batches: how far each is from a centre.
// Copies to the device and back go on while the function's work runs.
#include <warpwright/core.hpp>
#include <warpwright/stream/run_in_batches.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;

namespace {

struct point {
  float x, y, z;
};

struct measure_distance {
  point centre;
  point const* from;
  float* distance;

  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float const x = from[i].x - centre.x;
    float const y = from[i].y - centre.y;
    float const z = from[i].z - centre.z;
    distance[i] = ::sqrtf(x * x + y * y + z * z);
  }
};

int run() {
  constexpr std::size_t items = 1000003;  // the last batch has 3 items
  constexpr std::size_t batch_items = 20000;
  std::vector<point> points(items);
  for (std::size_t i = 0; i < items; ++i) {
    points[i] = {static_cast<float>(i % 1301), static_cast<float>(i % 733), 1e-3F};
  }
  std::vector<float> distances(items);
  point const centre{650.0F, 366.0F, 10.0F};

  ww::memory_pool pool{ww::current_device()};
  ww::pinned_pool pinned;
  ww::stream stream;
  ww::batch_run const done = ww::run_in_batches(
      stream, pool, pinned, ww::batch_input<point>{points.data(), items}, batch_items,
      [&](ww::stream_ref s, point const* in, float* out, std::size_t count) {
        ww::for_each_index(s, count, measure_distance{centre, in, out});
      },
      ww::batch_output<float>{distances.data()});
  std::printf("%.3g points a second\n%s", done.items_per_second(), done.to_text().c_str());

  std::vector<float> expected(items);
  measure_distance const on_host{centre, points.data(), expected.data()};
  for (std::size_t i = 0; i < items; ++i) {
    on_host(i);
    if (!(std::fabs(distances[i] - expected[i]) <= 1e-3F)) {
      std::fprintf(stderr, "point %zu: %g instead of %g\n", i, static_cast<double>(distances[i]),
                   static_cast<double>(expected[i]));
      return 1;
    }
  }
  return done.items == items ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
