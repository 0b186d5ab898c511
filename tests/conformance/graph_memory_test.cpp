// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory allocation and free nodes.
#include "conformance.hpp"

using namespace conformance;

namespace {

std::uint64_t graph_memory(cudaGraphMemAttributeType which) {
  std::uint64_t value = 0;
  REQUIRE(cudaDeviceGetGraphMemAttribute(0, which, &value) == cudaSuccess);
  return value;
}

struct captured_allocation {
  cudaGraph_t graph = nullptr;
  float* memory = nullptr;
};

// A graph that allocates, fills and, if asked, copies to `out` and frees.
captured_allocation capture_allocation(float* out) {
  stream const s;
  captured_allocation result;
  REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  SUCCEEDS(cudaMallocAsync(reinterpret_cast<void**>(&result.memory), 4096, s));
  launch(s, 1024, fill_with{result.memory, 8.0F});
  if (out != nullptr) {
    SUCCEEDS(cudaMemcpyAsync(out, result.memory, 4096, cudaMemcpyDeviceToDevice, s));
    SUCCEEDS(cudaFreeAsync(result.memory, s));
  }
  SUCCEEDS(cudaStreamEndCapture(s, &result.graph));
  return result;
}

}  // namespace

TEST_CASE("allocations and frees of a capture become nodes") {
  device_memory<float> const out(1024);
  captured_allocation const c = capture_allocation(out.data());
  std::size_t count = 4;
  cudaGraphNode_t nodes[4] = {};
  SUCCEEDS(cudaGraphGetNodes(c.graph, nodes, &count));
  REQUIRE(count == 4);
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  SUCCEEDS(cudaGraphNodeGetType(nodes[0], &type));
  CHECK(type == cudaGraphNodeTypeMemAlloc);
  cudaMemAllocNodeParams parameters = {};
  SUCCEEDS(cudaGraphMemAllocNodeGetParams(nodes[0], &parameters));
  CHECK(parameters.dptr == c.memory);
  CHECK(parameters.bytesize == 4096);
  SUCCEEDS(cudaGraphNodeGetType(nodes[3], &type));
  CHECK(type == cudaGraphNodeTypeMemFree);
  stream const s;
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, c.graph, 0));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(out.fetch()[1023] == 8.0F);
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(c.graph));
}

TEST_CASE("the program frees memory that a graph has allocated and not freed") {
  captured_allocation const c = capture_allocation(nullptr);
  stream const s;
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, c.graph, 0));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  std::vector<float> host(1024);
  SUCCEEDS(cudaMemcpyAsync(host.data(), c.memory, 4096, cudaMemcpyDeviceToHost, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(host[1023] == 8.0F);
  CHECK(graph_memory(cudaGraphMemAttrUsedMemCurrent) >= 4096);
  RETURNS(cudaGraphLaunch(exec, s), cudaErrorInvalidValue);  // it is not freed yet
  SUCCEEDS(cudaFreeAsync(c.memory, s));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaFree(c.memory));
  SUCCEEDS(cudaGraphExecDestroy(exec));  // its memory counts as used until then
  SUCCEEDS(cudaGraphDestroy(c.graph));
  SUCCEEDS(cudaDeviceGraphMemTrim(0));
  CHECK(graph_memory(cudaGraphMemAttrUsedMemCurrent) == 0);
  CHECK(graph_memory(cudaGraphMemAttrReservedMemCurrent) == 0);
}

TEST_CASE("cudaGraphInstantiateFlagAutoFreeOnLaunch frees before each launch") {
  captured_allocation const c = capture_allocation(nullptr);
  stream const s;
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, c.graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaFree(c.memory));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(c.graph));
  SUCCEEDS(cudaDeviceGraphMemTrim(0));
}

TEST_CASE("a graph with memory nodes has one executable graph at a time") {
  device_memory<float> const out(1024);
  captured_allocation const c = capture_allocation(out.data());
  cudaGraphExec_t exec = nullptr, second = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, c.graph, 0));
  CHECK(cudaGraphInstantiate(&second, c.graph, 0) != cudaSuccess);
  cudaGetLastError();
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphInstantiate(&second, c.graph, 0));
  SUCCEEDS(cudaGraphExecDestroy(second));
  SUCCEEDS(cudaGraphDestroy(c.graph));
  SUCCEEDS(cudaDeviceGraphMemTrim(0));
}

TEST_CASE("memory of a stream cannot be freed in a capture") {
  stream const s;
  void* p = nullptr;
  SUCCEEDS(cudaMallocAsync(&p, 4096, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  RETURNS(cudaFreeAsync(p, s), cudaErrorInvalidValue);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(s, &graph);
  cudaGetLastError();
  if (graph != nullptr) SUCCEEDS(cudaGraphDestroy(graph));
  SUCCEEDS(cudaFree(p));
}

TEST_CASE("the high watermarks of graph memory are reset") {
  captured_allocation const c = capture_allocation(nullptr);
  stream const s;
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, c.graph, 0));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(graph_memory(cudaGraphMemAttrUsedMemHigh) >= 4096);
  CHECK(graph_memory(cudaGraphMemAttrReservedMemHigh) >= 4096);
  SUCCEEDS(cudaFree(c.memory));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(c.graph));
  SUCCEEDS(cudaDeviceGraphMemTrim(0));
  CHECK(graph_memory(cudaGraphMemAttrReservedMemHigh) >= 4096);
  std::uint64_t zero = 0;
  SUCCEEDS(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
  SUCCEEDS(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &zero));
  CHECK(graph_memory(cudaGraphMemAttrUsedMemHigh) == 0);
  CHECK(graph_memory(cudaGraphMemAttrReservedMemHigh) == 0);
  FAILS(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &zero));
  RETURNS(cudaDeviceSetGraphMemAttribute(1 << 20, cudaGraphMemAttrUsedMemHigh, &zero),
          cudaErrorInvalidDevice);
}
