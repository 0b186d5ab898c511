// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A loop of many small kernels, captured once and replayed with one call per step. Note that the
// body is ordinary stream code, that the first step runs it eagerly, and that what may change is
// passed to run(), which then captures again. Then a graph with branches, and what is known about a
// capture that fails.
#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>

#include <cmath>
#include <cstdio>
#include <exception>

namespace ww = warpwright;

namespace {

constexpr std::uint64_t cells = 1001;
constexpr int kernels_a_step = 20;
constexpr int steps = 50;

// One explicit step of heat conduction in a rod with cold ends.
struct heat_step {
  float* next;
  float const* now;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float const left = i > 0 ? now[i - 1] : 0.0F;
    float const right = i + 1 < cells ? now[i + 1] : 0.0F;
    next[i] = now[i] + 0.25F * (left - 2.0F * now[i] + right);
  }
};

struct heat_start {
  float* out;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = i == cells / 2 ? 1.0F : 0.0F;
  }
};

// The state of a rod, and memory for the next one.
struct rod {
  float* now;
  float* next;
};

void conduct(ww::stream_ref stream, rod const& of) {
  for (int k = 0; k < kernels_a_step; k += 2) {
    ww::for_each_index(stream, cells, heat_step{of.next, of.now});
    ww::for_each_index(stream, cells, heat_step{of.now, of.next});
  }
}

// The heat spreads as a Gaussian, whose variance grows by 0.5 per kernel, while it is far from the
// ends.
bool is_right(ww::stream_ref stream, rod const& of, char const* what) {
  float middle = 0.0F;
  ww::check(
      cudaMemcpyAsync(&middle, of.now + cells / 2, sizeof middle, cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync");
  stream.synchronize();
  double const variance = 0.5 * kernels_a_step * steps;
  double const expected = 1.0 / std::sqrt(2.0 * 3.14159265358979 * variance);
  std::printf("middle of the %s rod: %.6f, theory %.6f\n", what, static_cast<double>(middle),
              expected);
  return std::abs(static_cast<double>(middle) - expected) < 1e-4;
}

// The steps of one rod, then those of the other: the argument changes once.
bool replay(ww::stream_ref stream, rod const (&rods)[2]) {
  ww::graph_replay step;
  for (rod const& of : rods) {
    ww::for_each_index(stream, cells, heat_start{of.now});
    for (int i = 0; i < steps; ++i) step.run(stream, conduct, of);
  }
  auto const counts = step.statistics();
  std::printf(
      "%d steps of %zu kernels: %llu eager, %llu captured, of these %llu updated in place, "
      "%llu replayed with one call each\n",
      2 * steps, step.node_counts().kernels, static_cast<unsigned long long>(counts.eager_runs),
      static_cast<unsigned long long>(counts.captures),
      static_cast<unsigned long long>(counts.updates),
      static_cast<unsigned long long>(counts.launches));
  bool const first = is_right(stream, rods[0], "first");
  return is_right(stream, rods[1], "second") && first;
}

// Both rods at once, on branches that stay leased until the capture has ended.
bool branches(ww::stream_ref stream, rod const (&rods)[2]) {
  for (rod const& of : rods) ww::for_each_index(stream, cells, heat_start{of.now});
  ww::graph const both = ww::capture(stream, [&](ww::capture_scope& s) {
    s.fork(2, [&](ww::stream_ref branch, unsigned i) { conduct(branch, rods[i]); });
  });
  ww::graph_exec exec{both};
  for (int i = 0; i < steps; ++i) exec.launch(stream);
  bool const first = is_right(stream, rods[0], "first");
  return is_right(stream, rods[1], "second") && first;
}

// A body that allocates, as a library may do at its first use: the report names the call.
bool diagnose(ww::stream_ref stream, rod const& of) {
  void* scratch = nullptr;
  try {
    static_cast<void>(ww::capture(stream, [&](ww::capture_scope& s) {
      s.mark("conduction");
      conduct(s, of);
      s.mark("allocation");
      ww::check(cudaMalloc(&scratch, 1024), "cudaMalloc");
    }));
  } catch (ww::capture_error const& error) {
    std::printf("\n%s", error.report().to_text().c_str());
    return error.report().mark == "allocation";
  }
  return false;
}

int run() {
  ww::stream stream;
  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, 4 * cells * sizeof(float)), "cudaMalloc");
  auto* const data = static_cast<float*>(memory);
  rod const rods[] = {{data, data + cells}, {data + 2 * cells, data + 3 * cells}};
  bool const right = replay(stream, rods) && branches(stream, rods) && diagnose(stream, rods[0]);
  ww::check(cudaFree(memory), "cudaFree");
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
