// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>

#include <atomic>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::device_array;

namespace {

struct add {
  int* out;
  int amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += amount; }
};

struct multiply {
  int* out;
  int factor;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] *= factor; }
};

void nothing(void*) {}

void wait_for_flag(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("node_counts() counts each kind of node") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  std::vector<int> host(64);
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 64, add{x.data(), 1});
    ww::for_each_index(c, 64, add{x.data(), 2});
    ww::check(cudaMemsetAsync(x.data(), 0, 64, c), "cudaMemsetAsync");
    ww::check(cudaMemcpyAsync(x.data(), x.data() + 32, 64, cudaMemcpyDeviceToDevice, c),
              "cudaMemcpyAsync");
    ww::check(cudaLaunchHostFunc(c, &nothing, nullptr), "cudaLaunchHostFunc");
    void* p = nullptr;
    ww::check(cudaMallocAsync(&p, 1024, c), "cudaMallocAsync");
    ww::check(cudaFreeAsync(p, c), "cudaFreeAsync");
  });
  ww::graph_node_counts const counts = captured.node_counts();
  CHECK(counts.kernels == 2);
  CHECK(counts.fills == 1);
  CHECK(counts.copies == 1);
  CHECK(counts.host_calls == 1);
  CHECK(counts.allocations == 1);
  CHECK(counts.deallocations == 1);
  CHECK(counts.events == 0);
  CHECK(counts.child_graphs == 0);
  CHECK(counts.other == 0);
  CHECK(counts.total() == 7);
}

TEST_CASE("an empty capture is an empty graph that can be launched") {
  ww::stream s;
  ww::graph const captured = ww::capture(s, [](ww::stream_ref) {});
  CHECK(captured.node_counts().total() == 0);
  ww::graph_exec exec{captured};
  exec.launch(s);
  s.synchronize();
}

TEST_CASE("an executable graph outlives its graph, and a launch outlives its executable graph") {
  ww::stream s;
  device_array<int> x{std::vector<int>(1000, 0)};
  std::atomic<bool> release{false};
  {
    ww::graph_exec exec = [&] {
      ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
        ww::for_each_index(c, 1000, add{x.data(), 3});
      });
      return ww::graph_exec{captured};
    }();
    exec.upload(s);
    REQUIRE(cudaLaunchHostFunc(s.get(), &wait_for_flag, &release) == cudaSuccess);
    exec.launch(s);
    exec.launch(s);
  }  // destroyed while both launches wait for the host function
  release = true;
  CHECK(x.fetch(s)[999] == 6);
}

TEST_CASE("an update replaces pointers and scalars in place") {
  ww::stream s;
  device_array<int> x{std::vector<int>(100, 0)};
  device_array<int> y{std::vector<int>(100, 0)};
  auto const body = [&](int* out, int amount) {
    return ww::capture(s, [&](ww::stream_ref c) { ww::for_each_index(c, 100, add{out, amount}); });
  };
  ww::graph_exec exec{body(x.data(), 1)};
  exec.launch(s);
  cudaGraphExec_t const before = exec.get();
  CHECK(exec.update(body(y.data(), 10)) == ww::graph_update_result::updated);
  CHECK(exec.get() == before);
  exec.launch(s);
  CHECK(x.fetch(s)[99] == 1);
  CHECK(y.fetch(s)[99] == 10);
}

TEST_CASE("an update that CUDA cannot do in place instantiates again") {
  ww::stream s;
  device_array<int> x{std::vector<int>(100, 1)};
  ww::graph_exec exec{ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 100, add{x.data(), 1});
  })};
  ww::graph const longer = ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 100, add{x.data(), 1});
    ww::for_each_index(c, 100, multiply{x.data(), 5});
  });
  CHECK(exec.update(longer) == ww::graph_update_result::reinstantiated);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  exec.launch(s);
  CHECK(x.fetch(s)[99] == 10);
}

TEST_CASE("an update does not change earlier launches") {
  ww::stream s;
  device_array<int> x{std::vector<int>(100, 0)};
  auto const body = [&](int amount) {
    return ww::capture(s, [&](ww::stream_ref c) {
      ww::for_each_index(c, 100, add{x.data(), amount});
    });
  };
  std::atomic<bool> release{false};
  ww::graph_exec exec{body(1)};
  REQUIRE(cudaLaunchHostFunc(s.get(), &wait_for_flag, &release) == cudaSuccess);
  exec.launch(s);
  CHECK(exec.update(body(100)) == ww::graph_update_result::updated);
  exec.launch(s);
  release = true;
  CHECK(x.fetch(s)[0] == 101);
}

TEST_CASE("launching an empty executable graph is an error") {
  ww::stream s;
  ww::graph_exec exec;
  CHECK_THROWS_AS(exec.launch(s), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("failing graph calls throw, name the call, keep the executable graph and leak nothing") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  {
    ww::stream s;
    device_array<int> x{std::vector<int>(100, 0)};
    auto const body = [&] {
      return ww::capture(s, [&](ww::stream_ref c) {
        ww::for_each_index(c, 100, add{x.data(), 1});
      });
    };
    ww::graph const captured = body();
    ww::graph const longer = ww::capture(s, [&](ww::stream_ref c) {
      ww::for_each_index(c, 100, add{x.data(), 1});
      ww::for_each_index(c, 100, add{x.data(), 1});
    });
    ww::graph_exec exec{captured};
    auto const failing = [&](char const* call, auto&& use) {
      CAPTURE(call);
      wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call, 1, cudaErrorUnknown)};
      CHECK_THROWS_WITH(use(), contains(call));
      CHECK(plan.hits() == 1);
      CHECK(cudaPeekAtLastError() == cudaSuccess);
    };
    failing("cudaGraphInstantiate", [&] { ww::graph_exec{captured}; });
    failing("cudaGraphLaunch", [&] { exec.launch(s); });
    failing("cudaGraphUpload", [&] { exec.upload(s); });
    failing("cudaGraphExecUpdate", [&] { exec.update(captured); });
    failing("cudaGraphInstantiate", [&] { exec.update(longer); });
    failing("cudaGraphGetNodes", [&] { static_cast<void>(captured.node_counts()); });
    failing("cudaGraphNodeGetType", [&] { static_cast<void>(captured.node_counts()); });
    exec.launch(s);
    CHECK(x.fetch(s)[0] == 1);
  }
  CHECK(wt::stats().graphs == 0);
  CHECK(wt::stats().graph_execs == 0);
}
#endif
