// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Dropout in a training step that is captured once and replayed: forward and backward generate the
// same mask without storing it, and every replay generates a new one. The same source runs on a GPU
// (nvcc) and on the host runtime (g++).
#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>

#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

template <class T>
T* device_array(std::size_t size) {
  void* p = nullptr;
  ww::check(cudaMalloc(&p, size * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(p);
}

int run() {
  constexpr std::size_t n = 100000;
  constexpr double p = 0.25;
  constexpr int steps = 5;
  auto* const x = device_array<float>(n);
  auto* const y = device_array<float>(n);
  auto* const dy = device_array<float>(n);
  auto* const dx = device_array<float>(n);
  auto* const step_number = device_array<std::uint64_t>(1);
  ww::stream stream;
  ew::run(stream, ew::out(x, n) = ew::index() % 7 + 1);
  ew::run(stream, ew::out(dy, n) = -0.5F);
  ww::check(cudaMemsetAsync(step_number, 0, sizeof *step_number, stream.get()), "cudaMemsetAsync");

  ew::philox const rng{2026, step_number};  // the kernels read the offset when they run
  ww::graph_replay step;
  std::vector<float> host_y(n), host_dx(n), before(n);
  std::size_t wrong = 0;
  for (int k = 0; k < steps; ++k) {
    step.run(stream, [&](ww::stream_ref s) {
      ew::run(s, ew::out(y, n) = ew::dropout(ew::in(x, n), p, rng));
      ew::run(s, ew::out(dx, n) = ew::dropout(ew::in(dy, n), p, rng));
      ew::advance(s, step_number);
    });
    stream.synchronize();
    ww::check(cudaMemcpy(host_y.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    ww::check(cudaMemcpy(host_dx.data(), dx, n * sizeof(float), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    std::size_t kept = 0, changed = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if ((host_y[i] == 0) != (host_dx[i] == 0)) ++wrong;  // the gradient has the same mask
      kept += host_y[i] != 0;
      changed += (host_y[i] == 0) != (before[i] == 0);
    }
    std::printf("step %d: %zu of %zu kept, %zu unlike the step before\n", k, kept, n, changed);
    if (kept < n * 7 / 10 || kept > n * 8 / 10 || changed < n / 4) ++wrong;
    before.swap(host_y);
  }
  for (float* array : {x, y, dy, dx}) ww::check(cudaFree(array), "cudaFree");
  ww::check(cudaFree(step_number), "cudaFree");
  return wrong == 0 ? 0 : 1;
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
