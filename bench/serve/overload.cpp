// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A real network behind a batcher, and behind queues that are served first come, first served, at
// several times its capacity. Writes a line of CSV for each.
//
//   serve_overload [seconds a load, 2] > overload.csv
#include "network.hpp"

#include <cstdlib>
#include <exception>
#include <memory>

namespace {

namespace ww = warpwright;
using service::input;
using service::max_items;
using service::network;

void print(double load, char const* server, double deadline, double capacity, service::outcome& o) {
  std::sort(o.latency.begin(), o.latency.end());
  auto const at = [&](double q) {
    return o.latency.empty()
               ? 0.0
               : o.latency[static_cast<std::size_t>(q * static_cast<double>(o.latency.size() - 1))];
  };
  std::printf("%.2f,%s,%.4g,%.0f,%.0f,%.0f,%.4f,%.5f,%.5f,%.2f,%.3f\n", load, server, deadline,
              capacity, static_cast<double>(o.sent) / o.seconds,
              static_cast<double>(o.in_time) / o.seconds,
              static_cast<double>(o.in_time) / static_cast<double>(o.sent), at(0.5), at(0.99),
              o.mean_batch, o.busy);
  std::fflush(stdout);
}

int run(double seconds) {
  ww::memory_pool pool{ww::current_device()};
  ww::stream_pool streams{ww::current_device(), 3};
  ww::stream_lease const leases[] = {streams.lease(), streams.lease(), streams.lease()};
  ww::device_buffer<float> const weights = service::make_weights(pool, leases[0]);
  network alone{pool, leases[2], weights.data()};
  network first{pool, leases[0], weights.data()};
  network second{pool, leases[1], weights.data()};
  network* const models[] = {&first, &second};

  ww::latency_model const latency = service::measure_latency(pool, alone);
  ww::batcher<input, float> serve{
      ww::batcher_options{}.max_items(max_items).preferred({1, 2, 4, 8, 16, 32, 64}),
      {leases[0], leases[1]},
      latency,
      [&](ww::batch<input, float>& b, ww::stream_ref) {
        models[b.lane()]->run(b.inputs(), b.outputs(), b.padded_size());
      }};
  std::vector<input> inputs(1000);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (float& x : inputs[i].x) x = 1e-3F * static_cast<float>(i % 7);
  }
  // The capacity, with graphs and both lanes; it also captures the graphs.
  std::vector<float> expected;
  double capacity = 0.0;
  for (int round = 0; round < 3; ++round) {
    auto const begin = service::clock::now();
    std::vector<ww::ticket<float>> tickets;
    for (int repeat = 0; repeat < 8; ++repeat) {
      for (input const& i : inputs) tickets.push_back(serve.submit(i));
    }
    expected.clear();
    for (ww::ticket<float>& t : tickets) {
      float const* const value = t.wait();
      if (value == nullptr) throw std::runtime_error{t.error()};
      if (expected.size() < inputs.size()) expected.push_back(*value);
    }
    capacity = static_cast<double>(tickets.size()) / service::seconds_since(begin);
  }
  double const deadline = 6.0 * static_cast<double>(max_items) / capacity + 1e-3;
  std::printf(
      "load,server,deadline_s,capacity_per_s,sent_per_s,in_time_per_s,in_time_share,p50_s,p99_s,"
      "mean_batch,busy\n");
  for (double const load : {0.1, 0.3, 0.6, 0.8, 1.0, 1.5, 3.0}) {
    std::vector<double> const times = service::arrivals(load * capacity, seconds, false);
    service::outcome queue =
        service::drive_queue<float>(pool, alone, max_items, inputs, times, deadline);
    print(load, "queue", deadline, capacity, queue);
    service::outcome whole =
        service::drive_queue<float>(pool, alone, max_items, inputs, times, deadline, 1e-3);
    print(load, "whole_batches", deadline, capacity, whole);
    service::outcome ours = service::drive_batcher(serve, inputs, expected, times, deadline);
    print(load, "batcher", deadline, capacity, ours);
  }
  std::fputs(serve.statistics().to_text().c_str(), stderr);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? std::atof(argv[1]) : 2.0);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
