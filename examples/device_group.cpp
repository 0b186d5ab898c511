// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch of options priced on all devices, each of which gets what it can do in the same time, and
// gathered on the first one. One device alone must come to the same prices.
#include <warpwright/core.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/scale/device_group.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;

namespace {

// The price of call option i (Black and Scholes) as an integral over what the share may be worth at
// its end: much work for few bytes.
struct price {
  float* to;
  std::size_t first;

  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float const strike = 80.0F + 1e-3F * static_cast<float>((first + i) % 40000);
    float value = 0.0F;
    for (int step = -250; step <= 250; ++step) {
      float const z = 0.02F * static_cast<float>(step);
      float const worth = 100.0F * ::expf(0.2F * z - 0.02F);
      if (worth > strike) value += 0.02F * 0.398942F * ::expf(-0.5F * z * z) * (worth - strike);
    }
    to[i] = value;
  }
};

int run() {
  constexpr std::size_t items = 20000;
  ww::device_group group;
  ww::stream const stream{group.device(0)};
  ww::device_buffer<float> all{group.pool(0), stream, items};

  std::vector<ww::device_part> parts;
  for (int batch = 0; batch < 4; ++batch) {  // the first ones tell the speeds
    std::vector<ww::device_buffer<float>> results;
    std::vector<float*> pointers(group.size());
    parts = group.split(items, [&](ww::device_slot& d, std::size_t first, std::size_t count) {
      results.emplace_back(d.pool, d.stream, count);
      pointers[d.index] = results.back().data();
      ww::for_each_index(d.stream, count, price{pointers[d.index], first});
    });
    group.gather(stream, parts, all.data(), pointers);
    stream.synchronize();
  }

  ww::device_buffer<float> alone{group.pool(0), stream, items};
  ww::for_each_index(stream, items, price{alone.data(), 0});
  std::vector<float> prices(items), expected(items);
  all.copy_to(stream, prices.data(), items);
  alone.copy_to(stream, expected.data(), items);
  stream.synchronize();
  group.wait();

  for (std::size_t i = 0; i < group.size(); ++i) {
    std::printf("device %d: %zu of %zu items\n", group.device(i).value(), parts[i].count, items);
  }
  std::printf("%s", ww::to_text(group.links()).c_str());
  for (std::size_t i = 0; i < items; ++i) {
    // Devices that are not alike may round in other ways.
    if (!(std::fabs(prices[i] - expected[i]) <= 1e-4F * expected[i])) {
      std::fprintf(stderr, "item %zu: %g instead of %g\n", i, static_cast<double>(prices[i]),
                   static_cast<double>(expected[i]));
      return 1;
    }
  }
  return 0;
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
