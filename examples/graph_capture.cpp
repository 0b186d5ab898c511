// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A loop of many small kernels, captured once and replayed with one call per step. Note that the
// body is ordinary stream code, that the first step runs it eagerly, and that a changed pointer
// needs recapture().
#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>

#include <cmath>
#include <cstdio>
#include <exception>

namespace ww = warpwright;

namespace {

// One explicit step of heat conduction in a rod of n cells with cold ends.
struct heat_step {
  float* next;
  float const* now;
  std::uint64_t n;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float const left = i > 0 ? now[i - 1] : 0.0F;
    float const right = i + 1 < n ? now[i + 1] : 0.0F;
    next[i] = now[i] + 0.25F * (left - 2.0F * now[i] + right);
  }
};

struct heat_start {
  float* out;
  std::uint64_t n;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = i == n / 2 ? 1.0F : 0.0F;
  }
};

int run() {
  constexpr std::uint64_t n = 1001;
  constexpr int kernels_a_step = 20;
  constexpr int steps = 50;

  ww::stream stream;
  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, 2 * n * sizeof(float)), "cudaMalloc");
  auto* const a = static_cast<float*>(memory);
  float* const b = a + n;
  ww::for_each_index(stream, n, heat_start{a, n});

  ww::graph_replay step;
  for (int i = 0; i < steps; ++i) {
    step.run(stream, [&](ww::stream_ref s) {
      for (int k = 0; k < kernels_a_step; k += 2) {
        ww::for_each_index(s, n, heat_step{b, a, n});
        ww::for_each_index(s, n, heat_step{a, b, n});
      }
    });
  }

  float middle = 0.0F;
  ww::check(cudaMemcpyAsync(&middle, a + n / 2, sizeof middle, cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync");
  stream.synchronize();
  ww::check(cudaFree(memory), "cudaFree");

  // The heat spreads as a Gaussian, whose variance grows by 0.5 per kernel, while it is far from
  // the ends.
  double const variance = 0.5 * kernels_a_step * steps;
  double const expected = 1.0 / std::sqrt(2.0 * 3.14159265358979 * variance);
  auto const counts = step.statistics();
  std::printf("middle of the rod: %.6f, theory %.6f\n", static_cast<double>(middle), expected);
  std::printf(
      "%d steps of %zu kernels: %llu eager, %llu captured, %llu replayed with one call each\n",
      steps, step.node_counts().kernels, static_cast<unsigned long long>(counts.eager_runs),
      static_cast<unsigned long long>(counts.captures),
      static_cast<unsigned long long>(counts.launches));
  return std::abs(static_cast<double>(middle) - expected) < 1e-4 ? 0 : 1;
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
