// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The gradients of the 64-256-10 perceptron of examples/digits, with parameters, activations and
// gradients of type T: float or __half. Sums are in float.
#pragma once

#include "../digits/network.hpp"

#include <warpwright/core/tensor_list.hpp>

#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace mixed {

namespace ew = warpwright::ew;
namespace ww = warpwright;
using digits::class_count;
using digits::hidden_units;
using digits::image_pixels;

inline constexpr std::size_t micro_batch = 64;

template <class T>
struct matrix {
  T const* data;
  std::uint64_t columns;    // of the matrix in memory
  bool transposed = false;  // multiply by the transpose
};

/// Products of matrices on one stream: cuBLAS on a GPU; without one in float, rounded at the end.
template <class T>
class products {
 public:
  products(ww::memory_pool& pool, ww::stream_ref stream)
      : floats_{pool, stream}, scratch_{pool, stream, 3 * largest} {}

  /// product (rows x columns) = a (rows x inner) * b (inner x columns)
  template <class Out>
  void operator()(ww::stream_ref stream, Out* product, std::uint64_t rows, std::uint64_t columns,
                  std::uint64_t inner, matrix<T> const& a, matrix<T> const& b) {
#if defined(__CUDACC__)
    auto const type = [](auto value) {
      return std::is_same_v<decltype(value), float> ? CUDA_R_32F : CUDA_R_16F;
    };
    float const one = 1.0F;
    float const zero = 0.0F;
    auto const n = [](std::uint64_t size) { return static_cast<int>(size); };
    // Row-major product = column-major product of the factors in the other order.
    digits::detail::check_cublas(
        cublasGemmEx(floats_.handle.get(), b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                     a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n(columns), n(rows), n(inner), &one,
                     b.data, type(T{}), n(b.columns), a.data, type(T{}), n(a.columns), &zero,
                     product, type(Out{}), n(columns), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
    static_cast<void>(stream);
#else
    float* const p = scratch_.data();
    ew::run(stream, ew::out(p + largest, rows * inner) = ew::in(a.data, rows * inner));
    ew::run(stream, ew::out(p + 2 * largest, inner * columns) = ew::in(b.data, inner * columns));
    floats_.multiply(p, rows, columns, inner, {p + largest, a.columns, a.transposed},
                     {p + 2 * largest, b.columns, b.transposed});
    ew::run(stream, ew::out(product, rows * columns) = ew::in(p, rows * columns));
#endif
  }

 private:
  static constexpr std::size_t largest = micro_batch * hidden_units;
#if defined(__CUDACC__)
  struct engine {  // its workspace is allocated beforehand, as a capture must not allocate
    engine(ww::memory_pool& pool, ww::stream_ref stream) : workspace{pool, stream, bytes} {
      digits::detail::check_cublas(cublasSetStream(handle.get(), stream.get()), "cublasSetStream");
      digits::detail::check_cublas(cublasSetWorkspace(handle.get(), workspace.data(), bytes),
                                   "cublasSetWorkspace");
    }
    static constexpr std::size_t bytes = std::size_t{4} << 20U;
    ww::device_buffer<std::byte> workspace;
    digits::detail::cublas_handle handle;
  };
#else
  struct engine {
    engine(ww::memory_pool& pool, ww::stream_ref stream) : multiply{pool, stream} {}
    digits::multiplier multiply;
  };
#endif
  engine floats_;
  ww::device_buffer<float> scratch_;
};

/// Which images a micro-batch has depends on the number of the step, in device memory: a replay of
/// a graph takes the next ones.
struct position {
  std::int64_t const* step;
  std::uint64_t micro;  // of the step
  WARPWRIGHT_HOST_DEVICE std::uint64_t first_sample() const {
    return (static_cast<std::uint64_t>(*step) * 64 + micro) * micro_batch;
  }
};

struct draw_samples {
  position at;
  std::int32_t const* training;  // indices of images
  std::uint64_t count;
  std::int32_t* samples;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float const u = digits::detail::jitter((at.first_sample() + i) * 0x9e3779b97f4a7c15ULL);
    auto const k = static_cast<std::uint64_t>((0.5F * u + 0.5F) * static_cast<float>(count));
    samples[i] = training[k < count ? k : count - 1];
  }
};

struct pick_pixels {
  position at;
  digits::detail::pick_pixel pick;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    digits::detail::pick_pixel p = pick;
    p.key = at.first_sample() + 0x5851f42d4c957f2dULL;
    p(i);
  }
};

/// The gradient of softmax and cross-entropy of a row, times the scale of the loss.
template <class T>
struct loss_of_row {
  float const* logits;  // without the bias
  T const* bias;
  std::int32_t const* labels;   // of all images
  std::int32_t const* samples;  // of this micro-batch
  float const* scale;
  T* gradient;

  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t row) const {
    constexpr float smoothing = 0.1F;
    float value[class_count];
    float largest = -INFINITY;
    for (std::size_t c = 0; c < class_count; ++c) {
      value[c] = logits[row * class_count + c] + static_cast<float>(bias[c]);
      largest = value[c] > largest ? value[c] : largest;
    }
    float sum = 0.0F;
    for (float& v : value) sum += v = ::expf(v - largest);
    auto const label = static_cast<std::size_t>(labels[samples[row]]);
    for (std::size_t c = 0; c < class_count; ++c) {
      float const target = (c == label ? 1.0F - smoothing : 0.0F) + smoothing / float{class_count};
      gradient[row * class_count + c] =
          static_cast<T>((value[c] / sum - target) * (*scale / float{micro_batch}));
    }
  }
};

template <class T>
struct sum_column {
  T const* values;
  std::uint64_t columns;
  T* sums;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t column) const {
    float sum = 0.0F;
    for (std::uint64_t row = 0; row < micro_batch; ++row) {
      sum += static_cast<float>(values[row * columns + column]);
    }
    sums[column] = static_cast<T>(sum);
  }
};

/// An overflow in some steps, to show that training survives it.
template <class T>
struct plant_overflow {
  position at;
  T* gradient;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    if (*at.step % 16 == 9 && at.micro == 2) {
      *gradient = static_cast<T>(INFINITY);
    }
  }
};

/// For a backward pass whose gradients nobody waits for.
struct nothing_waits {
  void operator()(std::size_t) const {}
};

/// The network's parameters and the gradients of a micro-batch.
template <class T>
class network {
 public:
  network(ww::memory_pool& pool, ww::stream_ref stream)
      : multiply_{pool, stream},
        values_{pool, stream, 2 * digits::parameter_count},
        wide_{pool, stream, micro_batch * (image_pixels + hidden_units + class_count)},
        narrow_{pool, stream, micro_batch * (image_pixels + 2 * hidden_units + class_count)},
        samples_{pool, stream, micro_batch} {
    name(parameters, values_.data());
    name(gradients, values_.data() + digits::parameter_count);
  }

  ww::tensor_list parameters;
  ww::tensor_list gradients;  // where backward() writes them; another list may replace it

  void set(ww::stream_ref stream, float const* parameters_in_device_memory) {
    ew::run(stream, ew::out(values_.data(), digits::parameter_count) =
                        ew::in(parameters_in_device_memory, digits::parameter_count));
  }

  /// Gradients of the mean loss of one micro-batch, times the scale.
  /// @param draw   chooses the images: draw_samples, or a functor with the same first members
  /// @param ready  called with the number of each gradient when its last kernel is enqueued
  template <class Draw = draw_samples, class Ready = nothing_waits>
  void backward(ww::stream_ref stream, position const& at, float const* pixels,
                std::int32_t const* labels, Draw draw, float const* scale, bool overflows,
                Ready ready = {}) {
    draw.at = at;
    draw.samples = samples_.data();
    ww::for_each_index(stream, micro_batch, draw);
    float* const images = wide_.data();
    float* const before_gelu = images + micro_batch * image_pixels;
    float* const logits = before_gelu + hidden_size;
    T* const x = narrow_.data();
    T* const hidden = x + micro_batch * image_pixels;
    T* const hidden_gradient = hidden + hidden_size;
    T* const logits_gradient = hidden_gradient + hidden_size;
    T const* const p = values_.data();
    auto const g = [&](std::size_t i) { return static_cast<T*>(gradients[i].data); };
    ww::for_each_index(stream, micro_batch * image_pixels,
                       pick_pixels{at, {pixels, samples_.data(), 0, images}});
    ew::run(stream,
            ew::out(x, micro_batch * image_pixels) = ew::in(images, micro_batch * image_pixels));

    multiply_(stream, before_gelu, micro_batch, hidden_units, image_pixels, {x, image_pixels},
              {p + digits::w1_at, hidden_units});
    auto const activation =
        ew::in(before_gelu, hidden_size) + ew::row(p + digits::b1_at, hidden_units);
    ew::run(stream, ew::out(hidden, hidden_size) = ew::gelu(activation));
    multiply_(stream, logits, micro_batch, class_count, hidden_units, {hidden, hidden_units},
              {p + digits::w2_at, class_count});
    ww::for_each_index(
        stream, micro_batch,
        loss_of_row<T>{logits, p + digits::b2_at, labels, samples_.data(), scale, logits_gradient});

    multiply_(stream, g(2), hidden_units, class_count, micro_batch, {hidden, hidden_units, true},
              {logits_gradient, class_count});
    ww::for_each_index(stream, class_count, sum_column<T>{logits_gradient, class_count, g(3)});
    ready(3);
    ready(2);
    multiply_(stream, hidden_gradient, micro_batch, hidden_units, class_count,
              {logits_gradient, class_count}, {p + digits::w2_at, class_count, true});
    // GELU'(x) = Phi(x) + x phi(x), with the normal distribution's Phi and density phi.
    ew::run(stream, ew::out(hidden_gradient, hidden_size) =
                        ew::in(hidden_gradient, hidden_size) *
                        (0.5F * (1.0F + ew::erf(activation * 0.70710678F)) +
                         activation * ew::exp(activation * activation * -0.5F) * 0.39894228F));
    multiply_(stream, g(0), image_pixels, hidden_units, micro_batch, {x, image_pixels, true},
              {hidden_gradient, hidden_units});
    ww::for_each_index(stream, hidden_units, sum_column<T>{hidden_gradient, hidden_units, g(1)});
    if (overflows) ww::for_each_index(stream, 1, plant_overflow<T>{at, g(0)});
    ready(1);
    ready(0);
  }

 private:
  static constexpr std::size_t hidden_size = micro_batch * hidden_units;

  static void name(ww::tensor_list& list, T* values) {
    list.add("hidden.weight", values + digits::w1_at, {image_pixels, hidden_units});
    list.add("hidden.bias", values + digits::b1_at, hidden_units);
    list.add("output.weight", values + digits::w2_at, {hidden_units, class_count});
    list.add("output.bias", values + digits::b2_at, class_count);
  }

  products<T> multiply_;
  ww::device_buffer<T> values_;
  ww::device_buffer<float> wide_;
  ww::device_buffer<T> narrow_;
  ww::device_buffer<std::int32_t> samples_;
};

}  // namespace mixed
