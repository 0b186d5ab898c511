// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Events: completion, waits and elapsed time.
#include <chrono>

#include "conformance.hpp"

using namespace conformance;

TEST_CASE("an event that was never recorded is done") {
  event const e;
  stream const s;
  SUCCEEDS(cudaEventQuery(e));
  SUCCEEDS(cudaEventSynchronize(e));
  SUCCEEDS(cudaStreamWaitEvent(s, e, 0));
}

TEST_CASE("an event is done when the work before it is") {
  gate closed;
  event const e;
  stream const s;
  SUCCEEDS(closed.block(s));
  SUCCEEDS(cudaEventRecord(e, s));
  RETURNS(cudaEventQuery(e), cudaErrorNotReady);
  closed.open();
  SUCCEEDS(cudaEventSynchronize(e));
  SUCCEEDS(cudaEventQuery(e));
}

TEST_CASE("a stream waits for an event, and for its state at the call") {
  gate closed;
  event const e;
  stream const a, b;
  SUCCEEDS(closed.block(a));
  SUCCEEDS(cudaEventRecord(e, a));
  SUCCEEDS(cudaStreamWaitEvent(b, e, 0));
  // A later record does not change what b waits for.
  stream const c;
  SUCCEEDS(cudaEventRecord(e, c));
  RETURNS(cudaStreamQuery(b), cudaErrorNotReady);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(b));
}

TEST_CASE("an event orders accesses of two streams to the same data") {
  event const e;
  stream const a, b;
  device_memory<float> const x(1 << 16), y(1 << 16);
  launch(a, 1 << 16, fill_with{x.data(), 2.0F});
  launch(b, 1 << 16, fill_with{y.data(), 1.0F});
  SUCCEEDS(cudaEventRecord(e, a));
  SUCCEEDS(cudaStreamWaitEvent(b, e, 0));
  launch(b, 1 << 16, add_to{y.data(), x.data()});
  SUCCEEDS(cudaStreamSynchronize(b));
  std::vector<float> const result = y.fetch();
  CHECK(result.front() == 3.0F);
  CHECK(result.back() == 3.0F);
}

TEST_CASE("elapsed time") {
  event const start(cudaEventDefault), end(cudaEventDefault), untimed;
  stream const s;
  float ms = -1.0F;
  SECTION("of events that were not recorded") {
    RETURNS(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
    SUCCEEDS(cudaEventRecord(start, s));
    SUCCEEDS(cudaStreamSynchronize(s));
    RETURNS(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
  }
  SECTION("of an event without timing") {
    SUCCEEDS(cudaEventRecord(untimed, s));
    SUCCEEDS(cudaStreamSynchronize(s));
    RETURNS(cudaEventElapsedTime(&ms, untimed, untimed), cudaErrorInvalidResourceHandle);
  }
  SECTION("before the end") {
    gate closed;
    SUCCEEDS(cudaEventRecord(start, s));
    SUCCEEDS(closed.block(s));
    SUCCEEDS(cudaEventRecord(end, s));
    RETURNS(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
    closed.open();
    SUCCEEDS(cudaStreamSynchronize(s));
  }
  SECTION("of ten milliseconds") {
    SUCCEEDS(cudaEventRecord(start, s));
    SUCCEEDS(cudaLaunchHostFunc(
        s, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }, nullptr));
    SUCCEEDS(cudaEventRecord(end, s));
    SUCCEEDS(cudaEventSynchronize(end));
    SUCCEEDS(cudaEventElapsedTime(&ms, start, end));
    CHECK(ms >= 9.5F);
    CHECK(ms < 5000.0F);
    SUCCEEDS(cudaEventElapsedTime(&ms, end, start));
    CHECK(ms <= -9.5F);
  }
  SECTION("no place for it") {
    RETURNS(cudaEventElapsedTime(nullptr, start, end), cudaErrorInvalidValue);
  }
}

TEST_CASE("invalid event flags") {
  cudaEvent_t e = nullptr;
  RETURNS(cudaEventCreateWithFlags(&e, 0x100), cudaErrorInvalidValue);
  RETURNS(cudaEventCreate(nullptr), cudaErrorInvalidValue);
  event const ok;
  stream const s;
  RETURNS(cudaEventRecordWithFlags(ok, s, 0x100), cudaErrorInvalidValue);
  RETURNS(cudaStreamWaitEvent(s, ok, 0x100), cudaErrorInvalidValue);
}

TEST_CASE("an event may be destroyed while a stream waits for it") {
  gate closed;
  stream const a, b;
  cudaEvent_t e = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&e, cudaEventDisableTiming) == cudaSuccess);
  SUCCEEDS(closed.block(a));
  SUCCEEDS(cudaEventRecord(e, a));
  SUCCEEDS(cudaStreamWaitEvent(b, e, 0));
  SUCCEEDS(cudaEventDestroy(e));
  RETURNS(cudaStreamQuery(b), cudaErrorNotReady);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(b));
}
