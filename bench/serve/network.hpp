// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A real network to serve: on a GPU with 1.6 GB of weights, through cuBLAS.
#pragma once

#include "../../examples/digits/gemm.hpp"
#include "../../examples/serve_digits/load.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/functions.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/tune/latency_model.hpp>

#include <vector>

namespace service {

namespace ew = warpwright::ew;

#if defined(__CUDACC__)
constexpr std::size_t width = 8192, layers = 6;
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

inline ww::device_buffer<float> make_weights(ww::memory_pool& pool, ww::stream_ref stream) {
  ww::device_buffer<float> weights{pool, stream, network::weight_count};
  ew::run(stream, ew::out(weights.data(), weights.size()) =
                      ew::cast<float>(ew::index()) * 0.0F + 0.5F / float{width});
  stream.synchronize();
  return weights;
}

/// @return the time of a batch over its size, with nothing beside it
inline ww::latency_model measure_latency(ww::memory_pool& pool, network& alone) {
  ww::device_buffer<input> in{pool, alone.stream(), max_items};
  ww::device_buffer<float> out{pool, alone.stream(), max_items};
  ww::check(cudaMemsetAsync(in.data(), 0, in.size_bytes(), alone.stream()), "cudaMemsetAsync");
  std::vector<ww::latency_point> points;
  for (std::size_t n = 1; n <= max_items; n *= 2) {
    auto const m = ww::measure(
        alone.stream(), [&] { alone.run_eagerly(in.data(), out.data(), n); },
        ww::measure_options{}.sample_seconds(0.0).min_samples(21).max_samples(41));
    points.push_back({n, m.summary.median_seconds, 1.05 * m.summary.median_seconds, 0});
  }
  return ww::latency_model::fit(points);
}

}  // namespace service
