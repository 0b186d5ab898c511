// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Workloads for the tuner: a perceptron, a transformer block, an elementwise pipeline. Each
// allocates its weights when it is made, and its activations from the resource of the call; they
// are small on the host runtime. Items differ, and an item's result does not depend on the batch.
//
// A workload is `void(std::size_t batch, stream_ref, resource_ref)`, on the stream that it was made
// with, and with a fourth argument copies its results, result_elements an item.
#pragma once

#include <warpwright/core/device.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/expression.hpp>
#include <warpwright/kernel/functions.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/resource_ref.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "support/sanitized.hpp"
#include "tune/matrix_products.hpp"

namespace test_support {

namespace ew = warpwright::ew;

#if defined(__CUDACC__)
constexpr bool full_size = true;
#else
constexpr bool full_size = false;
#endif

template <class T>
using activations = ww::device_buffer<T, ww::resource_ref>;

template <class T>
ew::input<T> all_of(activations<T> const& a) {
  return ew::in(static_cast<T const*>(a.data()), a.size());
}

// Random numbers of mean 0 and of a standard deviation, the same in every run.
template <class T>
void fill(ww::stream_ref stream, activations<T>& a, double deviation, std::uint64_t seed) {
  ew::run(stream, ew::out(a.data(), a.size()) = (ew::uniform(ew::philox{seed}) - 0.5F) *
                                                static_cast<float>(deviation * std::sqrt(12.0)));
}

template <class T>
void copy_results(ww::stream_ref stream, activations<T> const& from, T* results) {
  if (results == nullptr) return;
  ew::run(stream, ew::out(results, from.size()) = all_of(from));
}

// Four layers of 4,096, in float.
class perceptron {
 public:
  using element = float;
  static constexpr char const* name = "perceptron";
  static constexpr std::size_t last = full_size ? 8192 : sanitized ? 64 : 128;
  static constexpr std::size_t multiple = full_size ? 8 : 1;
  static constexpr std::size_t result_elements = full_size ? 1024 : 8;

  perceptron(ww::resource_ref weights, ww::stream_ref stream) : products_{weights, stream} {
    for (int i = 0; i < layers; ++i) {
      std::uint64_t const seed = 100 + static_cast<std::uint64_t>(i);
      weights_[i] = activations<float>{weights, stream, width[i] * width[i + 1]};
      biases_[i] = activations<float>{weights, stream, width[i + 1]};
      fill(stream, weights_[i], 1.0 / std::sqrt(static_cast<double>(width[i])), seed);
      fill(stream, biases_[i], 0.1, seed + layers);
    }
  }

  void operator()(std::size_t batch, ww::stream_ref stream, ww::resource_ref memory,
                  float* results = nullptr) {
    activations<float> x{memory, stream, batch * width[0]};
    fill(stream, x, 1.0, 3);
    for (int i = 0; i < layers; ++i) {
      activations<float> y{memory, stream, batch * width[i + 1]};
      products_.multiply<float>({batch, width[i + 1], width[i]}, {y.data(), width[i + 1]},
                                {x.data(), width[i]}, {weights_[i].data(), width[i + 1]});
      float const* const bias = biases_[i].data();
      ew::run(stream,
              ew::out(y.data(), y.size()) = ew::relu(all_of(y) + ew::row(bias, width[i + 1])));
      x = std::move(y);
    }
    copy_results(stream, x, results);
  }

 private:
  static constexpr int layers = 4;
  static constexpr std::size_t width[layers + 1] = {full_size ? 784 : 512, full_size ? 4096 : 32,
                                                    full_size ? 4096 : 32, full_size ? 4096 : 32,
                                                    result_elements};
  matrix_products products_;
  activations<float> weights_[layers];
  activations<float> biases_[layers];
};

// A block of a transformer over 128 tokens of 512 features with 8 heads, in half precision, the
// norms before the products.
class transformer_block {
  // Before its users, which need its type.
  template <class Norm>
  auto scaled(Norm const& norm) const {
    half_type const* const scale = scale_.data();
    half_type const* const shift = shift_.data();
    return norm * ew::row(scale, features) + ew::row(shift, features);
  }

 public:
  using element = half_type;
  static constexpr char const* name = "transformer block";
  static constexpr std::size_t tokens = full_size ? 128 : 8;
  static constexpr std::size_t features = full_size ? 512 : 16;
  static constexpr std::size_t heads = full_size ? 8 : 2;
  static constexpr std::size_t last = full_size ? 512 : sanitized ? 16 : 32;
  static constexpr std::size_t multiple = 1;
  static constexpr std::size_t result_elements = tokens * features;

  transformer_block(ww::resource_ref weights, ww::stream_ref stream)
      : products_{weights, stream},
        scale_{weights, stream, features},
        shift_{weights, stream, features},
        to_heads_{weights, stream, features * 3 * features},
        from_heads_{weights, stream, features * features},
        widen_{weights, stream, features * hidden},
        narrow_{weights, stream, hidden * features},
        bias_{weights, stream, hidden} {
    double const deviation = 1.0 / std::sqrt(static_cast<double>(features));
    ew::run(stream, ew::out(scale_.data(), features) = 1.0F);
    fill(stream, shift_, 0.1, 4);
    fill(stream, to_heads_, deviation, 5);
    fill(stream, from_heads_, deviation, 6);
    fill(stream, widen_, deviation, 7);
    fill(stream, narrow_, 0.5 * deviation, 8);
    fill(stream, bias_, 0.1, 9);
  }

  void operator()(std::size_t batch, ww::stream_ref stream, ww::resource_ref memory,
                  half_type* results = nullptr) {
    activations<half_type> x{memory, stream, batch * tokens * features};
    fill(stream, x, 1.0, 10);
    activations<half_type> normed{memory, stream, x.size()};
    ew::run_rows(stream, {batch * tokens, features},
                 ew::out(normed.data(), normed.size()) = scaled(ew::layer_norm(all_of(x), 1e-5)));
    activations<half_type> attended = attend(batch, stream, memory, normed);
    auto const norm = ew::layer_norm(all_of(x) + all_of(attended), 1e-5);
    ew::run_rows(stream, {batch * tokens, features}, ew::out(x.data(), x.size()) = norm.input(),
                 ew::out(normed.data(), normed.size()) = scaled(norm));
    activations<half_type> wide{memory, stream, batch * tokens * hidden};
    multiply(batch * tokens, wide, hidden, normed, features, widen_);
    half_type const* const bias = bias_.data();
    ew::run(stream, ew::out(wide.data(), wide.size()) =
                        ew::gelu_tanh(all_of(wide) + ew::row(bias, hidden)));
    multiply(batch * tokens, attended, features, wide, hidden, narrow_);
    ew::run(stream, ew::out(x.data(), x.size()) = all_of(x) + all_of(attended));
    copy_results(stream, x, results);
  }

 private:
  static constexpr std::size_t hidden = 4 * features;

  void multiply(std::size_t rows, activations<half_type>& product, std::size_t columns,
                activations<half_type> const& a, std::size_t inner,
                activations<half_type> const& b) const {
    products_.multiply<half_type>({rows, columns, inner}, {product.data(), columns},
                                  {a.data(), inner}, {b.data(), columns});
  }

  // Scores of all heads, then one softmax over them; the batch is that of the products of a head.
  activations<half_type> attend(std::size_t batch, ww::stream_ref stream, ww::resource_ref memory,
                                activations<half_type> const& x) const {
    constexpr std::size_t all = 3 * features;  // queries, keys and values of a token
    constexpr std::size_t size = features / heads;
    constexpr std::size_t square = tokens * tokens;
    activations<half_type> qkv{memory, stream, batch * tokens * all};
    multiply(batch * tokens, qkv, all, x, features, to_heads_);
    activations<half_type> scores{memory, stream, heads * batch * square};
    for (std::size_t h = 0; h < heads; ++h) {
      half_type const* const queries = qkv.data() + h * size;
      products_.multiply<half_type>(
          {tokens, tokens, size, batch}, {scores.data() + h * batch * square, tokens, square},
          {queries, all, tokens * all}, {queries + features, all, tokens * all, true});
    }
    ew::run_rows(stream, {heads * batch * tokens, tokens},
                 ew::out(scores.data(), scores.size()) =
                     ew::softmax(all_of(scores) * (1.0F / std::sqrt(static_cast<float>(size)))));
    activations<half_type> mixed{memory, stream, x.size()};
    for (std::size_t h = 0; h < heads; ++h) {
      products_.multiply<half_type>({tokens, size, tokens, batch},
                                    {mixed.data() + h * size, features, tokens * features},
                                    {scores.data() + h * batch * square, tokens, square},
                                    {qkv.data() + 2 * features + h * size, all, tokens * all});
    }
    activations<half_type> result{memory, stream, x.size()};
    multiply(batch * tokens, result, features, mixed, features, from_heads_);
    return result;
  }

  matrix_products products_;
  activations<half_type> scale_, shift_, to_heads_, from_heads_, widen_, narrow_, bias_;
};

// Images in four fused kernels: small batches stay in the L2 cache, large ones do not.
class elementwise_pipeline {
 public:
  using element = float;
  static constexpr char const* name = "elementwise pipeline";
  static constexpr std::size_t pixels = full_size ? 3 * 128 * 128 : 3 * 16 * 16;
  static constexpr std::size_t last = full_size ? 1024 : sanitized ? 32 : 64;
  static constexpr std::size_t multiple = 1;
  static constexpr std::size_t result_elements = pixels;

  elementwise_pipeline(ww::resource_ref weights, ww::stream_ref stream)
      : image_{weights, stream, pixels}, gains_{weights, stream, last} {
    fill(stream, image_, 1.0, 11);
    fill(stream, gains_, 1.0, 12);
  }

  void operator()(std::size_t batch, ww::stream_ref stream, ww::resource_ref memory,
                  float* results = nullptr) {
    std::size_t const n = batch * pixels;
    float const* const image = image_.data();
    float const* const gains = gains_.data();
    activations<float> x{memory, stream, n};
    ew::run(stream, ew::out(x.data(), n) = ew::clamp(
                        (ew::row(image, pixels) - 0.45F) * ew::col(gains, pixels), -2.0F, 2.0F));
    activations<float> y{memory, stream, n};
    ew::run(stream, ew::out(y.data(), n) =
                        ew::sqrt(all_of(x) * all_of(x) + 1e-3F) * ew::row(image, pixels));
    activations<float> z{memory, stream, n};
    ew::run(stream, ew::out(z.data(), n) = 0.7F * all_of(x) + 0.3F * all_of(y));
    ew::run(stream, ew::out(x.data(), n) = ew::leaky_relu(all_of(z), 0.1F));
    copy_results(stream, x, results);
  }

 private:
  activations<float> image_;
  activations<float> gains_;
};

}  // namespace test_support
