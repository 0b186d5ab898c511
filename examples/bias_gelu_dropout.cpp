// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a network's layer, y = dropout(gelu(x + bias[column])), as one kernel, and its
// gradient as another. Neither stores a mask: both generate the same random numbers, as does the
// host, which compares every element. The same source runs on a GPU (nvcc) and on the host runtime
// (g++).
#include <cuda_fp16.h>

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/memory.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

constexpr std::size_t rows = 300;
constexpr std::size_t cols = 768;
constexpr std::size_t n = rows * cols;
constexpr double p = 0.1;

// The derivative of gelu, a custom function: Phi(v) + v phi(v).
struct gelu_slope {
  WARPWRIGHT_HOST_DEVICE float operator()(float v) const {
    return 0.5F + 0.5F * erff(v * 0.70710678F) + v * 0.39894228F * expf(-0.5F * v * v);
  }
};

template <class T>
std::vector<T> fetch(ww::stream_ref stream, ww::device_buffer<T> const& from) {
  std::vector<T> values(from.size());
  ww::check(cudaMemcpyAsync(static_cast<void*>(values.data()), from.data(),
                            values.size() * sizeof(T), cudaMemcpyDeviceToHost, stream.get()),
            "cudaMemcpyAsync");
  ww::check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  return values;
}

int run() {
  ww::stream stream;
  ww::memory_pool pool{ww::device_id{0}};
  ww::device_buffer<__half> x{pool, stream, n};
  ww::device_buffer<float> bias{pool, stream, cols};
  ww::device_buffer<__half> y{pool, stream, n};
  ww::device_buffer<__half> dy{pool, stream, n};
  ww::device_buffer<__half> dx{pool, stream, n};
  ew::philox const rng{2026, 7};  // the seed; the training step
  ew::run(stream, ew::out(x.data(), n) = 2.0F * ew::normal(rng.subsequence(1)));
  ew::run(stream, ew::out(dy.data(), n) = ew::normal(rng.subsequence(2)));
  ew::run(stream, ew::out(bias.data(), cols) = ew::normal(rng.subsequence(3)));

  auto const v =
      ew::in(x.data(), n) + ew::row(bias.data(), cols);  // half and float are computed in float
  ew::run(stream, ew::out(y.data(), n) = ew::dropout(ew::gelu(v), p, rng));
  ew::run(stream, ew::out(dx.data(), n) =
                      ew::dropout(ew::in(dy.data(), n), p, rng) * ew::map(gelu_slope{}, v));

  auto const host_x = fetch(stream, x);
  auto const host_bias = fetch(stream, bias);
  auto const host_y = fetch(stream, y);
  auto const host_dy = fetch(stream, dy);
  auto const host_dx = fetch(stream, dx);
  std::vector<unsigned char> dropped(n);
  ew::evaluate_host(ew::out(dropped.data(), n) = ew::bernoulli(rng, p));

  // The relative error is 2^-11 of rounding to half and less than 2^-17 of computing in float.
  std::size_t wrong = 0, kept = 0;
  auto const check = [&wrong](__half got, double expected) {
    double const error = std::fabs(static_cast<double>(__half2float(got)) - expected);
    if (!(error <= 0x1p-11 * std::fabs(expected) + 0x1p-17)) ++wrong;
  };
  for (std::size_t i = 0; i < n; ++i) {
    double const u =
        static_cast<double>(__half2float(host_x[i])) + static_cast<double>(host_bias[i % cols]);
    double const phi = 0.3989422804014327 * std::exp(-0.5 * u * u);
    double const Phi = 0.5 * std::erfc(-u / std::sqrt(2.0));
    double const factor = dropped[i] != 0 ? 0 : 1 / (1 - p);
    kept += dropped[i] == 0;
    check(host_y[i], factor * u * Phi);
    check(host_dx[i], factor * static_cast<double>(__half2float(host_dy[i])) * (Phi + u * phi));
  }
  std::printf("%zu elements, %zu kept, %zu wrong\n", n, kept, wrong);
  bool const plausible = kept > n * 89 / 100 && kept < n * 91 / 100;
  if (wrong != 0 || !plausible) std::fprintf(stderr, "forward or backward pass is wrong\n");
  return wrong == 0 && plausible ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
