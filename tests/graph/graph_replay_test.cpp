// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A replay whose arguments change.
#include "graph/mistake_support.hpp"

#include <cstring>
#include <string>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

TEST_CASE("a changed pointer or number is captured again, in place") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  device_array<int> y{std::vector<int>(8, 0)};
  ww::graph_replay step{1};
  int calls = 0;
  auto const body = [&](ww::stream_ref c, int* out, int amount) {
    ++calls;
    ww::for_each_index(c, 8, add_to{out, amount});
  };
  step.run(s, body, x.data(), 1);  // warm-up
  step.run(s, body, x.data(), 1);  // captures
  step.run(s, body, x.data(), 1);
  CHECK(calls == 2);
  step.run(s, body, y.data(), 1);
  step.run(s, body, y.data(), 10);
  step.run(s, body, y.data(), 10);
  CHECK(calls == 4);
  CHECK(x.fetch(s)[7] == 3);
  CHECK(y.fetch(s)[7] == 21);
  ww::graph_replay::counts const counts = step.statistics();
  CHECK(counts.captures == 3);
  CHECK(counts.updates == 2);
  CHECK(counts.instantiations == 1);
  CHECK(counts.launches == 5);
}

TEST_CASE("the arguments of a warm-up do not bind") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::graph_replay step{2};
  auto const body = [&](ww::stream_ref c, int amount) {
    ww::for_each_index(c, 8, add_to{x.data(), amount});
  };
  for (int amount = 1; amount <= 4; ++amount) step.run(s, body, amount);
  CHECK(x.fetch(s)[7] == 10);
  CHECK(step.statistics().captures == 2);
}

TEST_CASE("arguments are compared by their bytes") {
  ww::stream s;
  ww::graph_replay step{0};
  struct shape {
    unsigned short rows, cols;
  };
  int calls = 0;
  auto const body = [&](ww::stream_ref, double, shape, char) { ++calls; };
  step.run(s, body, 0.0, shape{1, 2}, 'a');
  step.run(s, body, 0.0, shape{1, 2}, 'a');
  CHECK(calls == 1);
  step.run(s, body, -0.0, shape{1, 2}, 'a');
  CHECK(calls == 2);
  step.run(s, body, -0.0, shape{1, 3}, 'a');
  CHECK(calls == 3);
  step.run(s, body, -0.0, shape{1, 3}, 'b');
  step.run(s, body, -0.0, shape{1, 3}, 'b');
  CHECK(calls == 4);
}

TEST_CASE("a structure's padding is no change of it") {
  if (!WARPWRIGHT_CLEARS_PADDING) return;  // this compiler cannot
  struct padded {
    char a;
    double b;
  };
  ww::stream s;
  ww::graph_replay step{0};
  int calls = 0;
  auto const body = [&](ww::stream_ref, padded const&) { ++calls; };
  for (int const garbage : {0x00, 0x5A, 0xFF}) {
    alignas(padded) unsigned char bytes[sizeof(padded)];
    std::memset(bytes, garbage, sizeof bytes);
    auto& argument = reinterpret_cast<padded&>(bytes);
    argument.a = 1;
    argument.b = 2;
    step.run(s, body, argument);
  }
  CHECK(calls == 1);
}

TEST_CASE("a body with arguments may take the scope, and be called with a stream_ref") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph_replay step{1};
  auto const body = [&](ww::capture_scope& scope, int amount) {
    scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
      ww::for_each_index(branch, 32, add_to{x.data() + 32 * i, amount});
    });
  };
  for (int i = 1; i <= 3; ++i) step.run(s.ref(), body, i);
  CHECK(x.fetch(s)[63] == 6);
}

TEST_CASE("after a failed capture the arguments of the last graph do not bind") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::graph_replay step{0};
  auto const body = [&](ww::stream_ref c, int amount) {
    if (amount == 2) throw 2;
    ww::for_each_index(c, 8, add_to{x.data(), amount});
  };
  step.run(s, body, 1);
  CHECK_THROWS_AS(step.run(s, body, 2), int);
  CHECK(x.fetch(s)[0] == 1);
  step.run(s, body, 1);
  step.run(s, body, 3);
  CHECK(x.fetch(s)[0] == 5);
}

TEST_CASE("a recapture by hand, and reset(), make the next arguments count") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::graph_replay step{0};
  auto const body = [&](ww::stream_ref c, int amount) {
    ww::for_each_index(c, 8, add_to{x.data(), amount});
  };
  step.run(s, body, 1);
  step.recapture(s, [&](ww::stream_ref c) { body(c, 100); });
  step.run(s, body, 1);
  CHECK(x.fetch(s)[0] == 2);
  step.reset();
  CHECK_FALSE(step.captured());
  CHECK(step.captured_graph().get() == nullptr);
  CHECK(step.node_counts().total() == 0);
  step.run(s, body, 1);
  CHECK(x.fetch(s)[0] == 3);
}

TEST_CASE("what was captured before the warm-ups were done is replayed") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::graph_replay step{2};
  auto const body = [&](ww::stream_ref c) { ww::for_each_index(c, 8, add_to{x.data(), 1}); };
  step.recapture(s, body);
  step.run(s, body);
  step.run(s, body);
  CHECK(x.fetch(s)[0] == 2);
  CHECK(step.statistics().eager_runs == 0);
  CHECK(step.statistics().captures == 1);
  CHECK(step.statistics().launches == 2);
}

TEST_CASE("the last update does not name a node, as its graph is destroyed at the next capture") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  auto const first = [&](ww::stream_ref c) { ww::for_each_index(c, 8, add_to{x.data(), 1}); };
  auto const second = [&](ww::stream_ref c) {
    ww::check(cudaMemsetAsync(x.data(), 0, 32, c), "cudaMemsetAsync");
  };
  ww::graph_exec exec{ww::capture(s, first)};
  ww::graph const changed = ww::capture(s, second);
  REQUIRE(exec.update(changed).node != nullptr);
  ww::graph_replay step{0};
  step.recapture(s, first);
  CHECK(step.recapture(s, second) == ww::graph_update_result::reinstantiated);
  CHECK(step.last_update().node == nullptr);
}

TEST_CASE("the reason why an update was not in place is kept") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::graph_replay step{0};
  auto const body = [&](ww::stream_ref c, int kernels) {
    for (int i = 0; i < kernels; ++i) ww::for_each_index(c, 8, add_to{x.data(), 1});
  };
  step.run(s, body, 1);
  step.run(s, body, 2);
  CHECK(step.last_update().result == ww::graph_update_result::reinstantiated);
  CHECK(step.last_update().reason == cudaGraphExecUpdateErrorTopologyChanged);
  CHECK(step.node_counts().kernels == 2);
  CHECK(step.captured_graph().size() == 2);
  CHECK(x.fetch(s)[0] == 3);
}

TEST_CASE("errors name the caller's line") {
  ww::graph_replay step{0};
  auto const body = [](ww::stream_ref, int) {};
  ww::stream_ref const legacy = ww::stream_ref::legacy_default();
  int const line = __LINE__ + 1;
  auto const fails = [&] { step.run(legacy, body, 1); };
  CHECK_THROWS_WITH(fails(), contains("graph_replay_test.cpp:" + std::to_string(line)));
}

TEST_CASE("a warm-up that leaves an error pending is refused: a capture could not see the error") {
  ww::stream s;
  ww::graph_replay step;
  auto const failing = [](ww::stream_ref) { static_cast<void>(cudaSetDevice(12345)); };
  CHECK_THROWS_WITH(step.run(s, failing), contains("the body of graph_replay"));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK_THROWS_AS(step.run(s, failing), ww::cuda_error);
  // Of an error that was pending before nothing is known.
  static_cast<void>(cudaSetDevice(12345));
  CHECK_NOTHROW(step.run(s, [](ww::stream_ref) {}));
  CHECK(cudaGetLastError() != cudaSuccess);
}

TEST_CASE("the flags reach the executable graph") {
  ww::stream s;
  ww::graph_replay step{0, ww::capture_mode::thread, ww::graph_flags::auto_free_on_launch};
  void* kept = nullptr;
  auto const body = [&](ww::stream_ref c) {
    ww::check(cudaMallocAsync(&kept, 4096, c), "cudaMallocAsync");
  };
  for (int i = 0; i < 3; ++i) step.run(s, body);
  ww::check(cudaFreeAsync(kept, s), "cudaFreeAsync");
  s.synchronize();
}

#if WARPWRIGHT_HOST_RUNTIME
namespace wt = ww::testing;

TEST_CASE("a recapture makes no call for each node") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  auto const calls_of = [&](int kernels) {
    ww::graph_replay step{0};
    auto const body = [&](ww::stream_ref c) {
      for (int i = 0; i < kernels; ++i) ww::for_each_index(c, 8, add_to{x.data(), 1});
    };
    step.run(s, body);
    wt::reset_call_counts();
    step.recapture(s, body);
    return wt::total_calls() - static_cast<std::uint64_t>(kernels);
  };
  CHECK(calls_of(100) == calls_of(1));
  CHECK(calls_of(1) <= 9);
}

TEST_CASE("a replay with the same arguments is one CUDA call") {
  ww::stream s;
  ww::graph_replay step{0};
  int value = 3;
  auto const body = [](ww::stream_ref, int*, int, float) {};
  step.run(s, body, &value, 4, 1.5F);
  wt::reset_call_counts();
  for (int i = 0; i < 10; ++i) step.run(s, body, &value, 4, 1.5F);
  CHECK(wt::total_calls() == 10);
}

TEST_CASE("a launch that fails after a capture leaves the new arguments bound") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::graph_replay step{0};
  auto const body = [&](ww::stream_ref c, int amount) {
    ww::for_each_index(c, 8, add_to{x.data(), amount});
  };
  step.run(s, body, 1);
  {
    wt::scoped_fault_plan const plan{wt::fault_plan{}.fail("cudaGraphLaunch", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(step.run(s, body, 10), ww::cuda_error);
  }
  step.run(s, body, 1);
  step.run(s, body, 10);
  CHECK(x.fetch(s)[0] == 12);
}
#endif
