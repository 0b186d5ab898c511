// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks a gradient in one pass: its norm, its largest element and the number of elements that are
// not finite; then the mean of each row of a matrix. The results are bitwise reproducible.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/memory.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

int run() {
  constexpr std::size_t rows = 300;
  constexpr std::size_t cols = 1000;
  constexpr std::size_t n = rows * cols;
  ww::stream stream;
  ww::memory_pool pool{ww::device_id{0}};
  ww::device_buffer<float> gradient{pool, stream, n};
  ww::device_buffer<float> means{pool, stream, rows};
  ew::run(stream, ew::out(gradient.data(), n) = ew::cast<float>(ew::index() % 7) - 3);

  auto const g = ew::in(static_cast<float const*>(gradient.data()), n);
  auto const state =  // one kernel, its workspace from the pool, three results on the host
      ew::reduce(stream, pool, n, ew::norm(g), ew::max(ew::abs(g)), ew::count_nonfinite(g));
  std::printf("norm %g, largest %g, %llu not finite\n", static_cast<double>(state.get<0>()),
              static_cast<double>(state.get<1>()), static_cast<unsigned long long>(state.get<2>()));

  ew::reduce_rows(stream, {rows, cols}, ew::to(means.data()) = ew::mean(g));
  std::vector<float> host(rows);
  ww::check(cudaMemcpyAsync(host.data(), means.data(), rows * sizeof(float), cudaMemcpyDeviceToHost,
                            stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();

  double squares = 0;
  double worst = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t i = r * cols; i < (r + 1) * cols; ++i) {
      double const v = static_cast<double>(i % 7) - 3;
      sum += v;
      squares += v * v;
    }
    worst = std::fmax(worst, std::fabs(static_cast<double>(host[r]) - sum / cols));
  }
  double const norm = std::sqrt(squares);
  bool const right = std::fabs(static_cast<double>(state.get<0>()) - norm) <= 1e-6 * norm &&
                     state.get<1>() == 3 && state.get<2>() == 0 && worst <= 1e-6;
  return right ? 0 : 1;
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
