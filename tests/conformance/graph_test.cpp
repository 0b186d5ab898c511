// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Explicitly constructed graphs: structure and launches.
#include <cstdio>

#include "conformance.hpp"

using namespace conformance;

namespace {

void run(cudaGraph_t g) {
  stream const s;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, g, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
}

void CUDART_CB count(void* raw) { static_cast<std::atomic<int>*>(raw)->fetch_add(1); }

}  // namespace

TEST_CASE("a graph runs in the order of its edges") {
  graph const g;
  device_memory<unsigned> const memory(256);
  pinned_memory<unsigned> const host(256);
  cudaGraphNode_t set = nullptr, copy = nullptr, call = nullptr;
  std::atomic<int> calls{0};
  cudaMemsetParams const fives = words(memory.data(), 5, 256);
  SUCCEEDS(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &fives));
  SUCCEEDS(cudaGraphAddMemcpyNode1D(&copy, g, &set, 1, host.data(), memory.data(), memory.bytes(),
                                    cudaMemcpyDeviceToHost));
  cudaHostNodeParams const host_call = {count, &calls};
  SUCCEEDS(cudaGraphAddHostNode(&call, g, &copy, 1, &host_call));
  run(g);
  CHECK(calls.load() == 1);
  CHECK(host.data()[255] == 5);
}

TEST_CASE("queries of a graph's structure") {
  graph const g;
  cudaGraphNode_t a = nullptr, b = nullptr, c = nullptr;
  SUCCEEDS(cudaGraphAddEmptyNode(&a, g, nullptr, 0));
  SUCCEEDS(cudaGraphAddEmptyNode(&b, g, nullptr, 0));
  SUCCEEDS(cudaGraphAddEmptyNode(&c, g, &a, 1));
  SUCCEEDS(cudaGraphAddDependencies(g, &b, &c, nullptr, 1));
  std::size_t n = 0;
  SUCCEEDS(cudaGraphGetNodes(g, nullptr, &n));
  CHECK(n == 3);
  SUCCEEDS(cudaGraphGetRootNodes(g, nullptr, &n));
  CHECK(n == 2);
  SUCCEEDS(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &n));
  CHECK(n == 2);
  cudaGraphNode_t before[4] = {a, a, a, a};
  n = 4;
  SUCCEEDS(cudaGraphNodeGetDependencies(c, before, nullptr, &n));
  CHECK(n == 2);
  CHECK(before[2] == nullptr);
  SUCCEEDS(cudaGraphNodeGetDependentNodes(a, nullptr, nullptr, &n));
  CHECK(n == 1);
  SUCCEEDS(cudaGraphRemoveDependencies(g, &b, &c, nullptr, 1));
  SUCCEEDS(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &n));
  CHECK(n == 1);
  SUCCEEDS(cudaGraphDestroyNode(a));
  SUCCEEDS(cudaGraphGetNodes(g, nullptr, &n));
  CHECK(n == 2);
  SUCCEEDS(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &n));
  CHECK(n == 0);
}

TEST_CASE("invalid edges and nodes") {
  graph const g, other;
  cudaGraphNode_t a = nullptr, b = nullptr, foreign = nullptr;
  SUCCEEDS(cudaGraphAddEmptyNode(&a, g, nullptr, 0));
  SUCCEEDS(cudaGraphAddEmptyNode(&b, g, &a, 1));
  SUCCEEDS(cudaGraphAddEmptyNode(&foreign, other, nullptr, 0));
  cudaGraphNode_t made = nullptr;
  RETURNS(cudaGraphAddEmptyNode(&made, g, &foreign, 1), cudaErrorInvalidValue);
  RETURNS(cudaGraphAddDependencies(g, &a, &b, nullptr, 1),
          cudaErrorInvalidValue);  // exists already
  RETURNS(cudaGraphAddEmptyNode(nullptr, g, nullptr, 0), cudaErrorInvalidValue);
  RETURNS(cudaGraphAddEmptyNode(&made, nullptr, nullptr, 0), cudaErrorInvalidValue);
  RETURNS(cudaGraphCreate(nullptr, 0), cudaErrorInvalidValue);
}

TEST_CASE("a graph with a cycle cannot be instantiated") {
  graph const g;
  cudaGraphNode_t a = nullptr, b = nullptr;
  SUCCEEDS(cudaGraphAddEmptyNode(&a, g, nullptr, 0));
  SUCCEEDS(cudaGraphAddEmptyNode(&b, g, &a, 1));
  SUCCEEDS(cudaGraphAddDependencies(g, &b, &a, nullptr, 1));
  cudaGraphExec_t exec = nullptr;
  RETURNS(cudaGraphInstantiate(&exec, g, 0), cudaErrorInvalidValue);
  cudaGraphInstantiateParams parameters = {};
  RETURNS(cudaGraphInstantiateWithParams(&exec, g, &parameters), cudaErrorInvalidValue);
  CHECK(parameters.result_out == cudaGraphInstantiateInvalidStructure);
}

TEST_CASE("a clone is independent of its source") {
  device_memory<unsigned> const memory(16);
  cudaGraph_t g = nullptr, twin = nullptr;
  SUCCEEDS(cudaGraphCreate(&g, 0));
  cudaGraphNode_t a = nullptr, b = nullptr, found = nullptr;
  cudaMemsetParams const sevens = words(memory.data(), 7, 16);
  SUCCEEDS(cudaGraphAddEmptyNode(&a, g, nullptr, 0));
  SUCCEEDS(cudaGraphAddMemsetNode(&b, g, &a, 1, &sevens));
  SUCCEEDS(cudaGraphClone(&twin, g));
  SUCCEEDS(cudaGraphNodeFindInClone(&found, b, twin));
  CHECK(found != b);
  SUCCEEDS(cudaGraphDestroy(g));
  std::size_t n = 0;
  SUCCEEDS(cudaGraphGetEdges(twin, nullptr, nullptr, nullptr, &n));
  CHECK(n == 1);
  run(twin);
  CHECK(memory.fetch()[15] == 7);
  SUCCEEDS(cudaGraphDestroy(twin));
}

TEST_CASE("a child graph runs inside its parent") {
  graph const g;
  device_memory<unsigned> const memory(16);
  cudaGraph_t child = nullptr;
  SUCCEEDS(cudaGraphCreate(&child, 0));
  cudaGraphNode_t inside = nullptr, node = nullptr, after = nullptr;
  cudaMemsetParams const threes = words(memory.data(), 3, 16);
  cudaMemsetParams const fours = words(memory.data(), 4, 8);
  SUCCEEDS(cudaGraphAddMemsetNode(&inside, child, nullptr, 0, &threes));
  SUCCEEDS(cudaGraphAddChildGraphNode(&node, g, nullptr, 0, child));
  SUCCEEDS(cudaGraphAddMemsetNode(&after, g, &node, 1, &fours));
  SUCCEEDS(cudaGraphDestroy(child));  // the node has its own copy
  cudaGraph_t held = nullptr;
  SUCCEEDS(cudaGraphChildGraphNodeGetGraph(node, &held));
  CHECK(held != nullptr);
  run(g);
  std::vector<unsigned> const values = memory.fetch();
  CHECK(values[0] == 4);
  CHECK(values[15] == 3);
}

TEST_CASE("queries of node parameters") {
  graph const g;
  device_memory<unsigned> const memory(16);
  pinned_memory<unsigned> const host(16);
  cudaGraphNode_t set = nullptr, copy = nullptr, call = nullptr;
  cudaMemsetParams const nines = words(memory.data(), 9, 16);
  SUCCEEDS(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &nines));
  SUCCEEDS(cudaGraphAddMemcpyNode1D(&copy, g, nullptr, 0, memory.data(), host.data(), 64,
                                    cudaMemcpyHostToDevice));
  std::atomic<int> calls{0};
  cudaHostNodeParams const host_call = {count, &calls};
  SUCCEEDS(cudaGraphAddHostNode(&call, g, nullptr, 0, &host_call));
  cudaMemsetParams set_back = {};
  SUCCEEDS(cudaGraphMemsetNodeGetParams(set, &set_back));
  CHECK(set_back.dst == memory.data());
  CHECK(set_back.value == 9);
  CHECK(set_back.width == 16);
  cudaMemcpy3DParms copy_back = {};
  SUCCEEDS(cudaGraphMemcpyNodeGetParams(copy, &copy_back));
  CHECK(copy_back.dstPtr.ptr == memory.data());
  CHECK(copy_back.extent.width == 64);
  cudaHostNodeParams call_back = {};
  SUCCEEDS(cudaGraphHostNodeGetParams(call, &call_back));
  CHECK(call_back.userData == &calls);
  RETURNS(cudaGraphMemsetNodeGetParams(copy, &set_back), cudaErrorInvalidValue);
}

TEST_CASE("queries of kernel nodes") {
  stream const s;
  device_memory<float> const y(16), z(16);
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  launch(s, 16, fill_with{y.data(), 1.0F});
  launch(s, 16, fill_with{z.data(), 2.0F});
  launch(s, 16, add_to{y.data(), z.data()});
  cudaGraph_t g = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &g));
  cudaGraphNode_t nodes[3] = {};
  std::size_t n = 3;
  SUCCEEDS(cudaGraphGetNodes(g, nodes, &n));
  REQUIRE(n == 3);
  cudaKernelNodeParams p[3] = {};
  for (int i = 0; i < 3; ++i) SUCCEEDS(cudaGraphKernelNodeGetParams(nodes[i], &p[i]));
  CHECK(p[0].func != nullptr);
  CHECK(p[0].func == p[1].func);
  CHECK(p[0].func != p[2].func);
#if CUDART_VERSION >= 12040
  std::size_t offset = 1;
  std::size_t bytes = 0;
  SUCCEEDS(cudaFuncGetParamInfo(p[0].func, 0, &offset, &bytes));
  CHECK(offset == 0);
  CHECK(bytes > 0);
  REQUIRE(p[0].kernelParams != nullptr);
  CHECK(p[0].kernelParams[0] != nullptr);
  CHECK(p[0].kernelParams[0] != p[1].kernelParams[0]);  // each node has its own arguments
  RETURNS(cudaFuncGetParamInfo(p[0].func, 100, &offset, &bytes), cudaErrorInvalidValue);
#endif
  SUCCEEDS(cudaGraphDestroy(g));
}

TEST_CASE("launches of one executable graph do not overlap") {
  stream const a, b;
  device_memory<float> const y(1 << 14);
  launch(a, 1 << 14, fill_with{y.data(), 0.0F});
  SUCCEEDS(cudaStreamSynchronize(a));
  SUCCEEDS(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
  launch(a, 1 << 14, scale_and_add{y.data(), 1.0F});
  cudaGraph_t g = nullptr;
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaStreamEndCapture(a, &g));
  SUCCEEDS(cudaGraphInstantiate(&exec, g, 0));
  for (int i = 0; i < 50; ++i) {
    REQUIRE(cudaGraphLaunch(exec, a) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(exec, b) == cudaSuccess);
  }
  SUCCEEDS(cudaStreamSynchronize(a));
  SUCCEEDS(cudaStreamSynchronize(b));
  CHECK(y.fetch()[100] == 100.0F * 100.0F);
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(g));
}

TEST_CASE("an executable graph may be destroyed while it runs") {
  gate closed;
  stream const s;
  device_memory<unsigned> const memory(16);
  cudaGraph_t g = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t set = nullptr;
  cudaMemsetParams const sixes = words(memory.data(), 6, 16);
  SUCCEEDS(cudaGraphCreate(&g, 0));
  SUCCEEDS(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &sixes));
  SUCCEEDS(cudaGraphInstantiate(&exec, g, 0));
  SUCCEEDS(closed.block(s));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(g));
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(memory.fetch()[15] == 6);
}

TEST_CASE("a graph can be printed") {
  graph const g;
  cudaGraphNode_t a = nullptr, b = nullptr;
  SUCCEEDS(cudaGraphAddEmptyNode(&a, g, nullptr, 0));
  SUCCEEDS(cudaGraphAddEmptyNode(&b, g, &a, 1));
  std::string const path = "conformance_graph.dot";
  SUCCEEDS(cudaGraphDebugDotPrint(g, path.c_str(), 0));
  std::FILE* file = std::fopen(path.c_str(), "r");
  REQUIRE(file != nullptr);
  char head[8] = {};
  CHECK(std::fread(head, 1, 7, file) == 7);
  CHECK(std::string(head) == "digraph");
  std::fclose(file);
  std::remove(path.c_str());
}

TEST_CASE("single nodes of an executable graph can be changed") {
  graph const g;
  stream const s;
  device_memory<unsigned> const memory(16);
  cudaGraphNode_t set = nullptr;
  cudaMemsetParams p = words(memory.data(), 1, 16);
  SUCCEEDS(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &p));
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, g, 0));
  p.value = 2;
  SUCCEEDS(cudaGraphExecMemsetNodeSetParams(exec, set, &p));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(memory.fetch()[0] == 2);
  SUCCEEDS(cudaMemset(memory.data(), 0, memory.bytes()));
  SUCCEEDS(cudaDeviceSynchronize());
  unsigned enabled = 9;
  SUCCEEDS(cudaGraphNodeGetEnabled(exec, set, &enabled));
  CHECK(enabled == 1);
  SUCCEEDS(cudaGraphNodeSetEnabled(exec, set, 0));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(memory.fetch()[0] == 0);
  SUCCEEDS(cudaGraphExecDestroy(exec));
}
