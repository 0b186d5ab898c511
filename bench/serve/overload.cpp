// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A real network behind a batcher, and behind a queue that is served first come, first served, at
// several times its capacity. Writes a line of CSV for each.
//
//   serve_overload [seconds a load, 2] > overload.csv
#include "../../examples/digits/gemm.hpp"
#include "../../examples/serve_digits/load.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/functions.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/tune/latency_model.hpp>

#include <cstdlib>
#include <exception>
#include <memory>

namespace {

namespace ww = warpwright;
namespace ew = warpwright::ew;

#if defined(__CUDACC__)
constexpr std::size_t width = 8192, layers = 6;  // 1.6 GB of weights
#else
constexpr std::size_t width = 128, layers = 3;
#endif
constexpr std::size_t features = 256, max_items = 64;

struct input {
  float x[features];
};

/// A perceptron of `layers` hidden layers with GELU; the answer is one number.
class network {
 public:
  network(ww::memory_pool& pool, ww::stream_ref stream, float const* weights)
      : stream_{stream},
        weights_{weights},
        multiply_{pool, stream},
        a_{pool, stream, max_items * width},
        b_{pool, stream, max_items * width} {}

  static constexpr std::size_t weight_count =
      features * width + (layers - 1) * width * width + width;

  void run_eagerly(input const* in, float* out, std::size_t n) {
    float const* w = weights_;
    float const* from = in->x;
    std::size_t from_width = features;
    for (std::size_t i = 0; i < layers; ++i) {
      float* const to = i % 2 == 0 ? a_.data() : b_.data();
      multiply_(to, n, width, from_width, {from, from_width}, {w, width});
      ew::run(stream_, ew::out(to, n * width) = ew::gelu(ew::in(to, n * width)));
      w += from_width * width;
      from = to;
      from_width = width;
    }
    multiply_(out, n, 1, width, {from, width}, {w, 1});
  }
  void run(input const* in, float* out, std::size_t n) {
    auto const step = [this](ww::stream_ref, input const* from, float* to, std::size_t count) {
      run_eagerly(from, to, count);
    };
    graphs_.run(stream_, {n}, step, in, out, n);
  }
  [[nodiscard]] ww::stream_ref stream() const noexcept { return stream_; }

 private:
  ww::stream_ref stream_;
  float const* weights_;
  digits::multiplier multiply_;
  ww::device_buffer<float> a_;
  ww::device_buffer<float> b_;
  ww::graph_cache graphs_{ww::graph_cache_options{}.warmups(1).cost_gate(false)};
};

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
  ww::device_buffer<float> weights{pool, leases[0], network::weight_count};
  ew::run(leases[0], ew::out(weights.data(), weights.size()) =
                         ew::cast<float>(ew::index()) * 0.0F + 0.5F / float{width});
  leases[0].stream().synchronize();
  network alone{pool, leases[2], weights.data()};
  network first{pool, leases[0], weights.data()};
  network second{pool, leases[1], weights.data()};
  network* const models[] = {&first, &second};

  ww::device_buffer<input> in{pool, leases[2], max_items};
  ww::device_buffer<float> out{pool, leases[2], max_items};
  ww::check(cudaMemsetAsync(in.data(), 0, in.size_bytes(), leases[2].stream()), "cudaMemsetAsync");
  std::vector<ww::latency_point> points;
  for (std::size_t n = 1; n <= max_items; n *= 2) {
    auto const m = ww::measure(
        leases[2], [&] { alone.run_eagerly(in.data(), out.data(), n); },
        ww::measure_options{}.sample_seconds(0.0).min_samples(21).max_samples(41));
    points.push_back({n, m.summary.median_seconds, 1.05 * m.summary.median_seconds, 0});
  }
  ww::latency_model const latency = ww::latency_model::fit(points);
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
