// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// ThreadSanitizer reports missing synchronisation, and only that: the runtime's
// own locks are hidden from it. Each scenario runs in a process of its own: this program, started
// again with a hidden test.
#include <sys/wait.h>
#include <unistd.h>
#include <warpwright/core/launch.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "support/catch.hpp"

#if defined(__SANITIZE_THREAD__)
#define WARPWRIGHT_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WARPWRIGHT_TEST_TSAN 1
#endif
#endif
#ifndef WARPWRIGHT_TEST_TSAN
#define WARPWRIGHT_TEST_TSAN 0
#endif

namespace {

namespace ww = warpwright;

constexpr std::uint64_t size = 64;
constexpr std::size_t bytes = size * sizeof(int);

#define NEED(call) REQUIRE((call) == cudaSuccess)

struct write {
  int* x;
  int value;
  void operator()(std::uint64_t i) const { x[i] = value; }
};

struct add {
  int* to;
  int const* from;
  void operator()(std::uint64_t i) const { to[i] += from[i]; }
};

/// Two streams, two device arrays and a pinned one; only the destructor synchronises.
struct setting {
  cudaStream_t a = nullptr, b = nullptr, blocking = nullptr;
  cudaEvent_t event = nullptr;
  int *x = nullptr, *y = nullptr, *pinned = nullptr;

  setting() {
    NEED(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    NEED(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    NEED(cudaStreamCreate(&blocking));
    NEED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    NEED(cudaMalloc(reinterpret_cast<void**>(&x), bytes));
    NEED(cudaMalloc(reinterpret_cast<void**>(&y), bytes));
    NEED(cudaMallocHost(reinterpret_cast<void**>(&pinned), bytes));
  }
  ~setting() {
    cudaDeviceSynchronize();
    cudaFreeHost(pinned);
    cudaFree(x);
    cudaFree(y);
    cudaEventDestroy(event);
    for (cudaStream_t s : {a, b, blocking}) cudaStreamDestroy(s);
  }
  setting(setting const&) = delete;
  setting& operator=(setting const&) = delete;
};

void fill(cudaStream_t s, int* x, int value) {
  ww::for_each_index(ww::stream_ref{s}, size, write{x, value});
}

// Gives the worker time to finish; no happens-before edge orders the two.
void wait_without_order() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

// Exits with ThreadSanitizer's status after a report.
int run_hidden(std::string const& tag) {
  char path[4096] = {};
  REQUIRE(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
  std::string const command = "TSAN_OPTIONS=exitcode=66:halt_on_error=0 \"" + std::string(path) +
                              "\" \"[." + tag + "]\" >/dev/null 2>&1";
  int const status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

// ---- races

TEST_CASE("two streams write one array", "[.two-writers]") {
  setting const s;
  fill(s.a, s.x, 1);
  wait_without_order();
  fill(s.b, s.x, 2);
}

TEST_CASE("a stream reads what another is writing", "[.no-event]") {
  setting const s;
  fill(s.a, s.x, 1);
  fill(s.b, s.y, 1);
  wait_without_order();
  ww::for_each_index(ww::stream_ref{s.b}, size, add{s.y, s.x});
}

TEST_CASE("the event is recorded before the work", "[.early-event]") {
  setting const s;
  NEED(cudaEventRecord(s.event, s.a));
  fill(s.a, s.x, 1);
  wait_without_order();
  NEED(cudaStreamWaitEvent(s.b, s.event, 0));
  fill(s.b, s.x, 2);
}

TEST_CASE("the host reads a result without waiting", "[.early-read]") {
  setting const s;
  fill(s.a, s.x, 1);
  NEED(cudaMemcpyAsync(s.pinned, s.x, bytes, cudaMemcpyDeviceToHost, s.a));
  wait_without_order();
  CHECK(s.pinned[0] == 1);
}

TEST_CASE("the host reuses a pinned source without waiting", "[.early-reuse]") {
  setting const s;
  s.pinned[0] = 1;
  NEED(cudaMemcpyAsync(s.x, s.pinned, bytes, cudaMemcpyHostToDevice, s.a));
  wait_without_order();
  s.pinned[0] = 2;
}

TEST_CASE("the legacy stream and a non-blocking one", "[.legacy-non-blocking]") {
  setting const s;
  fill(s.a, s.x, 1);
  wait_without_order();
  fill(cudaStreamLegacy, s.x, 2);
}

TEST_CASE("another stream is synchronised", "[.wrong-stream]") {
  setting const s;
  fill(s.a, s.x, 1);
  fill(s.b, s.y, 1);
  NEED(cudaMemcpyAsync(s.pinned, s.x, bytes, cudaMemcpyDeviceToHost, s.a));
  wait_without_order();
  NEED(cudaStreamSynchronize(s.b));
  CHECK(s.pinned[0] == 1);
}

TEST_CASE("a graph and a stream write one array", "[.graph-and-stream]") {
  setting const s;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  NEED(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal));
  fill(s.a, s.x, 1);
  NEED(cudaStreamEndCapture(s.a, &graph));
  NEED(cudaGraphInstantiate(&exec, graph, 0));
  NEED(cudaGraphLaunch(exec, s.a));
  wait_without_order();
  fill(s.b, s.x, 2);
  NEED(cudaDeviceSynchronize());
  NEED(cudaGraphExecDestroy(exec));
  NEED(cudaGraphDestroy(graph));
}

// ---- correct synchronisation

TEST_CASE("every order that CUDA guarantees", "[.ordered]") {
  setting const s;
  // One stream.
  fill(s.a, s.x, 1);
  fill(s.a, s.x, 2);
  // An event.
  NEED(cudaEventRecord(s.event, s.a));
  NEED(cudaStreamWaitEvent(s.b, s.event, 0));
  fill(s.b, s.x, 3);
  // A stream that the host waited for.
  NEED(cudaStreamSynchronize(s.b));
  fill(s.a, s.x, 4);
  // Polling an event and a stream.
  NEED(cudaMemcpyAsync(s.pinned, s.x, bytes, cudaMemcpyDeviceToHost, s.a));
  NEED(cudaEventRecord(s.event, s.a));
  while (cudaEventQuery(s.event) == cudaErrorNotReady) std::this_thread::yield();
  CHECK(s.pinned[0] == 4);
  s.pinned[0] = 5;
  NEED(cudaMemcpyAsync(s.x, s.pinned, bytes, cudaMemcpyHostToDevice, s.a));
  while (cudaStreamQuery(s.a) == cudaErrorNotReady) std::this_thread::yield();
  s.pinned[0] = 6;
  // The legacy stream and a blocking one, both ways.
  fill(s.blocking, s.x, 7);
  fill(cudaStreamLegacy, s.x, 8);
  fill(s.blocking, s.x, 9);
  // The whole device.
  NEED(cudaDeviceSynchronize());
  fill(s.b, s.x, 10);
  // A synchronous copy.
  NEED(cudaDeviceSynchronize());
  int host[size] = {};
  NEED(cudaMemcpy(host, s.x, bytes, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 10);
  NEED(cudaMemcpy(s.x, host, bytes, cudaMemcpyHostToDevice));
  host[0] = 11;  // a pageable source may be reused when the call returns
}

TEST_CASE("reuse of freed memory", "[.reused]") {
  setting const s;
  int* p = nullptr;
  // From stream to stream through the pool.
  for (int round = 0; round < 20; ++round) {
    cudaStream_t const stream = round % 2 == 0 ? s.a : s.b;
    NEED(cudaMallocAsync(reinterpret_cast<void**>(&p), bytes, stream));
    fill(stream, p, round);
    NEED(cudaFreeAsync(p, stream));
  }
  // From stream to stream through cudaFree.
  for (int round = 0; round < 20; ++round) {
    cudaStream_t const stream = round % 2 == 0 ? s.a : s.b;
    NEED(cudaMalloc(reinterpret_cast<void**>(&p), bytes));
    fill(stream, p, round);
    NEED(cudaFree(p));
  }
}

TEST_CASE("launches of one graph from two streams", "[.one-graph]") {
  setting const s;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  NEED(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal));
  fill(s.a, s.x, 1);
  NEED(cudaStreamEndCapture(s.a, &graph));
  NEED(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 20; ++i) NEED(cudaGraphLaunch(exec, i % 2 == 0 ? s.a : s.b));
  NEED(cudaDeviceSynchronize());
  NEED(cudaGraphExecDestroy(exec));
  NEED(cudaGraphDestroy(graph));
}

TEST_CASE("host functions follow their stream", "[.host-functions]") {
  setting const s;
  int seen = 0;  // no atomic: the stream orders it
  for (int i = 0; i < 10; ++i) {
    NEED(cudaLaunchHostFunc(
        i % 2 == 0 ? s.a : s.b, [](void* p) { ++*static_cast<int*>(p); }, &seen));
    NEED(cudaEventRecord(s.event, i % 2 == 0 ? s.a : s.b));
    NEED(cudaStreamWaitEvent(i % 2 == 0 ? s.b : s.a, s.event, 0));
  }
  NEED(cudaEventSynchronize(s.event));
  CHECK(seen == 10);
}

// ---- the tests

#if WARPWRIGHT_TEST_TSAN
TEST_CASE("a missing synchronisation is reported") {
  for (char const* tag : {"two-writers", "no-event", "early-event", "early-read", "early-reuse",
                          "legacy-non-blocking", "wrong-stream", "graph-and-stream"}) {
    INFO(tag);
    CHECK(run_hidden(tag) == 66);
  }
}
#endif

TEST_CASE("correct synchronisation is not reported") {
  for (char const* tag : {"ordered", "reused", "one-graph", "host-functions"}) {
    INFO(tag);
    CHECK(run_hidden(tag) == 0);
  }
}
