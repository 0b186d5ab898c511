// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Prepares a batch of pictures for a network: bytes with interleaved channels
// (NHWC) become 16-bit planes (NCHW), normalised by a mean and deviation per channel. One kernel,
// which reads and writes memory along its rows on both sides. The same source runs on a GPU (nvcc)
// and on the host runtime (g++).
#include <cuda_fp16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/explain.hpp>
#include <warpwright/kernel/views.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

constexpr std::size_t pictures = 4;
constexpr std::size_t height = 120;
constexpr std::size_t width = 160;
constexpr std::size_t channels = 3;
constexpr std::size_t n = pictures * height * width * channels;

template <class T>
T* device_copy(std::vector<T> const& values) {
  void* p = nullptr;
  ww::check(cudaMalloc(&p, values.size() * sizeof(T)), "cudaMalloc");
  ww::check(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
            "cudaMemcpy");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return static_cast<T*>(p);
}

int run() {
  std::vector<unsigned char> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<unsigned char>(i * 37 % 251);
  // (x / 255 - mean) / deviation, as x * scale + shift.
  std::vector<float> const mean{0.485F, 0.456F, 0.406F};
  std::vector<float> const deviation{0.229F, 0.224F, 0.225F};
  std::vector<float> scale(channels);
  std::vector<float> shift(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    scale[c] = 1 / (255 * deviation[c]);
    shift[c] = -mean[c] / deviation[c];
  }
  auto* const x = device_copy(bytes);
  auto* const y = device_copy(std::vector<__half>(n));
  auto* const a = device_copy(scale);
  auto* const b = device_copy(shift);

  auto const each = [](float const* per_channel) {  // broadcast over pictures, rows and columns
    return ew::view(per_channel, {pictures, channels, height, width}, {0, 1, 0, 0});
  };
  auto const picture = ew::array(x, {pictures, height, width, channels});
  auto const normalised = ew::out(y, n) =
      ew::view(picture.permuted({0, 3, 1, 2})) * each(a) + each(b);
  ww::stream stream;
  ew::run(stream, normalised);
  stream.synchronize();
  std::printf("%s\n", ew::plan(normalised).explain().c_str());

  std::vector<__half> planes(n);
  ww::check(cudaMemcpy(planes.data(), y, n * sizeof(__half), cudaMemcpyDeviceToHost), "cudaMemcpy");
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const pixel = i % (height * width);
    std::size_t const c = i / (height * width) % channels;
    std::size_t const image = i / (height * width * channels);
    double const from = bytes[(image * height * width + pixel) * channels + c];
    double const expected =
        (from / 255 - static_cast<double>(mean[c])) / static_cast<double>(deviation[c]);
    worst = std::fmax(worst, std::fabs(static_cast<double>(__half2float(planes[i])) - expected));
  }
  std::printf("%zu pictures of %zu x %zu: at most %.2g from the exact values\n", pictures, width,
              height, worst);
  for (void* p : {static_cast<void*>(x), static_cast<void*>(y), static_cast<void*>(a),
                  static_cast<void*>(b)}) {
    ww::check(cudaFree(p), "cudaFree");
  }
  return worst < 1e-3 ? 0
                      : 1;  // half a unit in the last place of fp16 at 2.64, the maximum, is 2^-10
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
