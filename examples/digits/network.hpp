// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A 64-256-10 perceptron with a GELU hidden layer: inference, and training with softmax
// cross-entropy and AdamW (Loshchilov and Hutter, ICLR 2019). Everything but the matrix products,
// the gathering of a batch and the sums over rows and columns is a fused expression.
#pragma once

#include "dataset.hpp"
#include "gemm.hpp"

#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/functions.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace digits {

namespace ew = warpwright::ew;

inline constexpr std::size_t hidden_units = 256;

// All parameters are in one array, so that one kernel updates them.
inline constexpr std::size_t w1_at = 0;
inline constexpr std::size_t b1_at = w1_at + image_pixels * hidden_units;
inline constexpr std::size_t w2_at = b1_at + hidden_units;
inline constexpr std::size_t b2_at = w2_at + hidden_units * class_count;
inline constexpr std::size_t parameter_count = b2_at + class_count;

/// Random weights, uniform with He's variance quartered (small weights generalise better here), and
/// biases of 0.
inline std::vector<float> initial_parameters(random& draw) {
  std::vector<float> parameters(parameter_count, 0.0F);
  auto const fill = [&](std::size_t begin, std::size_t end, std::size_t inputs) {
    float const bound = 0.5F * std::sqrt(6.0F / static_cast<float>(inputs));
    for (std::size_t i = begin; i < end; ++i) {
      parameters[i] = (2.0F * draw.uniform() - 1.0F) * bound;
    }
  };
  fill(w1_at, b1_at, image_pixels);
  fill(w2_at, b2_at, hidden_units);
  return parameters;
}

namespace detail {

// Logarithm of the sum of exponentials of a row, and the index of its largest element.
struct reduce_row {
  float const* logits;  // rows x class_count, without the bias
  float const* bias;
  float* log_sum;
  std::int32_t* label;

  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t row) const {
    float const* const line = logits + row * class_count;
    float largest = line[0] + bias[0];
    std::int32_t at = 0;
    for (std::int32_t c = 1; c < std::int32_t{class_count}; ++c) {
      float const value = line[c] + bias[c];
      if (value > largest) {
        largest = value;
        at = c;
      }
    }
    float sum = 0.0F;
    for (std::size_t c = 0; c < class_count; ++c) sum += ::expf(line[c] + bias[c] - largest);
    log_sum[row] = largest + ::logf(sum);
    label[row] = at;
  }
};

struct sum_column {
  float const* matrix;
  std::uint64_t rows, columns;
  float* sums;

  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t column) const {
    float sum = 0.0F;
    for (std::uint64_t row = 0; row < rows; ++row) sum += matrix[row * columns + column];
    sums[column] = sum;
  }
};

// A random number from a hash of its purpose and sample, so that there is no shared state.
WARPWRIGHT_HOST_DEVICE inline float jitter(std::uint64_t key) {
  key = (key ^ (key >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  key = (key ^ (key >> 27U)) * 0x94d049bb133111ebULL;
  key ^= key >> 31U;
  return static_cast<float>(key >> 40U) * 0x1p-23F - 1.0F;  // in [-1, 1)
}

// One pixel of one sample of the batch: data augmentation by a small random shift, rotation and
// scale, with bilinear interpolation.
struct pick_pixel {
  float const* pixels;          // of all images
  std::int32_t const* samples;  // of this batch
  std::uint64_t key;            // of this step
  float* batch;

  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    constexpr float shift = 0.5F;     // pixels
    constexpr float rotation = 0.1F;  // radians
    constexpr float resize = 0.05F;
    constexpr int side = image_side;
    constexpr float centre = 0.5F * (side - 1);
    std::uint64_t const sample = i / image_pixels;
    int const pixel = static_cast<int>(i % image_pixels);
    std::uint64_t const own = (key + sample) * 4U;
    float const scale = 1.0F + resize * jitter(own);
    float const sine = rotation * jitter(own + 1U);  // the angle is small
    float const cosine = 1.0F - 0.5F * sine * sine;
    float const x = static_cast<float>(pixel % side) - centre;
    float const y = static_cast<float>(pixel / side) - centre;
    float const from_x = scale * (cosine * x - sine * y) + centre + shift * jitter(own + 2U);
    float const from_y = scale * (sine * x + cosine * y) + centre + shift * jitter(own + 3U);
    float const* const image = pixels + static_cast<std::uint64_t>(samples[sample]) * image_pixels;
    int const left = static_cast<int>(::floorf(from_x));
    int const top = static_cast<int>(::floorf(from_y));
    float const right_share = from_x - static_cast<float>(left);
    float const bottom_share = from_y - static_cast<float>(top);
    batch[i] = (1.0F - bottom_share) * ((1.0F - right_share) * at(image, left, top) +
                                        right_share * at(image, left + 1, top)) +
               bottom_share * ((1.0F - right_share) * at(image, left, top + 1) +
                               right_share * at(image, left + 1, top + 1));
  }

  WARPWRIGHT_HOST_DEVICE static float at(float const* image, int x, int y) {
    constexpr int side = image_side;
    return x >= 0 && x < side && y >= 0 && y < side ? image[y * side + x] : 0.0F;
  }
};

// The target of the softmax: nearly 1 for the label, the rest distributed evenly (label smoothing,
// Szegedy et al., CVPR 2016).
struct pick_target {
  std::int32_t const* labels;   // of all images
  std::int32_t const* samples;  // of this batch
  float* target;

  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    constexpr float smoothing = 0.1F;
    bool const right =
        static_cast<std::uint64_t>(labels[samples[i / class_count]]) == i % class_count;
    target[i] = (right ? 1.0F - smoothing : 0.0F) + smoothing / float{class_count};
  }
};

}  // namespace detail

/// The images of a batch of any size: all images in order, repeated.
struct repeat_images {
  float const* pixels;
  std::uint64_t size;
  WARPWRIGHT_HOST_DEVICE float operator()(std::uint64_t i) const { return pixels[i % size]; }
};

/// Inference for batches of up to a given size on one stream.
class inference {
 public:
  inference(ww::memory_pool& pool, multiplier& multiply, std::size_t largest_batch)
      : multiply_{&multiply},
        hidden_{pool, multiply.stream(), largest_batch * hidden_units},
        logits_{pool, multiply.stream(), largest_batch * class_count},
        log_sum_{pool, multiply.stream(), largest_batch},
        probabilities_{pool, multiply.stream(), largest_batch * class_count} {}

  /// Classifies images into labels, the most likely digit of each, and probabilities().
  /// @param parameters  parameter_count numbers; as all addresses, in device memory
  /// @param images      batch x image_pixels
  /// @param labels      receives `batch` numbers
  void run(float const* parameters, float const* images, std::int32_t* labels, std::size_t batch) {
    ww::stream_ref const stream = multiply_->stream();
    std::size_t const hidden_size = batch * hidden_units;
    std::size_t const output_size = batch * class_count;
    (*multiply_)(hidden_.data(), batch, hidden_units, image_pixels, {images, image_pixels},
                 {parameters + w1_at, hidden_units});
    ew::run(stream, ew::out(hidden_.data(), hidden_size) =
                        ew::gelu(ew::in(hidden_.data(), hidden_size) +
                                 ew::row(parameters + b1_at, hidden_units)));
    (*multiply_)(logits_.data(), batch, class_count, hidden_units, {hidden_.data(), hidden_units},
                 {parameters + w2_at, class_count});
    ww::for_each_index(
        stream, batch,
        detail::reduce_row{logits_.data(), parameters + b2_at, log_sum_.data(), labels});
    ew::run(stream, ew::out(probabilities_.data(), output_size) =
                        ew::exp(ew::in(logits_.data(), output_size) +
                                ew::row(parameters + b2_at, class_count) -
                                ew::col(log_sum_.data(), class_count)));
  }

  /// @return batch x class_count
  [[nodiscard]] float const* probabilities() const noexcept { return probabilities_.data(); }

 private:
  multiplier* multiply_;
  ww::device_buffer<float> hidden_;
  ww::device_buffer<float> logits_;
  ww::device_buffer<float> log_sum_;
  ww::device_buffer<float> probabilities_;
};

/// Inference with memory for a batch of images and their labels.
class buffered_inference : public inference {
 public:
  buffered_inference(ww::memory_pool& pool, multiplier& multiply, std::size_t largest_batch)
      : inference{pool, multiply, largest_batch},
        images_{pool, multiply.stream(), largest_batch * image_pixels},
        labels_{pool, multiply.stream(), largest_batch} {}

  using inference::run;
  /// Classifies the first `batch` of images() into labels() and probabilities().
  void run(float const* parameters, std::size_t batch) {
    run(parameters, images_.data(), labels_.data(), batch);
  }

  /// @return largest_batch x image_pixels
  [[nodiscard]] float* images() noexcept { return images_.data(); }
  /// @return the most likely digit of each image
  [[nodiscard]] std::int32_t* labels() const noexcept { return labels_.data(); }

 private:
  ww::device_buffer<float> images_;
  ww::device_buffer<std::int32_t> labels_;
};

/// Training on minibatches, on one stream.
class trainer {
 public:
  static constexpr std::size_t batch = 64;

  /// @param parameters  parameter_count numbers in device memory, updated in place
  trainer(ww::memory_pool& pool, multiplier& multiply, float* parameters)
      : multiply_{&multiply},
        parameters_{parameters},
        images_{pool, multiply.stream(), batch * image_pixels},
        before_gelu_{pool, multiply.stream(), batch * hidden_units},
        hidden_{pool, multiply.stream(), batch * hidden_units},
        hidden_gradient_{pool, multiply.stream(), batch * hidden_units},
        logits_{pool, multiply.stream(), batch * class_count},
        target_{pool, multiply.stream(), batch * class_count},
        log_sum_{pool, multiply.stream(), batch},
        labels_{pool, multiply.stream(), batch},
        gradient_{pool, multiply.stream(), parameter_count},
        mean_{pool, multiply.stream(), parameter_count},
        square_{pool, multiply.stream(), parameter_count} {
    ew::run(multiply.stream(), ew::out(mean_.data(), parameter_count) = 0.0F);
    ew::run(multiply.stream(), ew::out(square_.data(), parameter_count) = 0.0F);
  }

  /// One step of gradient descent.
  /// @param pixels   of all images, in device memory
  /// @param labels   of all images, in device memory
  /// @param samples  `batch` indices of images, in device memory
  /// @param rate     learning rate
  /// @param seed     of the data augmentation
  void step(float const* pixels, std::int32_t const* labels, std::int32_t const* samples,
            float rate, std::uint64_t seed) {
    ww::stream_ref const stream = multiply_->stream();
    ++steps_;
    ww::for_each_index(
        stream, batch * image_pixels,
        detail::pick_pixel{pixels, samples, seed * 0x9e3779b97f4a7c15ULL + steps_ * batch,
                           images_.data()});
    ww::for_each_index(stream, batch * class_count,
                       detail::pick_target{labels, samples, target_.data()});
    forward(stream);
    backward(stream);
    update(stream, rate);
  }

 private:
  static constexpr std::size_t hidden_size = batch * hidden_units;
  static constexpr std::size_t output_size = batch * class_count;

  void forward(ww::stream_ref stream) {
    (*multiply_)(before_gelu_.data(), batch, hidden_units, image_pixels,
                 {images_.data(), image_pixels}, {parameters_ + w1_at, hidden_units});
    auto const activation =
        ew::in(before_gelu_.data(), hidden_size) + ew::row(parameters_ + b1_at, hidden_units);
    ew::run(stream, ew::out(hidden_.data(), hidden_size) = ew::gelu(activation));
    (*multiply_)(logits_.data(), batch, class_count, hidden_units, {hidden_.data(), hidden_units},
                 {parameters_ + w2_at, class_count});
    ww::for_each_index(
        stream, batch,
        detail::reduce_row{logits_.data(), parameters_ + b2_at, log_sum_.data(), labels_.data()});
    // The gradient of softmax and cross-entropy together: prediction minus target.
    ew::run(stream, ew::out(logits_.data(), output_size) =
                        (ew::exp(ew::in(logits_.data(), output_size) +
                                 ew::row(parameters_ + b2_at, class_count) -
                                 ew::col(log_sum_.data(), class_count)) -
                         ew::in(target_.data(), output_size)) *
                        (1.0F / float{batch}));
  }

  void backward(ww::stream_ref stream) {
    factor const output{logits_.data(), class_count};
    factor const hidden_transposed{hidden_.data(), hidden_units, true};
    (*multiply_)(gradient_.data() + w2_at, hidden_units, class_count, batch, hidden_transposed,
                 output);
    ww::for_each_index(
        stream, class_count,
        detail::sum_column{logits_.data(), batch, class_count, gradient_.data() + b2_at});
    (*multiply_)(hidden_gradient_.data(), batch, hidden_units, class_count, output,
                 {parameters_ + w2_at, class_count, true});
    // GELU'(x) = Phi(x) + x phi(x), with the normal distribution's Phi and density phi.
    auto const x =
        ew::in(before_gelu_.data(), hidden_size) + ew::row(parameters_ + b1_at, hidden_units);
    ew::run(stream,
            ew::out(hidden_gradient_.data(), hidden_size) *=
            0.5F * (1.0F + ew::erf(x * 0.70710678F)) + x * ew::exp(x * x * -0.5F) * 0.39894228F);
    (*multiply_)(gradient_.data() + w1_at, image_pixels, hidden_units, batch,
                 {images_.data(), image_pixels, true}, {hidden_gradient_.data(), hidden_units});
    ww::for_each_index(
        stream, hidden_units,
        detail::sum_column{hidden_gradient_.data(), batch, hidden_units, gradient_.data() + b1_at});
  }

  void update(ww::stream_ref stream, float rate) {
    constexpr double keep_mean = 0.9;
    constexpr double keep_square = 0.999;
    constexpr float weight_decay = 0.05F;
    auto const steps = static_cast<double>(steps_);
    auto const mean_scale = static_cast<float>(1.0 / (1.0 - std::pow(keep_mean, steps)));
    auto const square_scale = static_cast<float>(1.0 / (1.0 - std::pow(keep_square, steps)));
    auto const gradient = ew::in(gradient_.data(), parameter_count);
    auto const mean = ew::in(mean_.data(), parameter_count);
    auto const square = ew::in(square_.data(), parameter_count);
    auto const parameters = ew::in(parameters_, parameter_count);
    ew::run(stream, ew::out(mean_.data(), parameter_count) = mean * 0.9F + gradient * 0.1F);
    ew::run(stream, ew::out(square_.data(), parameter_count) =
                        square * 0.999F + gradient * gradient * 0.001F);
    ew::run(stream, ew::out(parameters_, parameter_count) -=
                    (mean * mean_scale / (ew::sqrt(square * square_scale) + 1e-8F) +
                     parameters * weight_decay) *
                    rate);
  }

  multiplier* multiply_;
  float* parameters_;
  std::uint64_t steps_ = 0;
  ww::device_buffer<float> images_;
  ww::device_buffer<float> before_gelu_;
  ww::device_buffer<float> hidden_;
  ww::device_buffer<float> hidden_gradient_;
  ww::device_buffer<float> logits_;
  ww::device_buffer<float> target_;
  ww::device_buffer<float> log_sum_;
  ww::device_buffer<std::int32_t> labels_;
  ww::device_buffer<float> gradient_;
  ww::device_buffer<float> mean_;
  ww::device_buffer<float> square_;
};

}  // namespace digits
