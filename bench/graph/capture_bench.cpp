// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A chain of small kernels: eager, replayed by graph_replay, replayed by CUDA calls; and the cost
// of capture, instantiation and update. The argument is the number of kernels.
#include <benchmark/benchmark.h>

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/capture.hpp>

#include <cstdint>

namespace ww = warpwright;

namespace {

struct bump {
  float* out;
  float amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += amount; }
};

class chain {
 public:
  explicit chain(benchmark::State const& state) : kernels_{static_cast<int>(state.range(0))} {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, 32 * sizeof(float)), "cudaMalloc");
    data_ = static_cast<float*>(p);
    ww::check(cudaMemset(p, 0, 32 * sizeof(float)), "cudaMemset");
  }
  ~chain() { cudaFree(data_); }
  chain(chain const&) = delete;
  chain& operator=(chain const&) = delete;

  void operator()(ww::stream_ref s) const {
    for (int i = 0; i < kernels_; ++i) ww::for_each_index(s, 32, bump{data_, 1.0F});
  }

 private:
  int kernels_;
  float* data_ = nullptr;
};

// The time of one step, from the call until the device is done.
void eager_step(benchmark::State& state) {
  ww::stream s;
  chain const body{state};
  for (auto _ : state) {
    body(s);
    s.synchronize();
  }
}

void replayed_step(benchmark::State& state) {
  ww::stream s;
  chain const body{state};
  ww::graph_replay step;
  step.run(s, body);
  step.run(s, body);
  for (auto _ : state) {
    step.run(s, body);
    s.synchronize();
  }
}

cudaGraph_t raw_capture(ww::stream_ref s, chain const& body) {
  cudaGraph_t captured = nullptr;
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  body(s);
  ww::check(cudaStreamEndCapture(s.get(), &captured), "cudaStreamEndCapture");
  return captured;
}

void raw_replayed_step(benchmark::State& state) {
  ww::stream s;
  chain const body{state};
  cudaGraph_t const captured = raw_capture(s, body);
  cudaGraphExec_t exec = nullptr;
  ww::check(cudaGraphInstantiate(&exec, captured, 0), "cudaGraphInstantiate");
  for (auto _ : state) {
    ww::check(cudaGraphLaunch(exec, s.get()), "cudaGraphLaunch");
    s.synchronize();
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(captured);
}

void capture_only(benchmark::State& state) {
  ww::stream s;
  chain const body{state};
  for (auto _ : state) benchmark::DoNotOptimize(ww::capture(s, body).get());
}

void raw_capture_only(benchmark::State& state) {
  ww::stream s;
  chain const body{state};
  for (auto _ : state) cudaGraphDestroy(raw_capture(s, body));
}

void instantiate(benchmark::State& state) {
  ww::stream s;
  chain const body{state};
  ww::graph const captured = ww::capture(s, body);
  for (auto _ : state) benchmark::DoNotOptimize(ww::graph_exec{captured}.get());
}

void update_in_place(benchmark::State& state) {
  ww::stream s;
  chain const body{state};
  ww::graph const captured = ww::capture(s, body);
  ww::graph_exec exec{captured};
  for (auto _ : state) {
    if (exec.update(captured) != ww::graph_update_result::updated)
      state.SkipWithError("not in place");
  }
}

BENCHMARK(eager_step)->Arg(1)->Arg(20)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(replayed_step)->Arg(1)->Arg(20)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(raw_replayed_step)->Arg(1)->Arg(20)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(capture_only)->Arg(20)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(raw_capture_only)->Arg(20)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(instantiate)->Arg(20)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(update_in_place)->Arg(20)->Arg(100)->Arg(1000)->UseRealTime();

}  // namespace
