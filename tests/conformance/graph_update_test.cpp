// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Updates of an executable graph by another graph: results, and reasons of failures.
#include "conformance.hpp"

using namespace conformance;

namespace {

// Captures the work that `record` enqueues on a stream.
template <class Record>
cudaGraph_t captured(Record const& record) {
  stream const s;
  REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  record(static_cast<cudaStream_t>(s));
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
  return graph;
}

// Owns the graph that it is made from.
class exec : public executable {
 public:
  explicit exec(cudaGraph_t graph) : executable{graph} {
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
};

// Tries an update, then destroys the graph.
cudaGraphExecUpdateResultInfo update(exec const& target, cudaGraph_t graph, cudaError_t expected) {
  cudaGraphExecUpdateResultInfo info = {};
  RETURNS(cudaGraphExecUpdate(target, graph, &info), expected);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  return info;
}

}  // namespace

TEST_CASE("an update replaces parameters") {
  device_memory<float> const x(256), y(256);
  exec const e(captured([&](cudaStream_t s) {
    launch(s, 256, fill_with{x.data(), 1.0F});
    REQUIRE(cudaMemcpyAsync(y.data(), x.data(), 512, cudaMemcpyDeviceToDevice, s) == cudaSuccess);
  }));
  e.run();
  CHECK(x.fetch()[200] == 1.0F);
  auto const info = update(e, captured([&](cudaStream_t s) {
                             launch(s, 256, fill_with{x.data(), 5.0F});
                             REQUIRE(cudaMemcpyAsync(y.data(), x.data(), 1024,
                                                     cudaMemcpyDeviceToDevice, s) == cudaSuccess);
                           }),
                           cudaSuccess);
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  e.run();
  CHECK(y.fetch()[255] == 5.0F);
}

TEST_CASE("a kernel may become another kernel") {
  device_memory<float> const x(256), y(256);
  exec const e(captured([&](cudaStream_t s) { launch(s, 256, fill_with{x.data(), 1.0F}); }));
  e.run();
  launch(cudaStreamPerThread, 256, fill_with{y.data(), 2.0F});
  SUCCEEDS(cudaStreamSynchronize(cudaStreamPerThread));
  update(e, captured([&](cudaStream_t s) {
           launch(s, 256, add_to{y.data(), x.data()});
         }),
         cudaSuccess);
  e.run();
  CHECK(y.fetch()[0] == 3.0F);
}

TEST_CASE("an update with a different number of nodes fails") {
  device_memory<float> const x(256);
  exec const e(captured([&](cudaStream_t s) { launch(s, 256, fill_with{x.data(), 1.0F}); }));
  auto const info = update(e, captured([&](cudaStream_t s) {
                             launch(s, 256, fill_with{x.data(), 2.0F});
                             launch(s, 256, fill_with{x.data(), 3.0F});
                           }),
                           cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  CHECK(info.errorNode == nullptr);
  e.run();  // unchanged
  CHECK(x.fetch()[0] == 1.0F);
}

TEST_CASE("an update with different edges fails") {
  device_memory<float> const x(256);
  auto const make = [&](bool chained) {
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
    cudaMemsetParams p = {};
    p.dst = x.data();
    p.elementSize = 4;
    p.width = 16;
    p.height = 1;
    cudaGraphNode_t a = nullptr, b = nullptr;
    REQUIRE(cudaGraphAddMemsetNode(&a, graph, nullptr, 0, &p) == cudaSuccess);
    p.dst = x.data() + 64;
    REQUIRE(cudaGraphAddMemsetNode(&b, graph, chained ? &a : nullptr, chained ? 1 : 0, &p) ==
            cudaSuccess);
    return graph;
  };
  exec const e(make(true));
  auto const info = update(e, make(false), cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  update(e, make(true), cudaSuccess);
}

TEST_CASE("an update with a node of another type fails") {
  device_memory<float> const x(256);
  exec const e(captured([&](cudaStream_t s) { launch(s, 256, fill_with{x.data(), 1.0F}); }));
  cudaGraph_t graph = captured(
      [&](cudaStream_t s) { REQUIRE(cudaMemsetAsync(x.data(), 0, 16, s) == cudaSuccess); });
  cudaGraphNode_t node = nullptr;
  std::size_t count = 1;
  REQUIRE(cudaGraphGetNodes(graph, &node, &count) == cudaSuccess);
  auto const info = update(e, graph, cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorNodeTypeChanged);
  CHECK(info.errorNode == node);
}

TEST_CASE("an update with a copy in another direction fails") {
  device_memory<float> const x(256);
  pinned_memory<float> const host(256);
  exec const e(captured([&](cudaStream_t s) {
    REQUIRE(cudaMemcpyAsync(x.data(), host.data(), 64, cudaMemcpyHostToDevice, s) == cudaSuccess);
  }));
  auto const info = update(e, captured([&](cudaStream_t s) {
                             REQUIRE(cudaMemcpyAsync(host.data(), x.data(), 64,
                                                     cudaMemcpyDeviceToHost, s) == cudaSuccess);
                           }),
                           cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorParametersChanged);
}

TEST_CASE("an update does not affect queued launches") {
  gate closed;
  stream const s;
  device_memory<float> const x(256);
  exec const e(captured([&](cudaStream_t t) { launch(t, 256, fill_with{x.data(), 1.0F}); }));
  SUCCEEDS(closed.block(s));
  SUCCEEDS(cudaGraphLaunch(e, s));
  update(e, captured([&](cudaStream_t t) {
           launch(t, 256, fill_with{x.data(), 2.0F});
         }),
         cudaSuccess);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(x.fetch()[0] == 1.0F);
  e.run();
  CHECK(x.fetch()[0] == 2.0F);
}

TEST_CASE("an update without a result pointer fails") {
  device_memory<float> const x(256);
  exec const e(captured([&](cudaStream_t s) { launch(s, 256, fill_with{x.data(), 1.0F}); }));
  cudaGraphExecUpdateResultInfo info = {};
  RETURNS(cudaGraphExecUpdate(e, nullptr, &info), cudaErrorInvalidValue);
}
