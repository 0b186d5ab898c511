// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/network.hpp"

#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

namespace ww = warpwright;
using test_support::device_array;

std::vector<float> random_floats(std::size_t size, digits::random& draw) {
  std::vector<float> values(size);
  for (float& each : values) each = 2.0F * draw.uniform() - 1.0F;
  return values;
}

struct shape {
  std::uint64_t rows, columns, inner;
};

// The product in double, of factors that may be transposed.
std::vector<double> reference(shape s, std::vector<float> const& a, bool a_transposed,
                              std::vector<float> const& b, bool b_transposed) {
  std::vector<double> product(s.rows * s.columns, 0.0);
  for (std::uint64_t i = 0; i < s.rows; ++i) {
    for (std::uint64_t j = 0; j < s.columns; ++j) {
      for (std::uint64_t k = 0; k < s.inner; ++k) {
        double const left = static_cast<double>(a[a_transposed ? k * s.rows + i : i * s.inner + k]);
        double const right =
            static_cast<double>(b[b_transposed ? j * s.inner + k : k * s.columns + j]);
        product[i * s.columns + j] += left * right;
      }
    }
  }
  return product;
}

double largest_difference(std::vector<float> const& found, std::vector<double> const& expected) {
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double const difference = std::fabs(static_cast<double>(found[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;  // also for a NaN
  }
  return largest;
}

double gelu(double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); }

}  // namespace

TEST_CASE("products are correct for the shapes of training and inference, and odd ones") {
  shape const shapes[] = {{1, 256, 64},  {3, 256, 64},  {64, 256, 64}, {64, 10, 256}, {256, 10, 64},
                          {64, 256, 10}, {64, 256, 64}, {5, 17, 7},    {1, 1, 1},     {6, 33, 130}};
  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  digits::multiplier multiply{pool, stream};
  digits::random draw{11};
  for (shape const& s : shapes) {
    for (int which = 0; which < 4; ++which) {
      bool const a_transposed = (which & 1) != 0;
      bool const b_transposed = (which & 2) != 0;
      CAPTURE(s.rows, s.columns, s.inner, a_transposed, b_transposed);
      std::vector<float> const a = random_floats(s.rows * s.inner, draw);
      std::vector<float> const b = random_floats(s.inner * s.columns, draw);
      device_array<float> const device_a{a};
      device_array<float> const device_b{b};
      device_array<float> const product{std::vector<float>(s.rows * s.columns, 1e9F)};
      multiply(product.data(), s.rows, s.columns, s.inner,
               {device_a.data(), a_transposed ? s.rows : s.inner, a_transposed},
               {device_b.data(), b_transposed ? s.inner : s.columns, b_transposed});
      CHECK(largest_difference(product.fetch(stream),
                               reference(s, a, a_transposed, b, b_transposed)) < 5e-5);
    }
  }
}

TEST_CASE("inference is the network's formula, softmax included") {
  constexpr std::size_t batch = 37;
  digits::random draw{5};
  std::vector<float> const parameters = random_floats(digits::parameter_count, draw);
  std::vector<float> const images = random_floats(batch * digits::image_pixels, draw);

  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  digits::multiplier multiply{pool, stream};
  device_array<float> const device_parameters{parameters};
  digits::buffered_inference infer{pool, multiply, batch + 10};
  ww::check(cudaMemcpyAsync(infer.images(), images.data(), images.size() * sizeof(float),
                            cudaMemcpyHostToDevice, stream.get()),
            "cudaMemcpyAsync");
  infer.run(device_parameters.data(), batch);
  stream.synchronize();
  std::vector<float> probabilities(batch * digits::class_count);
  std::vector<std::int32_t> labels(batch);
  ww::check(cudaMemcpy(probabilities.data(), infer.probabilities(),
                       probabilities.size() * sizeof(float), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
  ww::check(cudaMemcpy(labels.data(), infer.labels(), batch * sizeof(std::int32_t),
                       cudaMemcpyDeviceToHost),
            "cudaMemcpy");

  auto const at = [&](std::size_t i) { return static_cast<double>(parameters[i]); };
  for (std::size_t n = 0; n < batch; ++n) {
    std::vector<double> logits(digits::class_count);
    for (std::size_t c = 0; c < digits::class_count; ++c) logits[c] = at(digits::b2_at + c);
    for (std::size_t h = 0; h < digits::hidden_units; ++h) {
      double sum = at(digits::b1_at + h);
      for (std::size_t p = 0; p < digits::image_pixels; ++p) {
        sum += static_cast<double>(images[n * digits::image_pixels + p]) *
               at(digits::w1_at + p * digits::hidden_units + h);
      }
      for (std::size_t c = 0; c < digits::class_count; ++c) {
        logits[c] += gelu(sum) * at(digits::w2_at + h * digits::class_count + c);
      }
    }
    double total = 0.0;
    for (double const each : logits) total += std::exp(each);
    std::size_t best = 0;
    for (std::size_t c = 0; c < digits::class_count; ++c) {
      if (logits[c] > logits[best]) best = c;
      double const found = static_cast<double>(probabilities[n * digits::class_count + c]);
      double const expected = std::exp(logits[c]) / total;
      CAPTURE(n, c, found, expected);
      CHECK(std::fabs(found - expected) < 1e-4);
    }
    CHECK(labels[n] == static_cast<std::int32_t>(best));
  }
}

TEST_CASE("training learns noise-free patterns") {
  // Ten patterns, each a bright block at another position.
  constexpr std::size_t count = 640;
  std::vector<float> pixels(count * digits::image_pixels, 0.0F);
  std::vector<std::int32_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t const label = i % 10;
    labels[i] = static_cast<std::int32_t>(label);
    for (std::size_t y = 0; y < 2; ++y) {
      for (std::size_t x = 0; x < 2; ++x) {
        std::size_t const row = label / 4 * 3 + y;
        pixels[i * digits::image_pixels + row * digits::image_side + label % 4 * 2 + x] = 1.0F;
      }
    }
  }
  digits::random draw{3};
  std::vector<std::int32_t> order;
  for (int epoch = 0; epoch < 8; ++epoch) {
    std::vector<std::int32_t> shuffled(count);
    for (std::size_t i = 0; i < count; ++i) shuffled[i] = static_cast<std::int32_t>(i);
    draw.shuffle(shuffled);
    order.insert(order.end(), shuffled.begin(), shuffled.end());
  }

  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  digits::multiplier multiply{pool, stream};
  device_array<float> const parameters{digits::initial_parameters(draw)};
  device_array<float> const device_pixels{pixels};
  device_array<std::int32_t> const device_labels{labels};
  device_array<std::int32_t> const device_order{order};
  digits::trainer trainer{pool, multiply, parameters.data()};
  for (std::size_t step = 0; step < order.size() / digits::trainer::batch; ++step) {
    trainer.step(device_pixels.data(), device_labels.data(),
                 device_order.data() + step * digits::trainer::batch, 0.005F, 1);
  }
  digits::buffered_inference infer{pool, multiply, 10};
  ww::check(cudaMemcpyAsync(infer.images(), device_pixels.data(),
                            10 * digits::image_pixels * sizeof(float), cudaMemcpyDeviceToDevice,
                            stream.get()),
            "cudaMemcpyAsync");
  infer.run(parameters.data(), 10);
  stream.synchronize();
  std::vector<std::int32_t> predictions(10);
  ww::check(cudaMemcpy(predictions.data(), infer.labels(), 10 * sizeof(std::int32_t),
                       cudaMemcpyDeviceToHost),
            "cudaMemcpy");
  CHECK(predictions == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}
