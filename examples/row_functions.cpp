// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Two kernels of a transformer: the residual sum, stored and normalised for the next layer, and the
// softmax of masked, scaled attention scores. Each reads and writes every matrix once.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/memory.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

std::vector<float> fetch(ww::stream& stream, float const* from, std::size_t count) {
  std::vector<float> host(count);
  ww::check(cudaMemcpyAsync(host.data(), from, count * sizeof(float), cudaMemcpyDeviceToHost,
                            stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();
  return host;
}

int run() {
  constexpr std::size_t rows = 96;
  constexpr std::size_t cols = 1024;
  constexpr std::size_t n = rows * cols;
  ww::stream stream;
  ww::memory_pool pool{ww::device_id{0}};
  ww::device_buffer<float> x{pool, stream, n}, h{pool, stream, n}, y{pool, stream, n};
  ww::device_buffer<float> gamma{pool, stream, cols}, mask{pool, stream, cols};
  ew::run(stream, ew::out(x.data(), n) = ew::cast<float>(ew::index() % 11) - 5);
  ew::run(stream, ew::out(h.data(), n) = ew::cast<float>(ew::index() % 7) - 3);
  ew::run(stream, ew::out(gamma.data(), cols) = 1 + 0.001F * ew::cast<float>(ew::index()));
  ew::run(stream, ew::out(mask.data(), cols) = ew::where(ew::index() < 900, 0.0F, -INFINITY));

  auto const in = [](ww::device_buffer<float>& b, std::size_t count) {
    return ew::in(static_cast<float const*>(b.data()), count);
  };
  auto const row = [](ww::device_buffer<float>& b) {
    return ew::row(static_cast<float const*>(b.data()), cols);
  };
  auto const norm = ew::rms_norm(in(x, n) + in(h, n), 1e-6);
  ew::run_rows(stream, {rows, cols}, ew::out(h.data(), n) = norm.input(),  // h += x, in place
               ew::out(y.data(), n) = norm * row(gamma));
  std::vector<float> const normed = fetch(stream, y.data(), n);
  std::vector<float> const sum = fetch(stream, h.data(), n);

  ew::run_rows(stream, {rows, cols},
               ew::out(y.data(), n) = ew::softmax(in(y, n) * 0.125F + row(mask)));
  std::vector<float> const probability = fetch(stream, y.data(), n);

  double worst = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    double squares = 0;
    double total = 0;
    double of_row = 0;
    for (std::size_t i = r * cols; i < (r + 1) * cols; ++i) {
      double const v = static_cast<double>(i % 11) + static_cast<double>(i % 7) - 8;
      if (static_cast<double>(sum[i]) != v) return 1;
      squares += v * v;
      if (i % cols < 900) total += std::exp(static_cast<double>(normed[i]) * 0.125);
      of_row += static_cast<double>(probability[i]);
    }
    double const scale = 1 / std::sqrt(squares / cols + 1e-6);
    for (std::size_t i = r * cols; i < (r + 1) * cols; ++i) {
      double const want =
          static_cast<double>(sum[i]) * scale * (1 + 0.001 * static_cast<double>(i % cols));
      double const p =
          i % cols < 900 ? std::exp(static_cast<double>(normed[i]) * 0.125) / total : 0;
      worst = std::fmax(worst, std::fabs(static_cast<double>(normed[i]) - want));
      worst = std::fmax(worst, std::fabs(static_cast<double>(probability[i]) - p));
    }
    worst = std::fmax(worst, std::fabs(of_row - 1));
  }
  std::printf("%zu rows of %zu: farthest from the formula by %.1e\n", rows, cols, worst);
  return worst <= 1e-5 ? 0 : 1;
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
