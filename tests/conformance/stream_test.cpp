// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams: order, queries, host functions, and the rules of the default streams.
#include "conformance.hpp"

using namespace conformance;

namespace {

struct trace {
  std::atomic<int> next{0};
  int order[8] = {};
};

struct mark {
  trace* where;
  int id;
};

void CUDART_CB set_mark(void* raw) {
  mark const& m = *static_cast<mark*>(raw);
  m.where->order[m.where->next.fetch_add(1)] = m.id;
}

}  // namespace

TEST_CASE("streams report the flags and priority of their creation") {
  cudaStream_t s = nullptr;
  unsigned flags = 99;
  int priority = 99;
  SUCCEEDS(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -2));
  SUCCEEDS(cudaStreamGetFlags(s, &flags));
  SUCCEEDS(cudaStreamGetPriority(s, &priority));
  CHECK(flags == cudaStreamNonBlocking);
  CHECK(priority == -2);
  SUCCEEDS(cudaStreamDestroy(s));
  SUCCEEDS(cudaStreamCreateWithPriority(&s, cudaStreamDefault, -100));
  SUCCEEDS(cudaStreamGetPriority(s, &priority));
  CHECK(priority == -5);
  SUCCEEDS(cudaStreamDestroy(s));
  SUCCEEDS(cudaStreamCreateWithPriority(&s, cudaStreamDefault, 100));
  SUCCEEDS(cudaStreamGetPriority(s, &priority));
  CHECK(priority == 0);
  SUCCEEDS(cudaStreamDestroy(s));
  RETURNS(cudaStreamCreateWithFlags(&s, 0x100), cudaErrorInvalidValue);
  RETURNS(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
}

TEST_CASE("streams have unique ids") {
  stream const a, b;
  unsigned long long id_a = 0, id_b = 0, legacy = 0, legacy_again = 0, mine = 0, others = 0;
  SUCCEEDS(cudaStreamGetId(a, &id_a));
  SUCCEEDS(cudaStreamGetId(b, &id_b));
  SUCCEEDS(cudaStreamGetId(cudaStreamLegacy, &legacy));
  SUCCEEDS(cudaStreamGetId(cudaStreamLegacy, &legacy_again));
  SUCCEEDS(cudaStreamGetId(cudaStreamPerThread, &mine));
  std::thread([&others] { cudaStreamGetId(cudaStreamPerThread, &others); }).join();
  CHECK(id_a != id_b);
  CHECK(legacy == legacy_again);
  CHECK(mine != legacy);
  CHECK(mine != others);
  int device = -1;
  SUCCEEDS(cudaStreamGetDevice(a, &device));
  CHECK(device == 0);
}

TEST_CASE("a stream runs its work in order, and queries return when it is done") {
  gate closed;
  stream const s;
  trace t;
  mark first{&t, 1}, second{&t, 2}, third{&t, 3};
  SUCCEEDS(closed.block(s));
  SUCCEEDS(cudaLaunchHostFunc(s, set_mark, &first));
  SUCCEEDS(cudaLaunchHostFunc(s, set_mark, &second));
  SUCCEEDS(cudaLaunchHostFunc(s, set_mark, &third));
  RETURNS(cudaStreamQuery(s), cudaErrorNotReady);
  CHECK(t.next.load() == 0);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaStreamQuery(s));
  CHECK(t.order[0] == 1);
  CHECK(t.order[1] == 2);
  CHECK(t.order[2] == 3);
}

TEST_CASE("work of a destroyed stream still runs") {
  cudaStream_t s = nullptr;
  trace t;
  mark m{&t, 1};
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  SUCCEEDS(cudaLaunchHostFunc(s, set_mark, &m));
  SUCCEEDS(cudaStreamDestroy(s));
  SUCCEEDS(cudaDeviceSynchronize());
  CHECK(t.next.load() == 1);
}

TEST_CASE("the legacy stream waits for blocking streams and they for it") {
  gate closed;
  stream const blocking(cudaStreamDefault);
  device_memory<int> const memory(16);
  SECTION("legacy after blocking") {
    SUCCEEDS(closed.block(blocking));
    SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, cudaStreamLegacy));
    RETURNS(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  }
  SECTION("blocking after legacy") {
    SUCCEEDS(closed.block(cudaStreamLegacy));
    SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, blocking));
    RETURNS(cudaStreamQuery(blocking), cudaErrorNotReady);
  }
  closed.open();
  SUCCEEDS(cudaDeviceSynchronize());
  SUCCEEDS(cudaStreamQuery(blocking));
  SUCCEEDS(cudaStreamQuery(cudaStreamLegacy));
}

TEST_CASE("non-blocking streams and the legacy stream do not wait for each other") {
  gate closed;
  stream const free_stream;
  device_memory<int> const memory(16);
  SECTION("legacy past non-blocking") {
    SUCCEEDS(closed.block(free_stream));
    SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, cudaStreamLegacy));
    SUCCEEDS(cudaStreamSynchronize(cudaStreamLegacy));
    RETURNS(cudaStreamQuery(free_stream), cudaErrorNotReady);
  }
  SECTION("non-blocking past legacy") {
    SUCCEEDS(closed.block(cudaStreamLegacy));
    SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, free_stream));
    SUCCEEDS(cudaStreamSynchronize(free_stream));
    RETURNS(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  }
  closed.open();
  SUCCEEDS(cudaDeviceSynchronize());
}

TEST_CASE("the per-thread stream waits with the legacy stream") {
  gate closed;
  device_memory<int> const memory(16);
  SUCCEEDS(closed.block(cudaStreamLegacy));
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 4, cudaStreamPerThread));
  RETURNS(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(cudaStreamPerThread));
}

TEST_CASE("the default stream depends on how the file is compiled") {
  unsigned long long null_id = 0, legacy = 0, mine = 0;
  SUCCEEDS(cudaStreamGetId(nullptr, &null_id));
  SUCCEEDS(cudaStreamGetId(cudaStreamLegacy, &legacy));
  SUCCEEDS(cudaStreamGetId(cudaStreamPerThread, &mine));
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
  CHECK(null_id == mine);
#else
  CHECK(null_id == legacy);
#endif
}

TEST_CASE("a host function may not call the runtime") {
  stream const s;
  std::atomic<int> code{-1};
  SUCCEEDS(cudaLaunchHostFunc(
      s,
      [](void* raw) {
        void* p = nullptr;
        static_cast<std::atomic<int>*>(raw)->store(static_cast<int>(cudaMalloc(&p, 16)));
      },
      &code));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(code.load() == static_cast<int>(cudaErrorNotPermitted));
  RETURNS(cudaLaunchHostFunc(s, nullptr, nullptr), cudaErrorInvalidValue);
}

TEST_CASE("a stream callback receives the stream's status") {
  stream const s;
  std::atomic<int> code{-1};
  SUCCEEDS(cudaStreamAddCallback(
      s,
      [](cudaStream_t, cudaError_t status, void* raw) {
        static_cast<std::atomic<int>*>(raw)->store(static_cast<int>(status));
      },
      &code, 0));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(code.load() == 0);
}
