// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A step of AdamW for 200 tensors of 100 M parameters in bfloat16 with float copies: unscaled,
// checked, clipped by the norm, with the loss scale. The average of float parameters; gradients in
// bfloat16 added to their mean. Beside them a copy of as many bytes as AdamW moves.
// bench/train/torch_optimizers.py times PyTorch's on the same sizes.
#include <warpwright/core/device.hpp>
#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/train/gradients.hpp>
#include <warpwright/train/optimizers.hpp>

#include <benchmark/benchmark.h>
#include <cuda_bf16.h>

#include <cstddef>
#include <string>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

#if defined(__CUDACC__)
constexpr std::size_t parameters = 100000000;
#else
constexpr std::size_t parameters = 1000000;
#endif

// One of 30 %, 29 of 1.8 % or so, 60 of 0.3 %, 100 of 0.001 % and 10 of one element.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> s{parameters * 3 / 10};
  for (std::size_t k = 0; k < 60; ++k) s.push_back(parameters * 3 / 1000 + k);
  for (std::size_t k = 0; k < 100; ++k) s.push_back(parameters / 100000 + k);
  for (std::size_t k = 0; k < 10; ++k) s.push_back(1);
  std::size_t rest = parameters;
  for (std::size_t const size : s) rest -= size;
  for (std::size_t k = 29; k != 0; --k) {
    s.push_back(rest / k);
    rest -= s.back();
  }
  return s;
}

/// Arrays of all tensors, each at a boundary of 256 bytes.
template <class T>
struct arrays {
  arrays(ww::memory_pool& pool, ww::stream_ref stream) {
    std::size_t all = 0;
    for (std::size_t const n : sizes()) all += (n + 127) / 128 * 128;
    memory = ww::device_buffer<T>{pool, stream, all};
    ew::run(stream, ew::out(memory.data(), all) =
                        ew::cast<T>(ew::cast<float>(ew::index() % 1000) * 1e-3F - 0.5F));
    std::size_t at = 0;
    for (std::size_t const n : sizes()) {
      list.add("tensor" + std::to_string(list.size()), memory.data() + at, n);
      at += (n + 127) / 128 * 128;
    }
  }
  ww::device_buffer<T> memory;
  ww::tensor_list list;
};

template <class F>
void time_steps(benchmark::State& state, ww::stream const& stream, double bytes, F const& step) {
  ww::timed_event begin;
  ww::timed_event end;
  for (int i = 0; i < 3; ++i) step();
  for (auto _ : state) {
    begin.record(stream);
    for (int i = 0; i < 10; ++i) step();
    end.record(stream);
    end.synchronize();
    state.SetIterationTime(1e-3 * static_cast<double>(end.milliseconds_since(begin)) / 10.0);
  }
  state.counters["GB/s"] = benchmark::Counter(
      bytes * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

template <class P, class G>
void adamw(benchmark::State& state) {
  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  arrays<P> const p{pool, stream};
  arrays<G> const g{pool, stream};
  ww::loss_scaler scaler{pool, stream, ww::loss_scaler_options{}.interval(1000000)};
  ww::adamw optimizer{pool, stream, p.list, ww::adamw_options{}.decay(0.1F).clip(1.0F)};
  ww::graph_replay graph;
  constexpr double masters = sizeof(P) == 2 ? 8.0 : 0.0;
  double const bytes =
      static_cast<double>(parameters) *
      (16.0 + masters + (sizeof(P) == 2 ? 1.0 : 2.0) * sizeof(P) + 2.0 * sizeof(G));
  bool const captured = state.range(0) != 0;
  time_steps(state, stream, bytes, [&] {
    auto const step = [&](ww::stream_ref s) { optimizer.step(s, g.list, scaler); };
    captured ? graph.run(stream, step) : step(stream);
  });
}

void ema(benchmark::State& state) {
  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  arrays<float> const p{pool, stream};
  ww::ema average{pool, stream, p.list, 0.999F};
  time_steps(state, stream, 12.0 * static_cast<double>(parameters),
             [&] { average.update(stream); });
}

void accumulate(benchmark::State& state) {
  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  arrays<__nv_bfloat16> const g{pool, stream};
  ww::gradient_accumulator sum{pool, stream, g.list};
  time_steps(state, stream, 10.0 * static_cast<double>(parameters),
             [&] { sum.add(stream, g.list, 64.0); });
}

void copy(benchmark::State& state) {
  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  std::size_t const n = parameters * 14;
  ww::device_buffer<unsigned char> const from{pool, stream, n};
  ww::device_buffer<unsigned char> const to{pool, stream, n};
  time_steps(state, stream, 2.0 * static_cast<double>(n), [&] {
    ww::check(cudaMemcpyAsync(to.data(), from.data(), n, cudaMemcpyDeviceToDevice, stream.get()),
              "cudaMemcpyAsync");
  });
}

}  // namespace

BENCHMARK_TEMPLATE(adamw, __nv_bfloat16, __nv_bfloat16)
    ->ArgName("captured")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime();
BENCHMARK_TEMPLATE(adamw, __nv_bfloat16, float)->ArgName("captured")->Arg(0)->UseManualTime();
BENCHMARK_TEMPLATE(adamw, float, float)->ArgName("captured")->Arg(0)->UseManualTime();
BENCHMARK(ema)->UseManualTime();
BENCHMARK(accumulate)->UseManualTime();
BENCHMARK(copy)->UseManualTime();
