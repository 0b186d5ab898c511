// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Explicitly added nodes of all types, updates of single nodes, uploads.
#include "conformance.hpp"

using namespace conformance;

namespace {

cudaMemAllocNodeParams allocation(std::size_t bytes) {
  cudaMemAllocNodeParams p = {};
  p.poolProps.allocType = cudaMemAllocationTypePinned;
  p.poolProps.location.type = cudaMemLocationTypeDevice;
  p.bytesize = bytes;
  return p;
}

cudaGraphNodeType type_of(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  REQUIRE(cudaGraphNodeGetType(node, &type) == cudaSuccess);
  return type;
}

void CUDART_CB count(void* raw) { static_cast<std::atomic<int>*>(raw)->fetch_add(1); }

}  // namespace

TEST_CASE("a 2-D copy node") {
  constexpr std::size_t width = 8, height = 3, pitch = 16;
  graph const g;
  device_memory<unsigned char> const device(pitch * height);
  pinned_memory<unsigned char> const host(width * height);
  for (std::size_t i = 0; i < width * height; ++i) host.data()[i] = static_cast<unsigned char>(i);
  REQUIRE(cudaMemset(device.data(), 0xee, device.bytes()) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  cudaMemcpy3DParms p = {};
  p.srcPtr = pitched(host.data(), width, height);
  p.dstPtr = pitched(device.data(), pitch, height);
  p.extent = {width, height, 1};
  p.kind = cudaMemcpyHostToDevice;
  cudaGraphNode_t copy = nullptr;
  SUCCEEDS(cudaGraphAddMemcpyNode(&copy, g, nullptr, 0, &p));
  CHECK(type_of(copy) == cudaGraphNodeTypeMemcpy);
  cudaMemcpy3DParms back = {};
  SUCCEEDS(cudaGraphMemcpyNodeGetParams(copy, &back));
  CHECK(back.srcPtr.ptr == host.data());
  CHECK(back.dstPtr.ptr == device.data());
  CHECK(back.dstPtr.pitch == pitch);
  CHECK(back.extent.width == width);
  CHECK(back.extent.height == height);
  executable(g).run();
  std::vector<unsigned char> const values = device.fetch();
  CHECK(values[2 * pitch] == 2 * width);
  CHECK(values[2 * pitch + width - 1] == 3 * width - 1);
  CHECK(values[2 * pitch + width] == 0xee);
  cudaGraphNode_t made = nullptr;
  RETURNS(cudaGraphAddMemcpyNode(nullptr, g, nullptr, 0, &p), cudaErrorInvalidValue);
  RETURNS(cudaGraphAddMemcpyNode(&made, nullptr, nullptr, 0, &p), cudaErrorInvalidValue);
}

TEST_CASE("one graph records an event that another waits for") {
  gate closed;
  event const ready;
  stream const a, b;
  device_memory<unsigned> const memory(16);
  pinned_memory<unsigned> const host(16);
  host.data()[15] = 0;
  graph const writes, reads;
  cudaGraphNode_t set = nullptr, record = nullptr, wait = nullptr, copy = nullptr;
  cudaMemsetParams const eights = words(memory.data(), 8, 16);
  SUCCEEDS(cudaGraphAddMemsetNode(&set, writes, nullptr, 0, &eights));
  SUCCEEDS(cudaGraphAddEventRecordNode(&record, writes, &set, 1, ready));
  SUCCEEDS(cudaGraphAddEventWaitNode(&wait, reads, nullptr, 0, ready));
  SUCCEEDS(cudaGraphAddMemcpyNode1D(&copy, reads, &wait, 1, host.data(), memory.data(),
                                    memory.bytes(), cudaMemcpyDeviceToHost));
  CHECK(type_of(record) == cudaGraphNodeTypeEventRecord);
  CHECK(type_of(wait) == cudaGraphNodeTypeWaitEvent);
  executable const write(writes), read(reads);
  SUCCEEDS(closed.block(a));
  SUCCEEDS(cudaGraphLaunch(write, a));
  SUCCEEDS(cudaGraphLaunch(read, b));
  RETURNS(cudaEventQuery(ready), cudaErrorNotReady);
  RETURNS(cudaStreamQuery(b), cudaErrorNotReady);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(b));
  CHECK(host.data()[15] == 8);
  SUCCEEDS(cudaEventQuery(ready));
  SUCCEEDS(cudaStreamSynchronize(a));
}

TEST_CASE("queries of event nodes") {
  event const e;
  graph const g;
  cudaGraphNode_t record = nullptr, wait = nullptr, made = nullptr;
  SUCCEEDS(cudaGraphAddEventRecordNode(&record, g, nullptr, 0, e));
  SUCCEEDS(cudaGraphAddEventWaitNode(&wait, g, &record, 1, e));
  cudaEvent_t recorded = nullptr, awaited = nullptr;
  SUCCEEDS(cudaGraphEventRecordNodeGetEvent(record, &recorded));
  SUCCEEDS(cudaGraphEventWaitNodeGetEvent(wait, &awaited));
  CHECK(recorded == e);
  CHECK(awaited == e);
  RETURNS(cudaGraphEventRecordNodeGetEvent(wait, &recorded), cudaErrorInvalidValue);
  RETURNS(cudaGraphEventWaitNodeGetEvent(record, &awaited), cudaErrorInvalidValue);
  RETURNS(cudaGraphAddEventRecordNode(nullptr, g, nullptr, 0, e), cudaErrorInvalidValue);
  RETURNS(cudaGraphAddEventWaitNode(&made, nullptr, nullptr, 0, e), cudaErrorInvalidValue);
  FAILS(cudaGraphAddEventRecordNode(&made, g, nullptr, 0, nullptr));
  FAILS(cudaGraphAddEventWaitNode(&made, g, nullptr, 0, nullptr));
}

TEST_CASE("memory is allocated, used and freed by nodes") {
  graph const g;
  pinned_memory<unsigned> const host(1024);
  host.data()[1023] = 0;
  cudaGraphNode_t alloc = nullptr, set = nullptr, copy = nullptr, release = nullptr;
  cudaMemAllocNodeParams wanted = allocation(4096);
  SUCCEEDS(cudaGraphAddMemAllocNode(&alloc, g, nullptr, 0, &wanted));
  REQUIRE(wanted.dptr != nullptr);
  CHECK(type_of(alloc) == cudaGraphNodeTypeMemAlloc);
  cudaMemAllocNodeParams back = {};
  SUCCEEDS(cudaGraphMemAllocNodeGetParams(alloc, &back));
  CHECK(back.dptr == wanted.dptr);
  CHECK(back.bytesize == 4096);
  cudaMemsetParams const fours = words(wanted.dptr, 4, 1024);
  SUCCEEDS(cudaGraphAddMemsetNode(&set, g, &alloc, 1, &fours));
  SUCCEEDS(cudaGraphAddMemcpyNode1D(&copy, g, &set, 1, host.data(), wanted.dptr, 4096,
                                    cudaMemcpyDeviceToHost));
  SUCCEEDS(cudaGraphAddMemFreeNode(&release, g, &copy, 1, wanted.dptr));
  CHECK(type_of(release) == cudaGraphNodeTypeMemFree);
  void* freed = nullptr;
  SUCCEEDS(cudaGraphMemFreeNodeGetParams(release, &freed));
  CHECK(freed == wanted.dptr);
  {
    executable const e(g);
    e.run();
    CHECK(host.data()[1023] == 4);
    host.data()[1023] = 0;
    e.run();
    CHECK(host.data()[1023] == 4);
  }
  cudaGraphNode_t made = nullptr;
  RETURNS(cudaGraphAddMemFreeNode(&made, g, &release, 1, wanted.dptr), cudaErrorInvalidValue);
  // Such a graph cannot be changed or cloned.
  cudaGraph_t twin = nullptr;
  FAILS(cudaGraphDestroyNode(release));
  FAILS(cudaGraphRemoveDependencies(g, &copy, &release, nullptr, 1));
  FAILS(cudaGraphClone(&twin, g));
  SUCCEEDS(cudaDeviceGraphMemTrim(0));
}

TEST_CASE("a node can only free memory allocated by a node") {
  graph const g;
  device_memory<char> const device(64);
  int on_stack = 0;
  cudaGraphNode_t made = nullptr;
  RETURNS(cudaGraphAddMemFreeNode(&made, g, nullptr, 0, device.data()), cudaErrorInvalidValue);
  RETURNS(cudaGraphAddMemFreeNode(&made, g, nullptr, 0, &on_stack), cudaErrorInvalidValue);
  RETURNS(cudaGraphAddMemFreeNode(&made, g, nullptr, 0, nullptr), cudaErrorInvalidValue);
}

TEST_CASE("a copy and a call of an executable graph can be changed") {
  graph const g;
  device_memory<unsigned> const first(16), second(16);
  pinned_memory<unsigned> const host(16);
  REQUIRE(cudaMemset(first.data(), 0x01, first.bytes()) == cudaSuccess);
  REQUIRE(cudaMemset(second.data(), 0x02, second.bytes()) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  std::atomic<int> before{0}, after{0};
  cudaHostNodeParams called = {count, &before};
  cudaGraphNode_t copy = nullptr, call = nullptr;
  SUCCEEDS(cudaGraphAddMemcpyNode1D(&copy, g, nullptr, 0, host.data(), first.data(), first.bytes(),
                                    cudaMemcpyDeviceToHost));
  SUCCEEDS(cudaGraphAddHostNode(&call, g, &copy, 1, &called));
  executable const e(g);
  SUCCEEDS(cudaGraphExecMemcpyNodeSetParams1D(e, copy, host.data(), second.data(), second.bytes(),
                                              cudaMemcpyDeviceToHost));
  called.userData = &after;
  SUCCEEDS(cudaGraphExecHostNodeSetParams(e, call, &called));
  e.run();
  CHECK(host.data()[15] == 0x02020202);
  CHECK(before.load() == 0);
  CHECK(after.load() == 1);
  // The source graph is unchanged.
  cudaHostNodeParams kept = {};
  SUCCEEDS(cudaGraphHostNodeGetParams(call, &kept));
  CHECK(kept.userData == &before);
  executable(g).run();
  CHECK(host.data()[15] == 0x01010101);
  CHECK(before.load() == 1);
  RETURNS(cudaGraphExecHostNodeSetParams(e, copy, &called), cudaErrorInvalidValue);
  RETURNS(cudaGraphExecMemcpyNodeSetParams1D(e, call, host.data(), first.data(), 64,
                                             cudaMemcpyDeviceToHost),
          cudaErrorInvalidValue);
}

TEST_CASE("queries of an executable graph's flags do not return the upload flag") {
  stream const s;
  graph const g;
  cudaGraphNode_t node = nullptr;
  SUCCEEDS(cudaGraphAddEmptyNode(&node, g, nullptr, 0));
  unsigned long long flags = 99;
  {
    executable const plain(g);
    SUCCEEDS(cudaGraphExecGetFlags(plain, &flags));
    CHECK(flags == 0);
    RETURNS(cudaGraphExecGetFlags(nullptr, &flags), cudaErrorInvalidValue);
  }
  cudaGraphInstantiateParams parameters = {};
  parameters.flags = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload;
  parameters.uploadStream = s;
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiateWithParams(&exec, g, &parameters));
  CHECK(parameters.result_out == cudaGraphInstantiateSuccess);
  SUCCEEDS(cudaGraphExecGetFlags(exec, &flags));
  CHECK(flags == cudaGraphInstantiateFlagAutoFreeOnLaunch);
  SUCCEEDS(cudaGraphExecDestroy(exec));
}

TEST_CASE("an upload runs nothing, and the launch after it does") {
  stream const s;
  graph const g;
  device_memory<unsigned> const memory(16);
  REQUIRE(cudaMemset(memory.data(), 0, memory.bytes()) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  std::atomic<int> calls{0};
  cudaMemsetParams const twos = words(memory.data(), 2, 16);
  cudaHostNodeParams const called = {count, &calls};
  cudaGraphNode_t set = nullptr, call = nullptr;
  SUCCEEDS(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &twos));
  SUCCEEDS(cudaGraphAddHostNode(&call, g, &set, 1, &called));
  executable const e(g);
  SUCCEEDS(cudaGraphUpload(e, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(calls.load() == 0);
  CHECK(memory.fetch()[15] == 0);
  SUCCEEDS(cudaGraphLaunch(e, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(calls.load() == 1);
  CHECK(memory.fetch()[15] == 2);
  RETURNS(cudaGraphUpload(nullptr, s), cudaErrorInvalidValue);
}
