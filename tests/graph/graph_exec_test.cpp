// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Options of executable graphs, nodes that are switched off, and why an update is refused.
#include "graph/mistake_support.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

namespace {

struct multiply_by {
  int* out;
  int factor;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] *= factor; }
};

unsigned long long flags_of(ww::graph_exec const& exec) {
  unsigned long long flags = ~0ULL;
  ww::check(cudaGraphExecGetFlags(exec.get(), &flags), "cudaGraphExecGetFlags");
  return flags;
}

}  // namespace

TEST_CASE("the flags of an instantiation are kept when an update instantiates again") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  auto const body = [&](int kernels) {
    return ww::capture(s, [&, kernels](ww::stream_ref c) {
      for (int i = 0; i < kernels; ++i) ww::for_each_index(c, 8, add_to{x.data(), 1});
    });
  };
  ww::graph_flags const flags =
      ww::graph_flags::auto_free_on_launch | ww::graph_flags::node_priority;
  // The driver does not tell of UseNodePriority.
  unsigned long long const raw = cudaGraphInstantiateFlagAutoFreeOnLaunch;
  ww::graph_exec exec{body(1), flags};
  CHECK(flags_of(exec) == raw);
  CHECK(exec.update(body(2)) == ww::graph_update_result::reinstantiated);
  CHECK(flags_of(exec) == raw);
  ww::graph_exec moved{std::move(exec)};
  CHECK(moved.update(body(3)) == ww::graph_update_result::reinstantiated);
  CHECK(flags_of(moved) == raw);
  CHECK(flags_of(ww::graph_exec{body(1)}) == 0);
}

TEST_CASE("an upload at the instantiation needs a stream") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 8, add_to{x.data(), 1});
  });
  CHECK_THROWS_WITH((ww::graph_exec{captured, ww::graph_flags::upload}),
                    contains("use graph_exec{graph, stream, flags}"));
  ww::graph_exec exec{captured, s, ww::graph_flags::upload | ww::graph_flags::auto_free_on_launch};
  CHECK(flags_of(exec) == cudaGraphInstantiateFlagAutoFreeOnLaunch);
  ww::graph_exec plain{captured, s};
  exec.launch(s);
  plain.launch(s);
  CHECK(x.fetch(s)[7] == 2);
  // An update that instantiates again does not need the stream.
  ww::graph const longer = ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 8, add_to{x.data(), 1});
    ww::for_each_index(c, 8, add_to{x.data(), 1});
  });
  CHECK(exec.update(longer) == ww::graph_update_result::reinstantiated);
}

TEST_CASE("a node can be switched off and on") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  cudaGraphNode_t optional_step = nullptr;
  cudaGraphNode_t cleared = nullptr;
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    ww::check(cudaMemsetAsync(x.data(), 0, 32, scope.stream()), "cudaMemsetAsync");
    cleared = scope.last_node();
    ww::for_each_index(scope, 8, add_to{x.data(), 1});
    ww::for_each_index(scope, 8, add_to{x.data(), 10});
    optional_step = scope.last_node();
    ww::for_each_index(scope, 8, add_to{x.data(), 100});
  });
  REQUIRE(optional_step != nullptr);
  CHECK(optional_step != cleared);
  ww::graph_exec exec{captured};
  CHECK(exec.enabled(optional_step));
  exec.launch(s);
  CHECK(x.fetch(s)[7] == 111);
  exec.enable(optional_step, false);
  CHECK_FALSE(exec.enabled(optional_step));
  exec.launch(s);
  CHECK(x.fetch(s)[7] == 101);
  exec.enable(optional_step, true);
  exec.enable(cleared, false);
  exec.launch(s);
  CHECK(x.fetch(s)[7] == 212);
}

TEST_CASE("last_node() is the node of the last work, of the stream or a branch") {
  ww::stream s;
  ww::stream other;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::capture_scope scope{s};
  CHECK_THROWS_WITH(static_cast<void>(scope.last_node()), contains("depends on 0 nodes"));
  ww::for_each_index(scope, 8, add_to{x.data(), 1});
  cudaGraphNode_t const first = scope.last_node();
  scope.fork(other);
  CHECK(scope.last_node(other) == first);
  ww::for_each_index(other, 8, add_to{x.data(), 1});
  CHECK(scope.last_node(other) != first);
  CHECK(scope.last_node() == first);
  ww::for_each_index(scope, 8, add_to{x.data(), 1});
  scope.join(other);
  CHECK_THROWS_WITH(static_cast<void>(scope.last_node()), contains("depends on 2 nodes"));
  CHECK(scope.end().size() == 3);
  CHECK(scope.last_node() == nullptr);
}

TEST_CASE("last_node() is null in a warm-up step") {
  ww::stream s;
  ww::graph_replay step;
  step.run(s, [&](ww::capture_scope& scope) {
    CHECK_FALSE(scope.capturing());
    CHECK(scope.last_node() == nullptr);
  });
}

TEST_CASE("nodes of other kinds and graphs cannot be switched off") {
  ww::stream s;
  cudaGraphNode_t host = nullptr;
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    ww::check(cudaLaunchHostFunc(
                  scope.stream(), [](void*) {}, nullptr),
              "cudaLaunchHostFunc");
    host = scope.last_node();
  });
  ww::graph_exec exec{captured};
  CHECK_THROWS_AS(exec.enable(host, false), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("an update tells why CUDA refused it, and at which kernel") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 1)};
  auto const of = [&](auto&& enqueue) { return ww::capture(s, enqueue); };
  auto const add = [&](ww::stream_ref c) { ww::for_each_index(c, 8, add_to{x.data(), 1}); };
  ww::graph_exec exec{of(add)};
  SECTION("in place") {
    ww::graph_update const same = exec.update(of(add));
    CHECK(same.result == ww::graph_update_result::updated);
    CHECK(same.reason == cudaGraphExecUpdateSuccess);
    CHECK(same.node == nullptr);
    CHECK(same.kernel.empty());
  }
  SECTION("another number of nodes") {
    ww::graph const longer = of([&](ww::stream_ref c) {
      add(c);
      add(c);
    });
    ww::graph_update const refused = exec.try_update(longer);
    CHECK(refused.result == ww::graph_update_result::refused);
    CHECK(refused.reason == cudaGraphExecUpdateErrorTopologyChanged);
    CHECK(contains_text(refused.reason_text(), "number of nodes"));
    exec.launch(s);
    CHECK(x.fetch(s)[0] == 2);  // unchanged
    CHECK(exec.update(longer).result == ww::graph_update_result::reinstantiated);
#if WARPWRIGHT_HOST_RUNTIME
    CHECK(ww::testing::stats().graph_execs == 1);  // the old one is destroyed
#endif
    exec.launch(s);
    CHECK(x.fetch(s)[0] == 4);
  }
  SECTION("a node of another type, with the kernel's name") {
    ww::graph const fill = of([&](ww::stream_ref c) {
      ww::check(cudaMemsetAsync(x.data(), 0, 32, c), "cudaMemsetAsync");
    });
    ww::graph_exec filling{fill};
    ww::graph const kernel = of(add);
    ww::graph_update const refused = filling.try_update(kernel);
    CHECK(refused.result == ww::graph_update_result::refused);
    CHECK(refused.reason == cudaGraphExecUpdateErrorNodeTypeChanged);
#if WARPWRIGHT_HOST_RUNTIME
    CHECK(refused.node != nullptr);
    CHECK(refused.kernel == "for_each_index");
#endif
  }
  SECTION("a parameter that cannot be updated") {
    std::vector<int> host(8);
    ww::graph_exec copying{of([&](ww::stream_ref c) {
      ww::check(cudaMemcpyAsync(x.data(), x.data() + 32, 32, cudaMemcpyDeviceToDevice, c),
                "cudaMemcpyAsync");
    })};
    ww::graph const other_kind = of([&](ww::stream_ref c) {
      ww::check(cudaMemcpyAsync(x.data(), host.data(), 32, cudaMemcpyHostToDevice, c),
                "cudaMemcpyAsync");
    });
    ww::graph_update const refused = copying.try_update(other_kind);
    CHECK(refused.result == ww::graph_update_result::refused);
    CHECK(refused.reason == cudaGraphExecUpdateErrorParametersChanged);
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("each reason has a text") {
  for (int reason = 0; reason <= static_cast<int>(cudaGraphExecUpdateErrorAttributesChanged) + 1;
       ++reason) {
    ww::graph_update update;
    update.reason = static_cast<cudaGraphExecUpdateResult>(reason);
    CHECK(std::string{update.reason_text()}.size() > 10);
  }
}

TEST_CASE("a graph is written in the DOT language") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 8, add_to{x.data(), 1});
    ww::for_each_index(c, 8, multiply_by{x.data(), 1});
  });
  std::string const path = "warpwright_graph_exec_test.dot";
  bool const verbose = GENERATE(false, true);
  captured.to_dot(path.c_str(), verbose);
  std::ifstream file{path};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  CHECK(contains_text(text, "digraph"));
  CHECK(contains_text(text, "->"));
  file.close();
  std::remove(path.c_str());
  CHECK_THROWS_AS(captured.to_dot("/nonexistent directory/graph.dot"), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE(
    "an executable graph with an upload is instantiated by one call, with the thread relaxed "
    "around it") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  {
    ww::stream s;
    ww::graph const captured = ww::capture(s, [](ww::stream_ref) {});
    wt::reset_call_counts();
    ww::graph_exec const exec{captured, s};
    CHECK(wt::call_count("cudaGraphInstantiateWithParams") == 1);
    CHECK(wt::call_count("cudaThreadExchangeStreamCaptureMode") == 2);
    CHECK(wt::total_calls() == 3);
    for (char const* call :
         {"cudaGraphInstantiateWithParams", "cudaGraphNodeSetEnabled", "cudaGraphNodeGetEnabled",
          "cudaGraphDebugDotPrint", "cudaStreamGetCaptureInfo"}) {
      CAPTURE(call);
      wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call, 1, cudaErrorUnknown)};
      auto const use_all = [&] {
        ww::graph_exec again{captured, s};
        ww::stream t;
        cudaGraphNode_t node = nullptr;
        ww::graph const fill = ww::capture(t, [&](ww::capture_scope& scope) {
          device_array<int> const* none = nullptr;
          static_cast<void>(none);
          ww::check(cudaLaunchHostFunc(
                        scope.stream(), [](void*) {}, nullptr),
                    "");
          node = scope.last_node();
        });
        ww::graph_exec other{fill};
        try {
          other.enable(node, true);
        } catch (ww::cuda_error const& error) {
          if (error.code() == cudaErrorUnknown) throw;
        }
        try {
          static_cast<void>(other.enabled(node));
        } catch (ww::cuda_error const& error) {
          if (error.code() == cudaErrorUnknown) throw;
        }
        fill.to_dot("/dev/null");
      };
      CHECK_THROWS_WITH(use_all(), contains(call));
      CHECK(plan.hits() == 1);
    }
  }
  CHECK(wt::stats().graphs == 0);
  CHECK(wt::stats().graph_execs == 0);
}
#endif
