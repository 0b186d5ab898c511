// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;

namespace {

void wait_for_flag(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}

void sleep_20_ms(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

}  // namespace

static_assert(!std::is_copy_constructible<ww::event>::value, "an event has one owner");
static_assert(std::is_nothrow_move_constructible<ww::timed_event>::value, "");

namespace {
template <class Stream, class = void>
struct can_record : std::false_type {};
template <class Stream>
struct can_record<Stream, decltype(std::declval<ww::event&>().record(std::declval<Stream>()),
                                   void())> : std::true_type {};
}  // namespace
static_assert(can_record<cudaStream_t>::value && can_record<ww::stream const&>::value, "");
static_assert(!can_record<std::nullptr_t>::value && !can_record<int>::value, "0 is no stream");

TEST_CASE("an event that was never recorded is done") {
  ww::event e;
  CHECK(e.done());
  e.synchronize();
}

TEST_CASE("an event is done after the work before it, and not later work") {
  ww::stream s;
  ww::event before;
  ww::event after;
  std::atomic<bool> release{false};
  before.record(s.get());
  before.synchronize();
  REQUIRE(cudaLaunchHostFunc(s.get(), &wait_for_flag, &release) == cudaSuccess);
  after.record(s.get());
  CHECK(before.done());
  CHECK_FALSE(after.done());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  // What the program has left pending stays.
  static_cast<void>(cudaSetDevice(12345));
  CHECK_FALSE(after.done());
  CHECK_FALSE(s.done());
  CHECK(ww::detail::discard(cudaEventQuery(after.get())) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  release = true;
  after.synchronize();
  CHECK(after.done());
}

TEST_CASE("timed events measure the work between them") {
  ww::stream s;
  ww::timed_event start;
  ww::timed_event stop;
  start.record(s.get());
  REQUIRE(cudaLaunchHostFunc(s.get(), &sleep_20_ms, nullptr) == cudaSuccess);
  stop.record(s.get());
  stop.synchronize();
  float const milliseconds = stop.milliseconds_since(start);
  CHECK(milliseconds >= 19.0F);
  CHECK(milliseconds < 5000.0F);
  CHECK(start.milliseconds_since(start) == 0.0F);
}

TEST_CASE("the time of unfinished or unrecorded work is an error, not a number") {
  ww::stream s;
  ww::timed_event start;
  ww::timed_event stop;
  CHECK_THROWS_AS(stop.milliseconds_since(start), ww::cuda_error);
  std::atomic<bool> release{false};
  start.record(s.get());
  REQUIRE(cudaLaunchHostFunc(s.get(), &wait_for_flag, &release) == cudaSuccess);
  stop.record(s.get());
  cudaError_t code = cudaSuccess;
  try {
    static_cast<void>(stop.milliseconds_since(start));
  } catch (ww::cuda_error const& error) {
    code = error.code();
  }
  release = true;
  CHECK(code == cudaErrorNotReady);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  s.synchronize();
}

TEST_CASE("moving an event keeps its record") {
  ww::stream s;
  ww::event a;
  a.record(s.get());
  cudaEvent_t const handle = a.get();
  ww::event b{std::move(a)};
  CHECK(b.get() == handle);
  ww::event c;
  c = std::move(b);
  CHECK(c.get() == handle);
  c.synchronize();
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("failing event calls throw, name the call and leak nothing") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream s;
  ww::timed_event start;
  ww::timed_event stop;
  start.record(s.get());
  stop.record(s.get());
  stop.synchronize();
  struct failing {
    char const* call;
    void (*use)(ww::stream&, ww::timed_event&, ww::timed_event&);
  };
  failing const cases[] = {
      {"cudaEventCreateWithFlags",
       [](ww::stream&, ww::timed_event&, ww::timed_event&) { ww::event e; }},
      {"cudaEventRecord",
       [](ww::stream& a, ww::timed_event& b, ww::timed_event&) { b.record(a.get()); }},
      {"cudaEventQuery", [](ww::stream&, ww::timed_event& b, ww::timed_event&) { (void)b.done(); }},
      {"cudaEventSynchronize",
       [](ww::stream&, ww::timed_event& b, ww::timed_event&) { b.synchronize(); }},
      {"cudaEventElapsedTime",
       [](ww::stream&, ww::timed_event& b, ww::timed_event& e) { (void)e.milliseconds_since(b); }},
  };
  for (failing const& each : cases) {
    CAPTURE(each.call);
    wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(each.call, 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(each.use(s, start, stop), contains(each.call));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  CHECK(wt::stats().events == 2);
}
#endif
