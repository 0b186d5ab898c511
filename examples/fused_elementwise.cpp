// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A layer's bias and activation as one kernel: y = gelu(x * scale + bias[column]), without a kernel
// written by hand. The same source runs on a GPU (nvcc) and on the host
// runtime (g++).
#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/describe.hpp>
#include <warpwright/kernel/explain.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

// A custom function: any trivially copyable struct with a call operator.
struct leaky {
  float slope;
  WARPWRIGHT_HOST_DEVICE float operator()(float v) const { return v < 0.0F ? slope * v : v; }
};

float* to_device(std::vector<float> const& values) {
  void* p = nullptr;
  std::size_t const bytes = values.size() * sizeof(float);
  ww::check(cudaMalloc(&p, bytes), "cudaMalloc");
  ww::check(cudaMemcpy(p, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return static_cast<float*>(p);
}

int run() {
  constexpr std::size_t rows = 1000;
  constexpr std::size_t cols = 96;
  constexpr std::size_t n = rows * cols;
  constexpr float scale = 0.75F;
  std::vector<float> host_x(n);
  std::vector<float> host_bias(cols);
  for (std::size_t i = 0; i < n; ++i) host_x[i] = static_cast<float>(i % 61) / 10.0F - 3.0F;
  for (std::size_t c = 0; c < cols; ++c) host_bias[c] = static_cast<float>(c) / 96.0F;

  float* const x = to_device(host_x);
  float* const bias = to_device(host_bias);
  float* const y = to_device(std::vector<float>(n));
  ww::check(cudaDeviceSynchronize(),
            "cudaDeviceSynchronize");  // the stream is not ordered after the copies

  ww::stream stream;
  auto const layer = ew::out(y, n) = ew::gelu(ew::in(x, n) * scale + ew::row(bias, cols));
  std::printf("%s\n", ew::describe(layer).c_str());
  // The kernel that runs on any GPU, the reasons, and its time on a GPU that need not be installed.
  std::printf("%s\n", ew::plan(layer, ew::gpus::h100_sxm).explain().c_str());
  ew::run(stream, layer);
  ew::run(stream, ew::out(y, n) = ew::map(leaky{0.5F}, ew::in(y, n)));  // in place is legal
  stream.synchronize();

  std::vector<float> result(n);
  ww::check(cudaMemcpy(result.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (float* p : {x, bias, y}) ww::check(cudaFree(p), "cudaFree");

  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double const v = static_cast<double>(host_x[i]) * static_cast<double>(scale) +
                     static_cast<double>(host_bias[i % cols]);
    double const gelu = v * 0.5 * std::erfc(-v / std::sqrt(2.0));
    double const expected = gelu < 0 ? 0.5 * gelu : gelu;
    worst = std::fmax(worst, std::fabs(static_cast<double>(result[i]) - expected));
  }
  std::printf("%zu elements, largest error %.1e\n", n, worst);
  return worst < 1e-6 ? 0 : 1;
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
