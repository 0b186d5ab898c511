// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream capture: the nodes that it creates, and the calls that invalidate it.
#include "conformance.hpp"

using namespace conformance;

namespace {

constexpr auto global_mode = cudaStreamCaptureModeGlobal;
constexpr auto thread_local_mode = cudaStreamCaptureModeThreadLocal;
constexpr auto relaxed_mode = cudaStreamCaptureModeRelaxed;

int status_of(cudaStream_t s) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(s, &status) == cudaSuccess);
  return static_cast<int>(status);
}

std::size_t node_count(cudaGraph_t graph) {
  std::size_t count = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
  return count;
}

std::size_t edge_count(cudaGraph_t graph) {
  std::size_t count = 0;
  REQUIRE(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count) == cudaSuccess);
  return count;
}

void ends_broken(cudaStream_t s) {
  CHECK(status_of(s) == cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  RETURNS(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK(status_of(s) == cudaStreamCaptureStatusNone);
}

void CUDART_CB nothing(void*) {}

}  // namespace

TEST_CASE("captured work does not run, and runs with the graph") {
  stream const s;
  device_memory<float> const y(1024);
  launch(s, 1024, fill_with{y.data(), 1.0F});
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  CHECK(status_of(s) == cudaStreamCaptureStatusActive);
  launch(s, 1024, scale_and_add{y.data(), 2.0F});
  launch(s, 1024, scale_and_add{y.data(), 2.0F});
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  CHECK(status_of(s) == cudaStreamCaptureStatusNone);
  REQUIRE(graph != nullptr);
  CHECK(node_count(graph) == 2);
  CHECK(edge_count(graph) == 1);
  CHECK(y.fetch()[10] == 1.0F);
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, graph, 0));
  SUCCEEDS(cudaGraphDestroy(graph));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(y.fetch()[10] == (1.0F * 2 + 10) * 2 + 10);
  SUCCEEDS(cudaGraphExecDestroy(exec));
}

TEST_CASE("every kind of work is captured as a node of its type") {
  stream const s;
  device_memory<float> const x(1024), y(1024);
  pinned_memory<float> const host(1024);
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  SUCCEEDS(cudaMemcpyAsync(x.data(), host.data(), x.bytes(), cudaMemcpyHostToDevice, s));
  SUCCEEDS(cudaMemsetAsync(y.data(), 0, y.bytes(), s));
  launch(s, 1024, add_to{y.data(), x.data()});
  SUCCEEDS(cudaLaunchHostFunc(s, nothing, nullptr));
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  std::size_t count = 4;
  std::vector<cudaGraphNode_t> nodes(count);
  SUCCEEDS(cudaGraphGetNodes(graph, nodes.data(), &count));
  REQUIRE(count == 4);
  int seen[32] = {};
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    SUCCEEDS(cudaGraphNodeGetType(node, &type));
    ++seen[type];
  }
  CHECK(seen[cudaGraphNodeTypeMemcpy] == 1);
  CHECK(seen[cudaGraphNodeTypeMemset] == 1);
  CHECK(seen[cudaGraphNodeTypeKernel] == 1);
  CHECK(seen[cudaGraphNodeTypeHost] == 1);
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("a capture forks and joins through events") {
  stream const a, b;
  event const fork, join;
  device_memory<float> const x(1024), y(1024);
  SUCCEEDS(cudaStreamBeginCapture(a, thread_local_mode));
  launch(a, 1024, fill_with{x.data(), 1.0F});
  SUCCEEDS(cudaEventRecord(fork, a));
  SUCCEEDS(cudaStreamWaitEvent(b, fork, 0));
  CHECK(status_of(b) == cudaStreamCaptureStatusActive);
  launch(b, 1024, fill_with{y.data(), 2.0F});
  launch(a, 1024, scale_and_add{x.data(), 1.0F});
  SUCCEEDS(cudaEventRecord(join, b));
  SUCCEEDS(cudaStreamWaitEvent(a, join, 0));
  launch(a, 1024, add_to{y.data(), x.data()});
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(a, &graph));
  CHECK(status_of(b) == cudaStreamCaptureStatusNone);
  CHECK(node_count(graph) == 4);
  CHECK(edge_count(graph) == 4);
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, graph, 0));
  SUCCEEDS(cudaGraphLaunch(exec, a));
  SUCCEEDS(cudaStreamSynchronize(a));
  CHECK(y.fetch()[5] == 2.0F + 1.0F + 5.0F);
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("an empty capture is an empty graph") {
  stream const s;
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  REQUIRE(graph != nullptr);
  CHECK(node_count(graph) == 0);
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, graph, 0));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("the streams and threads on which a capture may begin and end") {
  stream const s, other;
  cudaGraph_t graph = nullptr;
  RETURNS(cudaStreamBeginCapture(cudaStreamLegacy, thread_local_mode),
          cudaErrorStreamCaptureUnsupported);
  RETURNS(cudaStreamEndCapture(s, &graph), cudaErrorIllegalState);
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  RETURNS(cudaStreamBeginCapture(s, thread_local_mode), cudaErrorIllegalState);
  RETURNS(cudaStreamEndCapture(other, &graph), cudaErrorIllegalState);
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("the per-thread stream can be captured") {
  device_memory<int> const memory(16);
  SUCCEEDS(cudaStreamBeginCapture(cudaStreamPerThread, thread_local_mode));
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, cudaStreamPerThread));
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(cudaStreamPerThread, &graph));
  CHECK(node_count(graph) == 1);
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("queries of a capturing stream") {
  stream const s;
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  unsigned long long id = 0;
  unsigned flags = 0;
  int priority = 0;
  SECTION("for its id breaks the capture") {
    RETURNS(cudaStreamGetId(s, &id), cudaErrorStreamCaptureUnsupported);
    RETURNS(cudaStreamGetPriority(s, &priority), cudaErrorStreamCaptureInvalidated);
    RETURNS(cudaStreamBeginCapture(s, thread_local_mode), cudaErrorIllegalState);
    RETURNS(cudaStreamQuery(s), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("for its device breaks the capture") {
    int device = -1;
    RETURNS(cudaStreamGetDevice(s, &device), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("for its flags breaks the capture") {
    RETURNS(cudaStreamGetFlags(s, &flags), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("whether it is done breaks the capture") {
    RETURNS(cudaStreamQuery(s), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("to synchronise breaks the capture") {
    RETURNS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
  }
  ends_broken(s);
}

TEST_CASE("work on a stream whose capture is invalidated fails") {
  stream const s;
  device_memory<int> const memory(16);
  event const e;
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  RETURNS(cudaStreamQuery(s), cudaErrorStreamCaptureUnsupported);
  RETURNS(cudaMemsetAsync(memory.data(), 0, 4, s), cudaErrorStreamCaptureInvalidated);
  RETURNS(cudaLaunchHostFunc(s, nothing, nullptr), cudaErrorStreamCaptureInvalidated);
  RETURNS(cudaEventRecord(e, s), cudaErrorStreamCaptureInvalidated);
  ends_broken(s);
}

TEST_CASE("calls that may synchronise are forbidden to a capturing thread") {
  stream const s;
  void* p = nullptr;
  device_memory<char> const memory(16);
  event const e;
  graph const empty;
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, empty, 0));
  SUCCEEDS(cudaStreamBeginCapture(s, GENERATE(global_mode, thread_local_mode)));
  SECTION("cudaMalloc") { RETURNS(cudaMalloc(&p, 16), cudaErrorStreamCaptureUnsupported); }
  SECTION("cudaMallocHost") { RETURNS(cudaMallocHost(&p, 16), cudaErrorStreamCaptureUnsupported); }
  SECTION("cudaFree") { RETURNS(cudaFree(memory.data()), cudaErrorStreamCaptureUnsupported); }
  SECTION("cudaDeviceSynchronize") {
    RETURNS(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("cudaEventQuery") { RETURNS(cudaEventQuery(e), cudaErrorStreamCaptureUnsupported); }
  SECTION("cudaEventSynchronize") {
    RETURNS(cudaEventSynchronize(e), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("cudaGraphInstantiate") {
    cudaGraphExec_t other = nullptr;
    RETURNS(cudaGraphInstantiate(&other, empty, 0), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("cudaGraphExecDestroy") {
    RETURNS(cudaGraphExecDestroy(exec), cudaErrorStreamCaptureUnsupported);
  }
  ends_broken(s);
}

TEST_CASE("calls that a capturing thread may make") {
  stream const s;
  stream const other;
  std::vector<char> const host(std::size_t{1} << 20U, 'a');
  device_memory<char> const memory(host.size());
  graph const empty;
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, empty, 0));
  SUCCEEDS(cudaStreamBeginCapture(s, GENERATE(global_mode, thread_local_mode)));
  SECTION("an update and a launch of a graph on another stream") {
    cudaGraphExecUpdateResultInfo info{};
    SUCCEEDS(cudaGraphExecUpdate(exec, empty, &info));
    SUCCEEDS(cudaGraphUpload(exec, other));
    SUCCEEDS(cudaGraphLaunch(exec, other));
  }
  SECTION("copies that wait, on the legacy stream: they are not captured") {
    SUCCEEDS(cudaMemcpy(memory.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
    std::vector<char> back(host.size());
    SUCCEEDS(cudaMemcpy(back.data(), memory.data(), back.size(), cudaMemcpyDeviceToHost));
    CHECK(back == host);
  }
  CHECK(status_of(s) == cudaStreamCaptureStatusActive);
  cudaGraph_t captured = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &captured));
  std::size_t nodes = 1;
  SUCCEEDS(cudaGraphGetNodes(captured, nullptr, &nodes));
  CHECK(nodes == 0);
  SUCCEEDS(cudaGraphDestroy(captured));
  SUCCEEDS(cudaGraphExecDestroy(exec));
}

TEST_CASE("a relaxed capture allows more calls") {
  stream const s;
  void* p = nullptr;
  SUCCEEDS(cudaStreamBeginCapture(s, relaxed_mode));
  SUCCEEDS(cudaMalloc(&p, 16));
  SUCCEEDS(cudaFree(p));
  CHECK(status_of(s) == cudaStreamCaptureStatusActive);
  RETURNS(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  ends_broken(s);
}

TEST_CASE("a thread can be relaxed while it captures") {
  stream const s;
  void* p = nullptr;
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  cudaStreamCaptureMode mode = relaxed_mode;
  SUCCEEDS(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == global_mode);
  SUCCEEDS(cudaMalloc(&p, 16));
  SUCCEEDS(cudaFree(p));
  SUCCEEDS(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == relaxed_mode);
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("a capture and the calls of another thread") {
  stream const s;
  auto const allocate_elsewhere = [] {
    cudaError_t code = cudaErrorUnknown;
    std::thread([&code] {
      void* p = nullptr;
      code = cudaMalloc(&p, 16);
      cudaFree(p);
    }).join();
    return code;
  };
  cudaGraph_t graph = nullptr;
  SECTION("thread-local: nobody else is concerned") {
    SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
    CHECK(allocate_elsewhere() == cudaSuccess);
    SUCCEEDS(cudaStreamEndCapture(s, &graph));
    SUCCEEDS(cudaGraphDestroy(graph));
  }
  SECTION("global: they are forbidden, and break it") {
    SUCCEEDS(cudaStreamBeginCapture(s, global_mode));
    CHECK(allocate_elsewhere() == cudaErrorStreamCaptureUnsupported);
    ends_broken(s);
  }
}

TEST_CASE("a capture ends in the thread that began it") {
  stream const s;
  cudaGraph_t graph = nullptr;
  auto const end_elsewhere = [&] {
    cudaError_t code = cudaErrorUnknown;
    std::thread([&] { code = cudaStreamEndCapture(s, &graph); }).join();
    return code;
  };
  SECTION("otherwise it is lost") {
    SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
    CHECK(end_elsewhere() == cudaErrorStreamCaptureWrongThread);
    CHECK(status_of(s) == cudaStreamCaptureStatusNone);
    RETURNS(cudaStreamEndCapture(s, &graph), cudaErrorIllegalState);
  }
  SECTION("but for a relaxed one") {
    SUCCEEDS(cudaStreamBeginCapture(s, relaxed_mode));
    CHECK(end_elsewhere() == cudaSuccess);
    REQUIRE(graph != nullptr);
    SUCCEEDS(cudaGraphDestroy(graph));
  }
}

TEST_CASE("the legacy stream cannot be used while a blocking stream captures") {
  stream const blocking(cudaStreamDefault);
  device_memory<int> const memory(16);
  SUCCEEDS(cudaStreamBeginCapture(blocking, thread_local_mode));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  SECTION("asking it does no harm") {
    RETURNS(cudaStreamIsCapturing(cudaStreamLegacy, &status), cudaErrorStreamCaptureImplicit);
    cudaGraph_t graph = nullptr;
    SUCCEEDS(cudaStreamEndCapture(blocking, &graph));
    SUCCEEDS(cudaGraphDestroy(graph));
  }
  SECTION("asking for its id breaks the capture") {
    unsigned long long id = 0;
    RETURNS(cudaStreamGetId(cudaStreamLegacy, &id), cudaErrorStreamCaptureImplicit);
    ends_broken(blocking);
  }
  SECTION("asking for its flags breaks the capture") {
    unsigned flags = 0;
    RETURNS(cudaStreamGetFlags(cudaStreamLegacy, &flags), cudaErrorStreamCaptureImplicit);
    ends_broken(blocking);
  }
  SECTION("asking for its priority breaks the capture") {
    int priority = 0;
    RETURNS(cudaStreamGetPriority(cudaStreamLegacy, &priority), cudaErrorStreamCaptureImplicit);
    ends_broken(blocking);
  }
  SECTION("work on it breaks the capture") {
    RETURNS(cudaMemsetAsync(memory.data(), 0, 4, cudaStreamLegacy), cudaErrorStreamCaptureImplicit);
    ends_broken(blocking);
  }
}

TEST_CASE("the legacy stream can be used while a non-blocking stream captures") {
  stream const s;
  device_memory<int> const memory(16);
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, cudaStreamLegacy));
  CHECK(status_of(s) == cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  CHECK(node_count(graph) == 0);
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("an event recorded in a capture is valid in that capture only") {
  stream const s, other;
  event const e;
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  SUCCEEDS(cudaEventRecord(e, s));
  SECTION("asking it breaks the capture, and leaves the event useless") {
    RETURNS(cudaEventQuery(e), cudaErrorCapturedEvent);
    RETURNS(cudaEventSynchronize(e), cudaErrorInvalidValue);
    RETURNS(cudaStreamWaitEvent(other, e, 0), cudaErrorInvalidValue);
    CHECK(status_of(other) == cudaStreamCaptureStatusNone);
    ends_broken(s);
    RETURNS(cudaEventQuery(e), cudaErrorInvalidValue);
  }
  SECTION("synchronising it breaks the capture") {
    RETURNS(cudaEventSynchronize(e), cudaErrorCapturedEvent);
    ends_broken(s);
  }
  // Recorded again outside of the capture, it is an ordinary event.
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(s, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone) {
    cudaGraph_t graph = nullptr;
    SUCCEEDS(cudaStreamEndCapture(s, &graph));
    SUCCEEDS(cudaGraphDestroy(graph));
  }
  SUCCEEDS(cudaEventRecord(e, s));
  SUCCEEDS(cudaEventSynchronize(e));
}

TEST_CASE("a capture cannot depend on work outside of it") {
  stream const s, outside;
  event const e;
  SUCCEEDS(cudaEventRecord(e, outside));
  SUCCEEDS(cudaStreamSynchronize(outside));
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  RETURNS(cudaStreamWaitEvent(s, e, 0), cudaErrorStreamCaptureIsolation);
  ends_broken(s);
}

TEST_CASE("two captures cannot be merged") {
  stream const a, b;
  event const e;
  SUCCEEDS(cudaStreamBeginCapture(a, thread_local_mode));
  SUCCEEDS(cudaStreamBeginCapture(b, thread_local_mode));
  SUCCEEDS(cudaEventRecord(e, a));
  RETURNS(cudaStreamWaitEvent(b, e, 0), cudaErrorStreamCaptureMerge);
  ends_broken(a);
  ends_broken(b);
}

TEST_CASE("forked streams must be joined") {
  stream const a, b;
  event const e;
  device_memory<int> const memory(16);
  SUCCEEDS(cudaStreamBeginCapture(a, thread_local_mode));
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, a));
  SUCCEEDS(cudaEventRecord(e, a));
  SUCCEEDS(cudaStreamWaitEvent(b, e, 0));
  SUCCEEDS(cudaMemsetAsync(memory.data() + 8, 0, 4, b));
  cudaGraph_t graph = nullptr;
  SECTION("or the capture is lost") {
    RETURNS(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureUnjoined);
    CHECK(graph == nullptr);
  }
  SECTION("and ends where it began") {
    RETURNS(cudaStreamEndCapture(b, &graph), cudaErrorStreamCaptureUnmatched);
    CHECK(graph == nullptr);
    ends_broken(a);
  }
  CHECK(status_of(a) == cudaStreamCaptureStatusNone);
  CHECK(status_of(b) == cudaStreamCaptureStatusNone);
}

TEST_CASE("cudaStreamGetCaptureInfo") {
  stream const s;
  device_memory<int> const memory(16);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0, id_again = 0;
  cudaGraph_t graph = nullptr, ended = nullptr;
  cudaGraphNode_t const* tail = nullptr;
  cudaGraphEdgeData const* edges = nullptr;
  std::size_t count = 99;
  SUCCEEDS(cudaStreamGetCaptureInfo(s, &status, &id, &graph, &tail, &edges, &count));
  CHECK(status == cudaStreamCaptureStatusNone);
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  SUCCEEDS(cudaStreamGetCaptureInfo(s, &status, &id, &graph, &tail, &edges, &count));
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(count == 0);
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, s));
  SUCCEEDS(cudaStreamGetCaptureInfo(s, &status, &id_again, &graph, &tail, &edges, &count));
  CHECK(id != 0);
  CHECK(id == id_again);
  REQUIRE(count == 1);
  // A node that the program adds between the captured ones.
  cudaGraphNode_t mine = nullptr;
  SUCCEEDS(cudaGraphAddEmptyNode(&mine, graph, tail, count));
  SUCCEEDS(
      cudaStreamUpdateCaptureDependencies(s, &mine, nullptr, 1, cudaStreamSetCaptureDependencies));
  SUCCEEDS(cudaMemsetAsync(memory.data(), 1, 4, s));
  SUCCEEDS(cudaStreamEndCapture(s, &ended));
  CHECK(ended == graph);
  CHECK(node_count(ended) == 3);
  CHECK(edge_count(ended) == 2);
  SUCCEEDS(cudaGraphDestroy(ended));
  RETURNS(cudaStreamUpdateCaptureDependencies(s, &mine, nullptr, 0, 0), cudaErrorIllegalState);
}

TEST_CASE("each capture has a unique id") {
  stream const s, t;
  auto const begin = [](cudaStream_t on) {
    SUCCEEDS(cudaStreamBeginCapture(on, relaxed_mode));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    SUCCEEDS(cudaStreamGetCaptureInfo(on, &status, &id, nullptr, nullptr, nullptr, nullptr));
    CHECK(status == cudaStreamCaptureStatusActive);
    CHECK(id != 0);
    return id;
  };
  auto const end = [](cudaStream_t on) {
    cudaGraph_t graph = nullptr;
    SUCCEEDS(cudaStreamEndCapture(on, &graph));
    SUCCEEDS(cudaGraphDestroy(graph));
  };
  unsigned long long const first = begin(s);
  unsigned long long const beside = begin(t);
  end(s);
  unsigned long long const later = begin(s);
  CHECK(first != beside);
  CHECK(first != later);
  CHECK(beside != later);
  end(t);
  // A stream that joins has the id of the capture that it joins.
  event const e;
  SUCCEEDS(cudaEventRecord(e, s));
  SUCCEEDS(cudaStreamWaitEvent(t, e, 0));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long joined = 0;
  SUCCEEDS(cudaStreamGetCaptureInfo(t, &status, &joined, nullptr, nullptr, nullptr, nullptr));
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(joined == later);
  SUCCEEDS(cudaEventRecord(e, t));
  SUCCEEDS(cudaStreamWaitEvent(s, e, 0));
  end(s);
}

TEST_CASE("a capture into an existing graph") {
  stream const s;
  device_memory<int> const memory(16);
  cudaGraph_t graph = nullptr, ended = nullptr;
  cudaGraphNode_t root = nullptr;
  SUCCEEDS(cudaGraphCreate(&graph, 0));
  SUCCEEDS(cudaGraphAddEmptyNode(&root, graph, nullptr, 0));
  SUCCEEDS(cudaStreamBeginCaptureToGraph(s, graph, &root, nullptr, 1, thread_local_mode));
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, s));
  SUCCEEDS(cudaStreamEndCapture(s, &ended));
  CHECK(ended == graph);
  CHECK(node_count(graph) == 2);
  CHECK(edge_count(graph) == 1);
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("a capturing stream may be destroyed") {
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  SUCCEEDS(cudaStreamDestroy(s));
  // The thread does not capture any more.
  void* p = nullptr;
  SUCCEEDS(cudaMalloc(&p, 16));
  SUCCEEDS(cudaFree(p));
}

TEST_CASE("external events become nodes") {
  stream const s;
  event const e;
  SUCCEEDS(cudaStreamBeginCapture(s, thread_local_mode));
  SUCCEEDS(cudaStreamWaitEvent(s, e, cudaEventWaitExternal));
  SUCCEEDS(cudaEventRecordWithFlags(e, s, cudaEventRecordExternal));
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  CHECK(node_count(graph) == 2);
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, graph, 0));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaEventSynchronize(e));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(graph));
}
