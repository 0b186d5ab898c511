// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// AdamW for all tensors of a network in one kernel: 16-bit gradients are unscaled, clipped by
// their global norm, and a step with an infinity is skipped, all without the host. The steps
// are captured once and replayed. Checked against fp64. The same source runs on a GPU (nvcc) and on
// the host runtime (g++).
#include <cuda_bf16.h>

#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/memory.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

constexpr double loss_scale = 1024;
constexpr std::size_t sizes[] = {64 * 27, 64, 64, 1, 64 * 576, 64, 100 * 577, 100, 0, 1001};
constexpr float infinity = std::numeric_limits<float>::infinity();

// The values that change from step to step, in device memory, where a replay reads them.
struct training_state {
  float step;
  float loss_scale;
  float gradient_norm;  // of the scaled gradients
};

template <class T>
struct settings {
  T rate = T(0.01);
  T first_weight = T(0.1);     // 1 - beta1
  T second_weight = T(0.001);  // 1 - beta2
  T decay = T(0.1);
  T epsilon = T(1e-8);
  T most_norm = T(1);
};

// I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.
struct adamw {
  training_state const* state;
  settings<float> with;
  float gradient_factor, step_size, correction;  // from prepare()

  WARPWRIGHT_HOST_DEVICE bool prepare() {
    float const norm = state->gradient_norm / state->loss_scale;
    if (!(norm < infinity)) return false;  // infinity or NaN: this step is skipped
    gradient_factor = (norm > with.most_norm ? with.most_norm / norm : 1.0F) / state->loss_scale;
    // 1 - beta^step without cancellation
    step_size = with.rate / -::expm1f(state->step * ::log1pf(-with.first_weight));
    correction = 1.0F / -::expm1f(state->step * ::log1pf(-with.second_weight));
    return true;
  }
  WARPWRIGHT_HOST_DEVICE void operator()(float& p, float& copy, float& m, float& v, float g) const {
    g *= gradient_factor;
    m += with.first_weight * (g - m);
    v += with.second_weight * (g * g - v);
    p -= with.rate * with.decay * p + step_size * m / (::sqrtf(v * correction) + with.epsilon);
    copy = p;
  }
};

// The reference in fp64: the loop that the kernel replaces.
struct reference {
  std::vector<double> p, m, v;
  int steps = 0;
  settings<double> with;

  void step(std::vector<__nv_bfloat16> const& gradients) {
    double squares = 0;
    for (auto g : gradients) squares += std::pow(static_cast<double>(__bfloat162float(g)), 2);
    double const norm = std::sqrt(squares) / loss_scale;
    if (!std::isfinite(norm)) return;
    double const factor = (norm > with.most_norm ? with.most_norm / norm : 1) / loss_scale;
    ++steps;
    for (std::size_t i = 0; i < p.size(); ++i) {
      double const g = factor * static_cast<double>(__bfloat162float(gradients[i]));
      m[i] += with.first_weight * (g - m[i]);
      v[i] += with.second_weight * (g * g - v[i]);
      double const first = m[i] / (1 - std::pow(1 - with.first_weight, steps));
      double const second = v[i] / (1 - std::pow(1 - with.second_weight, steps));
      p[i] -=
          with.rate * with.decay * p[i] + with.rate * first / (std::sqrt(second) + with.epsilon);
    }
  }
};

template <class T>
void upload(ww::stream const& stream, T* to, std::vector<T> const& values) {
  ww::check(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                            stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();
}

int run() {
  std::size_t n = 0;
  for (std::size_t size : sizes) n += size;
  ww::stream stream;
  ww::memory_pool pool{ww::device_id{0}};
  ww::device_buffer<float> parameters{pool, stream, n}, first{pool, stream, n},
      second{pool, stream, n};
  ww::device_buffer<__nv_bfloat16> copies{pool, stream, n}, gradients{pool, stream, n};
  ww::device_buffer<training_state> state{pool, stream, 1};
  ww::device_buffer<unsigned char> memory{pool, stream, ew::global_norm_workspace_bytes};
  auto const workspace = ew::prepare_workspace(stream, memory.data(), memory.size());
  reference exact{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n), 0, {}};
  std::vector<float> start(n);
  for (std::size_t i = 0; i < n; ++i) {
    start[i] = static_cast<float>(i % 97) / 97;
    exact.p[i] = static_cast<double>(start[i]);
  }
  upload(stream, parameters.data(), start);
  upload(stream, first.data(), std::vector<float>(n));
  upload(stream, second.data(), std::vector<float>(n));
  upload(stream, state.data(), {training_state{0, static_cast<float>(loss_scale), 0}});

  // Built once; the tensors are consecutive in memory, at any alignment.
  ew::tensor_list<float, ew::write_only<__nv_bfloat16>, float, float, __nv_bfloat16 const> tensors;
  ew::tensor_list<__nv_bfloat16 const> all_gradients;
  std::size_t at = 0;
  for (std::size_t size : sizes) {
    tensors.add(parameters.data() + at, copies.data() + at, first.data() + at, second.data() + at,
                gradients.data() + at, size);
    all_gradients.add(gradients.data() + at, size);
    at += size;
  }

  ww::graph_replay update;
  std::vector<__nv_bfloat16> host_gradients(n);
  for (int k = 0; k < 8; ++k) {
    for (std::size_t i = 0; i < n; ++i) {
      double const g = std::sin(static_cast<double>(i * 7 + static_cast<std::size_t>(k)));
      host_gradients[i] = __float2bfloat16(static_cast<float>(g * loss_scale * (k < 4 ? 1 : 1e-3)));
    }
    if (k == 2) host_gradients[n / 2] = __float2bfloat16(infinity);
    upload(stream, gradients.data(), host_gradients);
    update.run(stream, [&](ww::stream_ref s) {
      float* const step = &state.data()->step;
      auto const norm = ew::device_scalar<float>(&state.data()->gradient_norm);
      ew::global_norm(s, workspace, all_gradients, &state.data()->gradient_norm);
      ew::run(s, ew::out(step, 1) += ew::where(norm < infinity, 1, 0));
      ew::run_each(s, tensors, adamw{state.data(), {}, 0, 0, 0});
    });
    exact.step(host_gradients);
  }

  std::vector<float> result(n);
  std::vector<__nv_bfloat16> rounded(n);
  ww::check(cudaMemcpyAsync(result.data(), parameters.data(), n * sizeof(float),
                            cudaMemcpyDeviceToHost, stream.get()),
            "cudaMemcpyAsync");
  ww::check(cudaMemcpyAsync(rounded.data(), copies.data(), n * sizeof(__nv_bfloat16),
                            cudaMemcpyDeviceToHost, stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();
  double worst = 0;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    worst = std::fmax(worst, std::fabs(static_cast<double>(result[i]) - exact.p[i]));
    wrong += __bfloat162float(rounded[i]) != __bfloat162float(__float2bfloat16(result[i]));
  }
  std::printf("%zu tensors, %zu parameters: %d steps in place, %d skipped; error at most %.2g\n",
              tensors.size(), n, exact.steps, 8 - exact.steps, worst);
  return exact.steps == 7 && wrong == 0 && worst <= 1e-6 ? 0 : 1;
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
