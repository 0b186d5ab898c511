// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// User objects beyond CUDA: fault plans, leaks, statistics, reset.
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <atomic>
#include <string>

#include "support/catch.hpp"

namespace {

namespace ww = warpwright;

constexpr unsigned no_sync = cudaUserObjectNoDestructorSync;

void CUDART_CB count_call(void* calls) { ++*static_cast<std::atomic<int>*>(calls); }

cudaUserObject_t object_that_counts(std::atomic<int>& calls) {
  cudaUserObject_t object = nullptr;
  REQUIRE(cudaUserObjectCreate(&object, &calls, count_call, 1, no_sync) == cudaSuccess);
  return object;
}

// The first call of a function fails.
ww::testing::fault_plan first_fails(char const* call) {
  return ww::testing::fault_plan{}.fail(call, 1, cudaErrorUnknown);
}

}  // namespace

TEST_CASE("each call for user objects may fail, without an effect") {
  ww::testing::reset_host_runtime();
  std::atomic<int> calls{0};
  cudaUserObject_t object = nullptr;
  {
    ww::testing::scoped_fault_plan const scope{first_fails("cudaUserObjectCreate")};
    CHECK(cudaUserObjectCreate(&object, &calls, count_call, 1, no_sync) == cudaErrorUnknown);
    CHECK(ww::testing::stats().user_objects == 0);
  }
  object = object_that_counts(calls);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  {
    ww::testing::scoped_fault_plan const scope{first_fails("cudaUserObjectRetain")};
    CHECK(cudaUserObjectRetain(object, 1) == cudaErrorUnknown);
  }
  {
    ww::testing::scoped_fault_plan const scope{first_fails("cudaGraphRetainUserObject")};
    CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove) == cudaErrorUnknown);
  }
  REQUIRE(cudaGraphRetainUserObject(graph, object, 1, 0) == cudaSuccess);
  {
    ww::testing::scoped_fault_plan const scope{first_fails("cudaGraphReleaseUserObject")};
    CHECK(cudaGraphReleaseUserObject(graph, object, 1) == cudaErrorUnknown);
  }
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  {
    ww::testing::scoped_fault_plan const scope{first_fails("cudaUserObjectRelease")};
    CHECK(cudaUserObjectRelease(object, 1) == cudaErrorUnknown);
  }
  CHECK(ww::testing::stats().user_objects == 1);
  CHECK(calls == 0);
  REQUIRE(cudaUserObjectRelease(object, 1) == cudaSuccess);
  CHECK(ww::testing::leak_report().empty());  // waits for destructors
  CHECK(calls == 1);
  CHECK(ww::testing::stats().user_objects == 0);
}

TEST_CASE("a user object that the program still references is a leak") {
  ww::testing::reset_host_runtime();
  std::atomic<int> calls{0};
  cudaUserObject_t const object = object_that_counts(calls);
  auto const lines = ww::testing::leak_report();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines.front(), contains("user object 0x"));
  REQUIRE(cudaUserObjectRelease(object, 1) == cudaSuccess);
  CHECK(ww::testing::leak_report().empty());
}

TEST_CASE("a user object referenced only by a graph is listed with the graph") {
  ww::testing::reset_host_runtime();
  std::atomic<int> calls{0};
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphRetainUserObject(graph, object_that_counts(calls), 1, cudaGraphUserObjectMove) ==
          cudaSuccess);
  auto const lines = ww::testing::leak_report();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines.front(), contains("graph 0x"));
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(ww::testing::leak_report().empty());  // waits for the destructor, which counts in `calls`
  CHECK(calls == 1);
}

TEST_CASE("a reset destroys objects referenced only by graphs, and stops tracking the others") {
  ww::testing::reset_host_runtime();
  std::atomic<int> of_graph{0}, of_launch{0}, of_program{0};
  cudaGraph_t graph = nullptr, launched = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphRetainUserObject(graph, object_that_counts(of_graph), 1,
                                    cudaGraphUserObjectMove) == cudaSuccess);
  REQUIRE(cudaGraphCreate(&launched, 0) == cudaSuccess);
  REQUIRE(cudaGraphRetainUserObject(launched, object_that_counts(of_launch), 1,
                                    cudaGraphUserObjectMove) == cudaSuccess);
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, launched, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  object_that_counts(of_program);
  ww::testing::reset_host_runtime();
  CHECK(of_graph == 1);
  CHECK(of_launch == 1);
  CHECK(of_program == 0);
  CHECK(ww::testing::stats().user_objects == 0);
  CHECK(ww::testing::leak_report().empty());
}

TEST_CASE("a destructor must not call the runtime or access device memory") {
  ww::testing::reset_host_runtime();
  struct answers {
    cudaError_t of_malloc = cudaSuccess;
    cudaError_t of_release = cudaSuccess;
    cudaUserObject_t self = nullptr;
    static void CUDART_CB destroy(void* to) {
      auto* const a = static_cast<answers*>(to);
      void* p = nullptr;
      a->of_malloc = cudaMalloc(&p, 16);
      a->of_release = cudaUserObjectRelease(a->self, 1);
    }
  } a;
  REQUIRE(cudaUserObjectCreate(&a.self, &a, &answers::destroy, 1, no_sync) == cudaSuccess);
  REQUIRE(cudaUserObjectRelease(a.self, 1) == cudaSuccess);
  REQUIRE(ww::testing::leak_report().empty());
  CHECK(a.of_malloc == cudaErrorNotPermitted);
  CHECK(a.of_release == cudaErrorNotPermitted);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a slow destructor delays only later destructors") {
  ww::testing::reset_host_runtime();
  std::atomic<bool> open{false};
  std::atomic<int> calls{0};
  auto const wait = [](void* gate) {
    while (!static_cast<std::atomic<bool>*>(gate)->load()) {
    }
  };
  cudaUserObject_t slow = nullptr;
  REQUIRE(cudaUserObjectCreate(&slow, &open, wait, 1, no_sync) == cudaSuccess);
  REQUIRE(cudaUserObjectRelease(slow, 1) == cudaSuccess);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(cudaUserObjectRelease(object_that_counts(calls), 1) == cudaSuccess);
  }
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 16) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(calls == 0);
  CHECK(ww::testing::stats().user_objects == 101);
  open = true;
  CHECK(ww::testing::leak_report().empty());
  CHECK(calls == 100);
}
