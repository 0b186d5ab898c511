// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A row of short kernels and raw graphs of it, for benchmarks through interleaved.hpp.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/values.hpp"

namespace graph_bench {

namespace ww = warpwright;

struct bump {
  float* out;
  float amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += amount; }
};

inline constexpr std::uint64_t elements = 32;

/// The step that is captured: `kernels` kernels that each add 1 to an array.
inline void run_chain(ww::stream_ref s, float* data, std::int64_t kernels) {
  for (std::int64_t i = 0; i < kernels; ++i) ww::for_each_index(s, elements, bump{data, 1.0F});
}

/// As many arrays as there are sets, so that each launch can have another pointer than the last.
class chain {
 public:
  chain(ww::stream_ref s, std::int64_t kernels, std::size_t sets)
      : stream_{s}, kernels_{kernels}, sets_{sets} {
    ww::check(cudaMalloc(&memory_, bytes_of_all()), "cudaMalloc");
    clear();
  }
  ~chain() { ww::detail::discard(cudaFree(memory_)); }
  chain(chain const&) = delete;
  chain& operator=(chain const&) = delete;

  [[nodiscard]] std::size_t sets() const { return sets_; }
  [[nodiscard]] static std::size_t bytes() { return 0; }  // what the kernels move does not matter
  [[nodiscard]] std::int64_t kernels() const { return kernels_; }
  [[nodiscard]] ww::stream_ref stream() const { return stream_; }
  [[nodiscard]] float* data(std::size_t set) const {
    return static_cast<float*>(memory_) + set * elements;
  }
  void operator()(ww::stream_ref s, std::size_t set) const { run_chain(s, data(set), kernels_); }

  /// @return whether set 0 has had exactly one pass since the last clear(), which it makes
  [[nodiscard]] bool one_pass() const {
    ww::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    std::vector<float> const found = bench_support::fetch(data(0), elements);
    clear();
    return std::all_of(found.begin(), found.end(),
                       [&](float x) { return x == static_cast<float>(kernels_); });
  }
  void clear() const {
    ww::check(cudaMemsetAsync(memory_, 0, bytes_of_all(), stream_.get()), "cudaMemsetAsync");
    ww::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }

 private:
  [[nodiscard]] std::size_t bytes_of_all() const { return sets_ * elements * sizeof(float); }

  ww::stream_ref stream_;
  std::int64_t kernels_;
  std::size_t sets_;
  void* memory_ = nullptr;
};

/// The calls that a graph takes without the library.
inline cudaGraph_t raw_capture(chain const& of, std::size_t set) {
  cudaGraph_t captured = nullptr;
  ww::check(cudaStreamBeginCapture(of.stream().get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  of(of.stream(), set);
  ww::check(cudaStreamEndCapture(of.stream().get(), &captured), "cudaStreamEndCapture");
  return captured;
}

inline cudaGraphExec_t raw_instantiate(cudaGraph_t of) {
  cudaGraphExec_t made = nullptr;
  ww::check(cudaGraphInstantiate(&made, of, 0), "cudaGraphInstantiate");
  return made;
}

inline void raw_update(cudaGraphExec_t changed, cudaGraph_t to) {
  cudaGraphExecUpdateResultInfo result{};
  ww::check(cudaGraphExecUpdate(changed, to, &result), "cudaGraphExecUpdate");
}

/// A chain with a captured graph of each set, and an executable of set 0.
class raw_graphs : public chain {
 public:
  raw_graphs(ww::stream_ref s, std::int64_t kernels, std::size_t sets) : chain{s, kernels, sets} {
    for (std::size_t set = 0; set < sets; ++set) graphs_.push_back(raw_capture(*this, set));
    exec_ = raw_instantiate(graphs_[0]);
  }
  ~raw_graphs() {
    ww::detail::discard(cudaGraphExecDestroy(exec_));
    for (cudaGraph_t const each : graphs_) ww::detail::discard(cudaGraphDestroy(each));
  }
  raw_graphs(raw_graphs const&) = delete;
  raw_graphs& operator=(raw_graphs const&) = delete;

  [[nodiscard]] cudaGraph_t graph(std::size_t set) const { return graphs_[set]; }
  [[nodiscard]] cudaGraphExec_t exec() const { return exec_; }
  void launch(ww::stream_ref s) const {
    ww::check(cudaGraphLaunch(exec_, s.get()), "cudaGraphLaunch");
  }

 private:
  std::vector<cudaGraph_t> graphs_;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace graph_bench
