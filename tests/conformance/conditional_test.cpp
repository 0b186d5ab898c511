// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Conditional nodes: what they run, how their bodies are captured, and what is refused.
#include <warpwright/core/detail/launch/set_condition.hpp>

#include "conformance.hpp"

using namespace conformance;

namespace {

// Counts, and sets the condition while the count is below a limit.
struct count_up_to {
  cudaGraphConditionalHandle handle;
  unsigned* count;
  unsigned limit;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    ++*count;
    ww::detail::set_condition(handle, *count < limit ? 1U : 0U);
  }
};

struct set_to {
  cudaGraphConditionalHandle handle;
  unsigned const* value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    ww::detail::set_condition(handle, *value);
  }
};

struct add_one {
  unsigned* to;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { ++*to; }
};

cudaGraphConditionalHandle new_handle(cudaGraph_t graph, unsigned value, unsigned flags) {
  cudaGraphConditionalHandle handle = 0;
  REQUIRE(cudaGraphConditionalHandleCreate(&handle, graph, value, flags) == cudaSuccess);
  return handle;
}

cudaGraphNodeParams conditional(cudaGraphConditionalHandle handle,
                                cudaGraphConditionalNodeType type, unsigned size = 1) {
  cudaGraphNodeParams p = {};
  p.type = cudaGraphNodeTypeConditional;
  p.conditional.handle = handle;
  p.conditional.type = type;
  p.conditional.size = size;
  return p;
}

// Captures the work that `record` enqueues into a graph.
template <class Record>
void capture_into(cudaGraph_t graph, Record const& record) {
  stream const s;
  REQUIRE(cudaStreamBeginCaptureToGraph(s, graph, nullptr, nullptr, 0,
                                        cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  record(static_cast<cudaStream_t>(s));
  cudaGraph_t same = nullptr;
  REQUIRE(cudaStreamEndCapture(s, &same) == cudaSuccess);
  CHECK(same == graph);
}

// Adds a node without dependencies and captures its bodies.
template <class... Record>
cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNodeParams p, Record const&... record) {
  cudaGraphNode_t node = nullptr;
  REQUIRE(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &p) == cudaSuccess);
  unsigned body = 0;
  (capture_into(p.conditional.phGraph_out[body++], record), ...);
  return node;
}

}  // namespace

TEST_CASE("a WHILE node repeats its body while the condition is not zero") {
  device_memory<unsigned> const count(1);
  REQUIRE(cudaMemset(count.data(), 0, 4) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  graph const g;
  cudaGraphConditionalHandle const handle = new_handle(g, 1, cudaGraphCondAssignDefault);
  cudaGraphNode_t const node =
      add(g, conditional(handle, cudaGraphCondTypeWhile), [&](cudaStream_t s) {
        launch(s, 1, count_up_to{handle, count.data(), 10});
      });
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  SUCCEEDS(cudaGraphNodeGetType(node, &type));
  CHECK(type == cudaGraphNodeTypeConditional);
  executable const e(g);
  e.run();
  CHECK(count.fetch()[0] == 10);
  e.run();  // begins with the default value again
  CHECK(count.fetch()[0] == 11);
}

TEST_CASE("an IF node runs its first or second body once") {
  device_memory<unsigned> const data(3);  // condition, then, else
  REQUIRE(cudaMemset(data.data(), 0, 12) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  graph const g;
  cudaGraphConditionalHandle const handle = new_handle(g, 0, 0);
  cudaGraphNode_t before = nullptr;
  {
    stream const s;
    REQUIRE(cudaStreamBeginCaptureToGraph(s, g, nullptr, nullptr, 0,
                                          cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    launch(s, 1, set_to{handle, data.data()});
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t capturing = nullptr;
    cudaGraphNode_t const* tail = nullptr;
    std::size_t nodes = 0;
    REQUIRE(cudaStreamGetCaptureInfo(s, &status, nullptr, &capturing, &tail, nullptr, &nodes) ==
            cudaSuccess);
    CHECK(capturing == g);
    REQUIRE(nodes == 1);
    cudaGraphNodeParams p = conditional(handle, cudaGraphCondTypeIf, 2);
    REQUIRE(cudaGraphAddNode(&before, g, tail, nullptr, nodes, &p) == cudaSuccess);
    REQUIRE(cudaStreamUpdateCaptureDependencies(s, &before, nullptr, 1,
                                                cudaStreamSetCaptureDependencies) == cudaSuccess);
    capture_into(p.conditional.phGraph_out[0],
                 [&](cudaStream_t b) { launch(b, 1, add_one{data.data() + 1}); });
    capture_into(p.conditional.phGraph_out[1],
                 [&](cudaStream_t b) { launch(b, 1, add_one{data.data() + 2}); });
    cudaGraph_t same = nullptr;
    REQUIRE(cudaStreamEndCapture(s, &same) == cudaSuccess);
  }
  executable const e(g);
  e.run();
  CHECK(data.fetch()[1] == 0);
  CHECK(data.fetch()[2] == 1);
  unsigned const yes = 7;
  REQUIRE(cudaMemcpy(data.data(), &yes, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  e.run();
  CHECK(data.fetch()[1] == 1);
  CHECK(data.fetch()[2] == 1);
}

TEST_CASE("a SWITCH node runs the body of its value") {
  device_memory<unsigned> const data(3);
  for (unsigned value = 0; value < 4; ++value) {
    REQUIRE(cudaMemset(data.data(), 0, 12) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    graph const g;
    cudaGraphConditionalHandle const handle = new_handle(g, value, cudaGraphCondAssignDefault);
    auto const body = [&](unsigned i) {
      return [&data, i](cudaStream_t s) { launch(s, 1, add_one{data.data() + i}); };
    };
    add(g, conditional(handle, cudaGraphCondTypeSwitch, 3), body(0), body(1), body(2));
    executable(g).run();
    std::vector<unsigned> const ran = data.fetch();
    for (unsigned i = 0; i < 3; ++i) CHECK(ran[i] == (i == value ? 1U : 0U));
  }
}

TEST_CASE("a loop in a loop") {
  device_memory<unsigned> const counts(2);  // outer, inner
  REQUIRE(cudaMemset(counts.data(), 0, 8) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  graph const g;
  cudaGraphConditionalHandle const outer = new_handle(g, 1, cudaGraphCondAssignDefault);
  cudaGraphNodeParams p = conditional(outer, cudaGraphCondTypeWhile);
  cudaGraphNode_t node = nullptr, inner_node = nullptr, reset = nullptr;
  SUCCEEDS(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &p));
  cudaGraph_t const body = p.conditional.phGraph_out[0];
  cudaGraphConditionalHandle const inner = new_handle(body, 1, 0);
  cudaMemsetParams const zero = words(counts.data() + 1, 0, 1);
  SUCCEEDS(cudaGraphAddMemsetNode(&reset, body, nullptr, 0, &zero));
  stream const s;
  SUCCEEDS(
      cudaStreamBeginCaptureToGraph(s, body, &reset, nullptr, 1, cudaStreamCaptureModeThreadLocal));
  launch(s, 1, count_up_to{outer, counts.data(), 3});
  launch(s, 1, count_up_to{inner, counts.data() + 1, 5});  // sets the inner condition
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraphNode_t const* tail = nullptr;
  std::size_t nodes = 0;
  SUCCEEDS(cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &tail, nullptr, &nodes));
  cudaGraphNodeParams q = conditional(inner, cudaGraphCondTypeWhile);
  SUCCEEDS(cudaGraphAddNode(&inner_node, body, tail, nullptr, nodes, &q));
  SUCCEEDS(cudaStreamUpdateCaptureDependencies(s, &inner_node, nullptr, 1,
                                               cudaStreamSetCaptureDependencies));
  capture_into(q.conditional.phGraph_out[0], [&](cudaStream_t b) {
    launch(b, 1, count_up_to{inner, counts.data() + 1, 5});
  });
  cudaGraph_t same = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &same));
  executable(g).run();
  CHECK(counts.fetch()[0] == 3);
  CHECK(counts.fetch()[1] == 5);
}

TEST_CASE("handles and nodes that CUDA refuses") {
  graph const g, other;
  cudaGraphConditionalHandle handle = 0;
  RETURNS(cudaGraphConditionalHandleCreate(nullptr, g, 0, 0), cudaErrorInvalidValue);
  RETURNS(cudaGraphConditionalHandleCreate(&handle, g, 0, 2), cudaErrorInvalidValue);
  SUCCEEDS(cudaGraphConditionalHandleCreate(&handle, g, 0, cudaGraphCondAssignDefault));
  cudaGraphNode_t node = nullptr;
  RETURNS(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, nullptr), cudaErrorInvalidValue);
  cudaGraphNodeParams p = conditional(handle, cudaGraphCondTypeWhile, 2);
  FAILS(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &p));  // WHILE has one body
  p = conditional(handle, cudaGraphCondTypeIf, 3);
  FAILS(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &p));
  p = conditional(handle, cudaGraphCondTypeIf, 1);
  FAILS(cudaGraphAddNode(&node, other, nullptr, nullptr, 0, &p));  // another graph's handle
  p = conditional(handle, cudaGraphCondTypeIf, 1);
  SUCCEEDS(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &p));
}

TEST_CASE("a graph with a conditional node is not cloned, not a child, and instantiated once") {
  graph const g, parent;
  add(g, conditional(new_handle(g, 0, cudaGraphCondAssignDefault), cudaGraphCondTypeIf));
  cudaGraph_t copy = nullptr;
  FAILS(cudaGraphClone(&copy, g));
  cudaGraphNode_t child = nullptr;
  FAILS(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, g));
  cudaGraphExec_t second = nullptr;
  {
    executable const first(g);
    first.run();
    FAILS(cudaGraphInstantiate(&second, g, 0));
  }
  executable(g).run();
}

TEST_CASE("a body cannot have host functions") {
  graph const g;
  cudaGraphNodeParams p =
      conditional(new_handle(g, 1, cudaGraphCondAssignDefault), cudaGraphCondTypeIf);
  cudaGraphNode_t node = nullptr, host = nullptr;
  REQUIRE(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &p) == cudaSuccess);
  cudaHostNodeParams const call = {[](void*) {}, nullptr};
  cudaError_t const added =
      cudaGraphAddHostNode(&host, p.conditional.phGraph_out[0], nullptr, 0, &call);
  cudaGraphExec_t exec = nullptr;
  cudaError_t const instantiated = cudaGraphInstantiate(&exec, g, 0);
  CHECK((added != cudaSuccess || instantiated != cudaSuccess));
  cudaGetLastError();
}

TEST_CASE("an executable is updated by a graph with another handle and another body") {
  device_memory<unsigned> const counts(2);
  REQUIRE(cudaMemset(counts.data(), 0, 8) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  auto const build = [&](cudaGraph_t g, unsigned* count, unsigned limit) {
    cudaGraphConditionalHandle const handle = new_handle(g, 1, cudaGraphCondAssignDefault);
    add(g, conditional(handle, cudaGraphCondTypeWhile), [&](cudaStream_t s) {
      launch(s, 1, count_up_to{handle, count, limit});
    });
  };
  graph const first, second;
  build(first, counts.data(), 4);
  build(second, counts.data() + 1, 6);
  executable const e(first);
  e.run();
  cudaGraphExecUpdateResultInfo info = {};
  SUCCEEDS(cudaGraphExecUpdate(e, second, &info));
  e.run();
  CHECK(counts.fetch()[0] == 4);
  CHECK(counts.fetch()[1] == 6);
}

TEST_CASE("nodes of other types through cudaGraphAddNode") {
  device_memory<unsigned> const memory(16), copied(16);
  graph const g;
  cudaGraphNode_t nodes[3] = {};
  cudaGraphNodeParams p = {};
  p.type = cudaGraphNodeTypeMemset;
  p.memset.dst = memory.data();
  p.memset.value = 9;
  p.memset.elementSize = 4;
  p.memset.width = 16;
  p.memset.height = 1;
  SUCCEEDS(cudaGraphAddNode(&nodes[0], g, nullptr, nullptr, 0, &p));
  p = {};
  p.type = cudaGraphNodeTypeEmpty;
  SUCCEEDS(cudaGraphAddNode(&nodes[1], g, nodes, nullptr, 1, &p));
  p = {};
  p.type = cudaGraphNodeTypeMemcpy;
  p.memcpy.copyParams.srcPtr = pitched(memory.data(), 64, 1);
  p.memcpy.copyParams.dstPtr = pitched(copied.data(), 64, 1);
  p.memcpy.copyParams.extent = {64, 1, 1};
  p.memcpy.copyParams.kind = cudaMemcpyDeviceToDevice;
  SUCCEEDS(cudaGraphAddNode(&nodes[2], g, nodes + 1, nullptr, 1, &p));
  executable(g).run();
  CHECK(copied.fetch()[15] == 9);
}

TEST_CASE("a kernel node's parameters point to the kernel's argument") {
  device_memory<float> const y(16);
  graph const g;
  capture_into(g, [&](cudaStream_t s) { launch(s, 16, fill_with{y.data(), 5.0F}); });
  cudaGraphNode_t node = nullptr;
  std::size_t count = 1;
  REQUIRE(cudaGraphGetNodes(g, &node, &count) == cudaSuccess);
  cudaKernelNodeParams p = {};
  SUCCEEDS(cudaGraphKernelNodeGetParams(node, &p));
  REQUIRE(p.kernelParams != nullptr);
  auto const* argument = static_cast<fill_with const*>(p.kernelParams[0]);
  CHECK(argument->y == y.data());
  CHECK(argument->value == 5.0F);
}
