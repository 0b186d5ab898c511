// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on one device, and on all of a device_group: as batches that are split and gathered,
// and as pieces under each schedule, with devices of equal speed and with a last one that does all
// its work twice. Writes CSV: items a second, and the share of the sum of the speeds. Behind it, as
// comments, the links between devices, with both kinds of memory.
//
//   scale_device_group_bench [seconds, 1]
#include <warpwright/core.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/scale/device_group.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

namespace {

namespace ww = warpwright;
using clock_type = std::chrono::steady_clock;

constexpr bool on_host = WARPWRIGHT_HOST_RUNTIME != 0;
constexpr std::size_t batch_items = on_host ? 1U << 13U : 1U << 22U;
constexpr std::size_t piece_items = batch_items / 16;

struct iterate {
  float* to;
  std::size_t first;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float x = 1e-7F * static_cast<float>(first + i);
    for (int k = 0; k < 2000; ++k) x = 3.7F * x * (1.0F - x);
    to[i] = x;
  }
};

double seconds_since(clock_type::time_point begin) {
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

struct setting {
  std::vector<ww::device_id> devices;
  ww::device_schedule schedule;
  bool unequal;

  [[nodiscard]] int runs(ww::device_slot const& d) const {
    return unequal && d.index + 1 == devices.size() ? 2 : 1;
  }
};

double split_rate(setting const& s, double seconds) {
  ww::device_group group{s.devices, ww::device_group_options{}.schedule(s.schedule)};
  ww::stream const stream{group.device(0)};
  ww::device_buffer<float> all{group.pool(0), stream, batch_items};
  auto const batch = [&] {
    std::vector<ww::device_buffer<float>> results;
    std::vector<float*> pointers(group.size());
    auto const parts =
        group.split(batch_items, [&](ww::device_slot& d, std::size_t first, std::size_t count) {
          results.emplace_back(d.pool, d.stream, count);
          pointers[d.index] = results.back().data();
          for (int k = 0; k < s.runs(d); ++k) {
            ww::for_each_index(d.stream, count, iterate{pointers[d.index], first});
          }
        });
    group.gather(stream, parts, all.data(), pointers);
    stream.synchronize();
  };
  for (int k = 0; k < 5; ++k) batch();
  double items = 0.0;
  auto const begin = clock_type::now();
  for (; seconds_since(begin) < seconds; items += static_cast<double>(batch_items)) batch();
  return items / seconds_since(begin);
}

double run_rate(setting const& s, double seconds) {
  ww::device_group group{s.devices, ww::device_group_options{}.schedule(s.schedule)};
  auto const piece = [&] {
    group.run(static_cast<double>(piece_items), [&](ww::device_slot& d) {
      ww::device_buffer<float> const x{d.pool, d.stream, piece_items};
      for (int k = 0; k < s.runs(d); ++k) {
        ww::for_each_index(d.stream, piece_items, iterate{x.data(), 0});
      }
    });
  };
  for (std::size_t k = 0; k < 8 * group.size(); ++k) piece();
  group.wait();
  double items = 0.0;
  auto const begin = clock_type::now();
  for (; seconds_since(begin) < seconds; items += static_cast<double>(piece_items)) piece();
  group.wait();
  return items / seconds_since(begin);
}

int run(double seconds) {
  std::vector<ww::device_id> devices;
  for (int i = 0; i < ww::device_count(); ++i) devices.push_back(ww::device_id{i});
  if (devices.empty()) {
    std::fprintf(stderr, "there is no device\n");
    return 77;
  }
  using schedule = ww::device_schedule;
  std::vector<ww::device_id> const one{devices[0]};
  auto const count = static_cast<double>(devices.size());
  std::printf("work,schedule,devices,items_per_s,share_of_sum\n");
  for (auto const& [work, rate] :
       {std::make_pair("split", &split_rate), std::make_pair("run", &run_rate)}) {
    double const alone = rate({one, schedule::fastest, false}, seconds);
    std::printf("%s,,1,%.4g,1\n", work, alone);
    for (bool const unequal : {false, true}) {
      for (auto const& [name, rule] : {std::make_pair("round_robin", schedule::round_robin),
                                       std::make_pair("least_loaded", schedule::least_loaded),
                                       std::make_pair("fastest", schedule::fastest)}) {
        double const all = rate({devices, rule, unequal}, seconds);
        std::printf("%s,%s,%zu%s,%.4g,%.3f\n", work, name, devices.size(),
                    unequal ? " (the last at half)" : "", all,
                    all / alone / (unequal ? count - 0.5 : count));
      }
    }
  }
  for (auto const source : {ww::memory_source::automatic, ww::memory_source::cuda_malloc}) {
    ww::device_group group{
        ww::device_group_options{}.pool(ww::memory_pool_options{}.source(source))};
    std::printf("# %s\n", source == ww::memory_source::automatic ? "automatic" : "cuda_malloc");
    for (ww::device_link const& link : group.links()) {
      std::printf("# %s", ww::to_text({link}).c_str());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? std::atof(argv[1]) : 1.0);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
