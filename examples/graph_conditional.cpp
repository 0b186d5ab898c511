// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An iteration that stops by itself on the device. Before: after each step the host fetches whether
// another one is needed, and the device waits meanwhile. After: the loop is a WHILE node of a
// graph, and the whole iteration is one launch. Note that the same body serves both, and that it
// clears the condition first: a value that has not converged sets it again.
#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>
#include <warpwright/graph/conditional.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;

namespace {

// One step of Newton's method for the cube root of each number.
struct newton_step {
  double* x;
  double const* a;
  unsigned* running;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    double const change = (x[i] * x[i] * x[i] - a[i]) / (3.0 * x[i] * x[i]);
    x[i] -= change;
    double const size = change < 0.0 ? -change : change;
    if (size > 1e-13 * x[i]) *running = 1;  // the same value from every thread
  }
};

struct start {
  double* x;
  double* a;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    a[i] = 1.0 + static_cast<double>(i);
    x[i] = a[i];
  }
};

double microseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

int run() {
  constexpr std::uint64_t n = 10000;
  constexpr unsigned most = 100;

  ww::stream stream;
  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, 2 * n * sizeof(double) + 2 * sizeof(unsigned)), "cudaMalloc");
  auto* const x = static_cast<double*>(memory);
  double* const a = x + n;
  auto* const running = reinterpret_cast<unsigned*>(a + n);
  unsigned* const iterations = running + 1;

  auto const iterate = [&](ww::stream_ref s) {
    ww::for_each_index(s, n, start{x, a});
    ww::check(cudaMemsetAsync(running, 1, sizeof *running, s), "cudaMemsetAsync");
    ww::repeat_while(s, running, {iterations, most}, [&](ww::stream_ref step) {
      ww::check(cudaMemsetAsync(running, 0, sizeof *running, step), "cudaMemsetAsync");
      ww::for_each_index(step, n, newton_step{x, a, running});
    });
  };
  auto const fetch = [&](std::vector<double>& roots, unsigned& count) {
    ww::check(cudaMemcpyAsync(roots.data(), x, n * sizeof(double), cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
    ww::check(cudaMemcpyAsync(&count, iterations, sizeof count, cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
    stream.synchronize();
  };

  // Before: not captured, so the host reads the condition.
  std::vector<double> before(n), after(n);
  unsigned steps_before = 0, steps_after = 0;
  iterate(stream);  // loads the kernels
  stream.synchronize();
  auto begin = std::chrono::steady_clock::now();
  iterate(stream);
  stream.synchronize();
  double const time_before = microseconds_since(begin);
  fetch(before, steps_before);

  // After: one launch.
  ww::graph_exec solver{ww::capture(stream, [&](ww::stream_ref s) { iterate(s); })};
  solver.launch(stream);
  stream.synchronize();
  begin = std::chrono::steady_clock::now();
  solver.launch(stream);
  stream.synchronize();
  double const time_after = microseconds_since(begin);
  fetch(after, steps_after);
  ww::check(cudaFree(memory), "cudaFree");

  double worst = 0.0;
  for (std::uint64_t i = 0; i < n; ++i) {
    double const exact = std::cbrt(1.0 + static_cast<double>(i));
    worst = std::max(worst, std::abs(after[i] - exact) / exact);
  }
  std::printf("before: %u steps, each with a synchronisation: %.0f us\n", steps_before,
              time_before);
  std::printf("after:  %u steps in one graph launch: %.0f us\n", steps_after, time_after);
  std::printf("largest relative error of %llu cube roots: %.1e\n",
              static_cast<unsigned long long>(n), worst);
  bool const right = worst < 1e-14 && before == after && steps_before == steps_after &&
                     steps_after > 5 && steps_after < most;
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
