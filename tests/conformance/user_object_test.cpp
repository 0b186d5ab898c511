// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// User objects: references, and the call of the destructor. CUDA calls it asynchronously,
// on a thread of its own, so tests wait for it with a deadline, and check that an object exists
// by using it.
#include <chrono>
#include <climits>

#include "conformance.hpp"

using namespace conformance;

namespace {

constexpr unsigned no_sync = cudaUserObjectNoDestructorSync;
constexpr unsigned move = cudaGraphUserObjectMove;

// Counts the calls of its destructor.
class witness {
 public:
  witness() = default;
  witness(witness const&) = delete;
  witness& operator=(witness const&) = delete;

  cudaUserObject_t make(unsigned references = 1) {
    cudaUserObject_t object = nullptr;
    REQUIRE(try_make(&object, references) == cudaSuccess);
    REQUIRE(object != nullptr);
    return object;
  }

  cudaError_t try_make(cudaUserObject_t* object, unsigned references) {
    return cudaUserObjectCreate(object, this, &witness::destroy, references, no_sync);
  }

  int destroyed() const { return destroyed_.load(); }

  // Whether the destructor has been called `count` times, after some time.
  bool comes_to(int count) const {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (destroyed() < count && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return stays_at(count);
  }

  // Whether that holds, and still holds after the time that a destructor usually takes.
  bool stays_at(int count) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return destroyed() == count;
  }

 private:
  static void CUDART_CB destroy(void* self) { ++static_cast<witness*>(self)->destroyed_; }
  std::atomic<int> destroyed_{0};
};

cudaGraph_t new_graph() {
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  return graph;
}

// A graph of one node, so that an update has something to compare.
cudaGraph_t new_graph_of(cudaHostFn_t function, void* data) {
  cudaGraph_t graph = new_graph();
  cudaHostNodeParams const parameters = {function, data};
  cudaGraphNode_t node = nullptr;
  REQUIRE(cudaGraphAddHostNode(&node, graph, nullptr, 0, &parameters) == cudaSuccess);
  return graph;
}

cudaGraphExec_t instantiated(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  return exec;
}

void CUDART_CB nothing(void*) {}

void CUDART_CB wait_until_open(void* open) {
  while (!static_cast<std::atomic<bool>*>(open)->load()) std::this_thread::yield();
}

cudaGraph_t graph_of_capture(cudaStream_t s) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamGetCaptureInfo(s, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  REQUIRE(status == cudaStreamCaptureStatusActive);
  REQUIRE(graph != nullptr);
  return graph;
}

}  // namespace

TEST_CASE("the last reference of the program destroys the object") {
  witness w;
  cudaUserObject_t const object = w.make(2);
  SUCCEEDS(cudaUserObjectRetain(object, 3));
  SUCCEEDS(cudaUserObjectRelease(object, 1));
  SUCCEEDS(cudaUserObjectRelease(object, 3));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaUserObjectRelease(object, 1));
  CHECK(w.comes_to(1));
}

TEST_CASE("invalid arguments of user object calls") {
  witness w;
  cudaUserObject_t object = nullptr;
  RETURNS(cudaUserObjectCreate(nullptr, &w, nothing, 1, no_sync), cudaErrorInvalidValue);
  RETURNS(cudaUserObjectCreate(&object, &w, nullptr, 1, no_sync), cudaErrorInvalidValue);
  RETURNS(cudaUserObjectCreate(&object, &w, nothing, 1, 0), cudaErrorInvalidValue);
  object = w.make();
  RETURNS(cudaUserObjectRetain(object, 0), cudaErrorInvalidValue);
  RETURNS(cudaUserObjectRetain(object, unsigned{INT_MAX} + 1), cudaErrorInvalidValue);
  RETURNS(cudaUserObjectRelease(object, 0), cudaErrorInvalidValue);
  RETURNS(cudaUserObjectRelease(object, unsigned{INT_MAX} + 1), cudaErrorInvalidValue);
  graph const g;
  RETURNS(cudaGraphRetainUserObject(nullptr, object, 1, 0), cudaErrorInvalidValue);
  RETURNS(cudaGraphRetainUserObject(g, object, 0, 0), cudaErrorInvalidValue);
  RETURNS(cudaGraphRetainUserObject(g, object, 1, 2), cudaErrorInvalidValue);
  RETURNS(cudaGraphReleaseUserObject(g, object, 0), cudaErrorInvalidValue);
  // None of these calls had an effect.
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaUserObjectRelease(object, 1));
  CHECK(w.comes_to(1));
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("errors for behaviour that is undefined in CUDA") {
  witness w;
  cudaUserObject_t const object = w.make();
  cudaUserObject_t none = nullptr;
  graph const g;
  RETURNS(cudaUserObjectCreate(&none, &w, nothing, 0, no_sync), cudaErrorInvalidValue);
  RETURNS(cudaUserObjectRelease(object, 2), cudaErrorInvalidValue);
  RETURNS(cudaGraphReleaseUserObject(g, object, 1), cudaErrorInvalidValue);
  RETURNS(cudaGraphRetainUserObject(g, object, 2, move), cudaErrorInvalidValue);
  SUCCEEDS(cudaGraphRetainUserObject(g, object, 1, move));
  RETURNS(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
  RETURNS(cudaGraphReleaseUserObject(g, object, 2), cudaErrorInvalidValue);
  SUCCEEDS(cudaGraphReleaseUserObject(g, object, 1));
  CHECK(w.comes_to(1));
  RETURNS(cudaUserObjectRetain(object, 1), cudaErrorInvalidValue);
  RETURNS(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
  RETURNS(cudaGraphRetainUserObject(g, object, 1, 0), cudaErrorInvalidValue);
  RETURNS(cudaUserObjectRetain(nullptr, 1), cudaErrorInvalidValue);
}
#endif

TEST_CASE("a graph owns references that are moved to it") {
  witness w;
  cudaUserObject_t const object = w.make();
  cudaGraph_t const g = new_graph();
  SUCCEEDS(cudaGraphRetainUserObject(g, object, 1, move));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaGraphDestroy(g));
  CHECK(w.comes_to(1));
}

TEST_CASE("references of a graph are added to the program's") {
  witness w;
  cudaUserObject_t const object = w.make();
  cudaGraph_t const g = new_graph();
  SUCCEEDS(cudaGraphRetainUserObject(g, object, 2, 0));
  SUCCEEDS(cudaUserObjectRelease(object, 1));
  SUCCEEDS(cudaGraphReleaseUserObject(g, object, 1));
  CHECK(w.stays_at(0));
  // While a graph holds a reference, the program can retain the object again.
  SUCCEEDS(cudaUserObjectRetain(object, 1));
  SUCCEEDS(cudaGraphReleaseUserObject(g, object, 1));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaUserObjectRelease(object, 1));
  CHECK(w.comes_to(1));
  SUCCEEDS(cudaGraphDestroy(g));
  CHECK(w.stays_at(1));
}

TEST_CASE("a clone holds as many references as its source") {
  witness w;
  cudaUserObject_t const object = w.make(2);
  cudaGraph_t const g = new_graph();
  cudaGraph_t copy = nullptr;
  SUCCEEDS(cudaGraphRetainUserObject(g, object, 2, move));
  SUCCEEDS(cudaGraphClone(&copy, g));
  SUCCEEDS(cudaGraphDestroy(g));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaGraphReleaseUserObject(copy, object, 1));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaGraphReleaseUserObject(copy, object, 1));
  CHECK(w.comes_to(1));
  SUCCEEDS(cudaGraphDestroy(copy));
  CHECK(w.stays_at(1));
}

TEST_CASE("an executable graph holds its own references") {
  witness w;
  cudaUserObject_t const object = w.make();
  cudaGraph_t const g = new_graph_of(nothing, nullptr);
  SUCCEEDS(cudaGraphRetainUserObject(g, object, 1, move));
  cudaGraphExec_t const first = instantiated(g);
  cudaGraphExec_t const second = instantiated(g);
  SUCCEEDS(cudaGraphDestroy(g));
  stream const s;
  SUCCEEDS(cudaGraphLaunch(first, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaGraphExecDestroy(first));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaGraphExecDestroy(second));
  CHECK(w.comes_to(1));
}

TEST_CASE("references added to a graph after an instantiation do not affect the executable graph") {
  witness w;
  cudaUserObject_t const object = w.make();
  cudaGraph_t const g = new_graph_of(nothing, nullptr);
  cudaGraphExec_t const exec = instantiated(g);
  SUCCEEDS(cudaGraphRetainUserObject(g, object, 1, move));
  SUCCEEDS(cudaGraphDestroy(g));
  CHECK(w.comes_to(1));
  SUCCEEDS(cudaGraphExecDestroy(exec));
}

TEST_CASE("references of a child graph are copied with the child") {
  witness w;
  cudaUserObject_t const object = w.make();
  cudaGraph_t const child = new_graph_of(nothing, nullptr);
  SUCCEEDS(cudaGraphRetainUserObject(child, object, 1, move));
  cudaGraph_t const parent = new_graph();
  cudaGraphNode_t node = nullptr;
  SUCCEEDS(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, child));
  SUCCEEDS(cudaGraphDestroy(child));
  CHECK(w.stays_at(0));
  cudaGraphExec_t const exec = instantiated(parent);
  SUCCEEDS(cudaGraphDestroyNode(node));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  CHECK(w.comes_to(1));
  SUCCEEDS(cudaGraphDestroy(parent));
}

TEST_CASE(
    "an executable graph that is destroyed while it runs keeps its objects until it is done") {
  std::atomic<bool> open{false};
  witness w;
  cudaUserObject_t const object = w.make();
  cudaGraph_t const g = new_graph_of(wait_until_open, &open);
  SUCCEEDS(cudaGraphRetainUserObject(g, object, 1, move));
  cudaGraphExec_t const exec = instantiated(g);
  SUCCEEDS(cudaGraphDestroy(g));
  stream const s;
  cudaError_t const launched = cudaGraphLaunch(exec, s);
  cudaError_t const destroyed = cudaGraphExecDestroy(exec);
  bool const kept = w.stays_at(0);
  open.store(true);  // before a failed check can return
  SUCCEEDS(launched);
  SUCCEEDS(destroyed);
  CHECK(kept);
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(w.comes_to(1));
}

TEST_CASE("an update replaces the references") {
  witness old_one, new_one;
  cudaGraph_t const before = new_graph_of(nothing, nullptr);
  SUCCEEDS(cudaGraphRetainUserObject(before, old_one.make(), 1, move));
  cudaGraphExec_t const exec = instantiated(before);
  SUCCEEDS(cudaGraphDestroy(before));
  int data = 0;
  cudaGraph_t const after = new_graph_of(nothing, &data);
  SUCCEEDS(cudaGraphRetainUserObject(after, new_one.make(), 1, move));
  cudaGraphExecUpdateResultInfo info = {};
  SUCCEEDS(cudaGraphExecUpdate(exec, after, &info));
  CHECK(old_one.comes_to(1));
  SUCCEEDS(cudaGraphDestroy(after));
  CHECK(new_one.stays_at(0));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  CHECK(new_one.comes_to(1));
  CHECK(old_one.destroyed() == 1);
}

TEST_CASE("a failed update does not change the references") {
  witness old_one, new_one;
  cudaGraph_t const before = new_graph_of(nothing, nullptr);
  SUCCEEDS(cudaGraphRetainUserObject(before, old_one.make(), 1, move));
  cudaGraphExec_t const exec = instantiated(before);
  SUCCEEDS(cudaGraphDestroy(before));
  cudaGraph_t const after = new_graph();
  SUCCEEDS(cudaGraphRetainUserObject(after, new_one.make(), 1, move));
  cudaGraphExecUpdateResultInfo info = {};
  RETURNS(cudaGraphExecUpdate(exec, after, &info), cudaErrorGraphExecUpdateFailure);
  SUCCEEDS(cudaGraphDestroy(after));
  CHECK(new_one.comes_to(1));
  CHECK(old_one.stays_at(0));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  CHECK(old_one.comes_to(1));
}

TEST_CASE("objects replaced by an update exist until earlier launches are done") {
  std::atomic<bool> open{false};
  witness old_one, new_one;
  cudaGraph_t const before = new_graph_of(wait_until_open, &open);
  SUCCEEDS(cudaGraphRetainUserObject(before, old_one.make(), 1, move));
  cudaGraphExec_t const exec = instantiated(before);
  cudaGraph_t const after = new_graph_of(nothing, nullptr);
  SUCCEEDS(cudaGraphRetainUserObject(after, new_one.make(), 1, move));
  stream const s;
  cudaError_t const launched = cudaGraphLaunch(exec, s);
  cudaGraphExecUpdateResultInfo info = {};
  cudaError_t const updated = cudaGraphExecUpdate(exec, after, &info);
  cudaError_t const destroyed = cudaGraphDestroy(before);
  bool const kept = old_one.stays_at(0);
  open.store(true);
  SUCCEEDS(launched);
  SUCCEEDS(updated);
  SUCCEEDS(destroyed);
  CHECK(kept);
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(old_one.comes_to(1));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaGraphDestroy(after));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  CHECK(new_one.comes_to(1));
}

TEST_CASE("objects are added to a graph during its capture") {
  witness w;
  stream const s;
  device_memory<int> const memory(16);
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  cudaUserObject_t const object = w.make();
  SUCCEEDS(cudaGraphRetainUserObject(graph_of_capture(s), object, 1, move));
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, s));
  cudaGraph_t g = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t const exec = instantiated(g);
  SUCCEEDS(cudaGraphDestroy(g));
  SUCCEEDS(cudaGraphLaunch(exec, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaGraphExecDestroy(exec));
  CHECK(w.comes_to(1));
}

TEST_CASE("an invalidated capture releases its objects") {
  witness w;
  stream const s;
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  SUCCEEDS(cudaGraphRetainUserObject(graph_of_capture(s), w.make(), 1, move));
  RETURNS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t g = nullptr;
  RETURNS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
  CHECK(w.comes_to(1));
}

TEST_CASE("a capture whose stream is destroyed releases its objects") {
  witness w;
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  SUCCEEDS(cudaGraphRetainUserObject(graph_of_capture(s), w.make(), 1, move));
  SUCCEEDS(cudaStreamDestroy(s));
  CHECK(w.comes_to(1));
}

TEST_CASE("a destructor is ordered after the releases of references") {
  struct record {
    int from_program = 0;
    std::atomic<int> seen{-1};
    static void CUDART_CB destroy(void* self) {
      auto* const r = static_cast<record*>(self);
      r->seen.store(r->from_program);
    }
  } r;
  cudaUserObject_t object = nullptr;
  SUCCEEDS(cudaUserObjectCreate(&object, &r, &record::destroy, 1, no_sync));
  r.from_program = 7;  // ordered only by the release
  SUCCEEDS(cudaUserObjectRelease(object, 1));
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (r.seen.load() < 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  CHECK(r.seen.load() == 7);
}

TEST_CASE("threads share objects through their own graphs") {
  constexpr int threads = 4, rounds = 50;
  witness w;
  cudaUserObject_t const shared = w.make();
  std::atomic<int> wrong{0};
  std::vector<witness> mine(threads);
  auto const work = [&](witness& own) {
    auto const expect = [&wrong](cudaError_t code) { wrong += code != cudaSuccess; };
    cudaStream_t s = nullptr;
    expect(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    cudaHostNodeParams const parameters = {nothing, nullptr};
    for (int round = 0; round < rounds; ++round) {
      cudaGraph_t g = nullptr;
      cudaGraphNode_t node = nullptr;
      cudaGraphExec_t exec = nullptr;
      cudaUserObject_t object = nullptr;
      expect(cudaGraphCreate(&g, 0));
      expect(cudaGraphAddHostNode(&node, g, nullptr, 0, &parameters));
      expect(own.try_make(&object, 1));
      expect(cudaGraphRetainUserObject(g, object, 1, move));
      expect(cudaGraphRetainUserObject(g, shared, 1, 0));
      expect(cudaGraphInstantiate(&exec, g, 0));
      expect(cudaGraphDestroy(g));
      expect(cudaGraphLaunch(exec, s));
      expect(cudaGraphExecDestroy(exec));
    }
    expect(cudaStreamSynchronize(s));
    expect(cudaStreamDestroy(s));
  };
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i)
    pool.emplace_back(work, std::ref(mine[static_cast<std::size_t>(i)]));
  for (std::thread& thread : pool) thread.join();
  CHECK(wrong == 0);
  for (witness const& own : mine) CHECK(own.comes_to(rounds));
  CHECK(w.stays_at(0));
  SUCCEEDS(cudaUserObjectRelease(shared, 1));
  CHECK(w.comes_to(1));
}
