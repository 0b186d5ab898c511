// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The model of the service: a small network, trained at start-up, with a graph for each batch size.
#pragma once

#include "../digits/network.hpp"
#include "../digits/serving.hpp"

#include <warpwright/serve/batcher.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/latency_model.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace service {

namespace ww = warpwright;

struct image {
  float pixels[digits::image_pixels];
};
using label = std::int32_t;

/// The network on one stream, for one thread at a time.
class classifier {
 public:
  classifier(digits::resources& shared, ww::stream_ref stream, float const* parameters,
             std::size_t max_items)
      : stream_{stream},
        parameters_{parameters},
        multiply_{shared.memory, stream},
        infer_{shared.memory, multiply_, max_items},
        graphs_{digits::inference_graphs()} {}

  /// Enqueues the classification of `count` images, as a graph of that size.
  void run(image const* images, label* labels, std::size_t count) {
    digits::run_inference(graphs_, infer_, stream_, parameters_, images->pixels, labels, count);
  }
  void run_eagerly(image const* images, label* labels, std::size_t count) {
    infer_.run(parameters_, images->pixels, labels, count);
  }
  [[nodiscard]] ww::stream_ref stream() const noexcept { return stream_; }

 private:
  ww::stream_ref stream_;
  float const* parameters_;
  digits::multiplier multiply_;
  digits::inference infer_;
  ww::graph_cache graphs_;
};

/// Trains on four fifths of the images.
inline void train(digits::resources& shared, ww::stream_ref stream, digits::dataset const& data,
                  ww::device_buffer<float>& parameters, std::size_t steps) {
  digits::random draw{1};
  std::vector<float> const first = digits::initial_parameters(draw);
  parameters.copy_from(stream, first.data(), first.size());
  std::vector<std::int32_t> samples(steps * digits::trainer::batch);
  for (std::int32_t& sample : samples) {
    sample = static_cast<std::int32_t>(draw.uniform() * float{digits::image_count * 4 / 5});
  }
  ww::device_buffer<float> pixels{shared.memory, stream, data.pixels.data(), data.pixels.size()};
  ww::device_buffer<label> labels{shared.memory, stream, data.labels.data(), data.labels.size()};
  ww::device_buffer<std::int32_t> order{shared.memory, stream, samples.data(), samples.size()};
  digits::multiplier multiply{shared.memory, stream};
  digits::trainer trainer{shared.memory, multiply, parameters.data()};
  for (std::size_t i = 0; i < steps; ++i) {
    trainer.step(pixels.data(), labels.data(), order.data() + i * digits::trainer::batch, 2e-3F, 1);
  }
  stream.synchronize();
}

/// Measures batches, for the largest one that pays and for what the batcher predicts by.
inline ww::tune_result tune(digits::resources& shared, classifier& model, std::size_t max_items) {
  ww::device_buffer<image> images{shared.memory, model.stream(), max_items};
  ww::device_buffer<label> labels{shared.memory, model.stream(), max_items};
  ww::check(cudaMemsetAsync(images.data(), 0, images.size_bytes(), model.stream()),
            "cudaMemsetAsync");
  auto const run = [&](std::size_t batch, ww::stream_ref) {
    model.run_eagerly(images.data(), labels.data(), batch);
  };
  auto const memory = [&](std::size_t batch) { return batch * sizeof(image); };
  return ww::batch_tuner{}
      .range(1, max_items)
      .latency_calls(10)
      .stop_after_flat(0)
      .max_seconds(4.0)
      .tune(model.stream(), run, memory);
}

}  // namespace service
