// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A real network on two devices, the second of which does all its work twice: a device alone, and
// both behind one batcher. Writes CSV: what each answers at its capacity, and both with a deadline
// at 0.9 of it.
//
//   serve_devices [seconds, 2]
#include "network.hpp"

#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

namespace {

namespace ww = warpwright;
using service::input;
using service::max_items;
using service::network;

/// What two lanes of a device need.
struct device {
  device(int id, int repeats)
      : runs{repeats}, pool{set_current(id)}, streams{ww::device_id{id}, 3} {
    for (ww::stream_lease& l : leases) l = streams.lease();
    weights = std::make_unique<ww::device_buffer<float>>(service::make_weights(pool, leases[0]));
    for (ww::stream_lease const& l : leases) {
      models.push_back(std::make_unique<network>(pool, l, weights->data()));
    }
  }
  static ww::device_id set_current(int id) {
    ww::check(cudaSetDevice(id), "cudaSetDevice");
    return ww::device_id{id};
  }

  int runs;
  ww::memory_pool pool;
  ww::stream_pool streams;
  ww::stream_lease leases[3];
  std::unique_ptr<ww::device_buffer<float>> weights;
  std::vector<std::unique_ptr<network>> models;
};

using server = ww::batcher<input, float>;

// Requests a second with more of them outstanding than there is room for in the batches.
double capacity_of(server& serve, double seconds) {
  std::vector<ww::ticket<float>> tickets(16 * max_items);
  std::size_t answered = 0;
  std::size_t next = 0;
  auto const begin = service::clock::now();
  for (; service::seconds_since(begin) < seconds; next = (next + 1) % tickets.size()) {
    if (float const* const value = tickets[next].wait()) answered += *value != 0.0F ? 1U : 0U;
    tickets[next] = serve.submit(input{{1e-3F}});
  }
  double const elapsed = service::seconds_since(begin);
  for (ww::ticket<float>& t : tickets) static_cast<void>(t.wait());
  return static_cast<double>(answered) / elapsed;
}

int run(double seconds) {
  int count = 0;
  ww::check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count < 2) {
    std::fprintf(stderr, "serve_devices needs two devices, and there is %d\n", count);
    return 77;
  }
  device fast{0, 1};
  device slow{1, 2};
  ww::latency_model const model = service::measure_latency(fast.pool, *fast.models[2]);
  std::printf("devices,capacity_per_s,load,sent_per_s,in_time_per_s,p99_s\n");
  double sum = 0.0;
  for (std::vector<device*> const& of : {std::vector<device*>{&fast}, std::vector<device*>{&slow},
                                         std::vector<device*>{&fast, &slow}}) {
    ww::batch_lanes lanes;
    std::vector<std::pair<device*, network*>> models;
    for (device* const d : of) {
      for (int i = 0; i < 2; ++i) {
        lanes.add(d->leases[i]);
        models.emplace_back(d, d->models[static_cast<std::size_t>(i)].get());
      }
    }
    server serve{ww::batcher_options{}.max_items(max_items).preferred({1, 2, 4, 8, 16, 32, 64}),
                 lanes, model, [&](ww::batch<input, float>& b, ww::stream_ref) {
                   auto const& [d, m] = models[b.lane()];
                   for (int i = 0; i < d->runs; ++i) {
                     m->run(b.inputs(), b.outputs(), b.padded_size());
                   }
                 }};
    static_cast<void>(capacity_of(serve, 0.5 * seconds));  // captures the graphs
    double const capacity = capacity_of(serve, seconds);
    char const* const names[] = {"1", "1/2", "1 and 1/2"};
    std::size_t const which = of.size() == 2 ? 2 : of[0] == &slow ? 1 : 0;
    if (which != 2) {
      sum += capacity;
      std::printf("%s,%.0f,,,,\n", names[which], capacity);
      continue;
    }
    std::vector<double> const times = service::arrivals(0.9 * capacity, seconds, false);
    double const deadline = 12.0 * static_cast<double>(max_items) / capacity + 2e-3;
    service::outcome o = service::drive_batcher(serve, std::vector<input>(1), std::vector<float>{0},
                                                times, deadline);
    std::sort(o.latency.begin(), o.latency.end());
    double const p99 =
        o.latency.empty()
            ? 0.0
            : o.latency[static_cast<std::size_t>(0.99 * static_cast<double>(o.latency.size() - 1))];
    std::printf("%s,%.0f,0.9,%.0f,%.0f,%.5f\n", names[which], capacity,
                static_cast<double>(o.sent) / o.seconds, static_cast<double>(o.in_time) / o.seconds,
                p99);
    std::printf("# both: %.3f of the sum\n", capacity / sum);
    std::fputs(serve.statistics().to_text().c_str(), stderr);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? std::atof(argv[1]) : 2.0);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
