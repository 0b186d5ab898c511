// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/stream.hpp>

#include <atomic>
#include <set>
#include <thread>
#include <type_traits>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;

namespace {

void wait_for_flag(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}

void set_flag(void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }

}  // namespace

static_assert(!std::is_constructible<ww::stream_ref, int>::value, "0 is no stream");
static_assert(!std::is_constructible<ww::stream_ref, std::nullptr_t>::value,
              "nullptr is no stream");
static_assert(!std::is_constructible<ww::stream, std::nullptr_t>::value, "nullptr is no stream");
static_assert(!std::is_copy_constructible<ww::stream>::value, "a stream has one owner");
static_assert(std::is_nothrow_move_constructible<ww::stream>::value, "");
static_assert(std::is_trivially_copyable<ww::stream_ref>::value, "");

TEST_CASE("a struct with a stream and events is initialised by braces") {
  struct worker {
    ww::stream stream;
    ww::event begin;
    ww::timed_event end;
  };
  worker w{};
  worker v = {};
  CHECK(w.stream.get() != v.stream.get());
  w.begin.record(w.stream);
  v.stream.wait(w.begin);
  v.stream.synchronize();
}

TEST_CASE("a null handle is the default stream by name") {
  cudaStream_t const null_handle{};
  CHECK(ww::stream_ref{null_handle}.get() == WARPWRIGHT_DEFAULT_STREAM);
  CHECK(ww::stream_ref::legacy_default().get() == cudaStreamLegacy);
  CHECK(ww::stream_ref::per_thread().get() == cudaStreamPerThread);
}

TEST_CASE("streams have unique ids, also through a raw handle") {
  ww::stream a;
  ww::stream b;
  CHECK(a.id() != b.id());
  CHECK(a.id() == ww::stream_ref{a.get()}.id());
  CHECK(a.ref().id() == a.id());
  CHECK(ww::stream_ref{a.get()}.resolved().id() == a.id());
}

TEST_CASE("an id is not reused, though a handle may be") {
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 100; ++i) {
    ww::stream s;
    CHECK(ids.insert(s.id()).second);
  }
}

TEST_CASE("id() makes no CUDA call if the reference has its id") {
  ww::stream s;
  ww::stream_ref const kept = s;
  ww::stream_ref const resolved = ww::stream_ref{s.get()}.resolved();
#if WARPWRIGHT_HOST_RUNTIME
  auto const before = ww::testing::total_calls();
#endif
  CHECK(kept.id() == s.id());
  CHECK(resolved.id() == s.id());
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == before);
#endif
}

TEST_CASE("a stream is non-blocking and has the requested priority") {
  ww::stream_priority_range const range = ww::get_stream_priority_range();
  REQUIRE(range.greatest <= range.least);
  for (int priority = range.greatest; priority <= range.least; ++priority) {
    ww::stream s{ww::current_device(), priority};
    int actual = 99;
    REQUIRE(cudaStreamGetPriority(s.get(), &actual) == cudaSuccess);
    CHECK(actual == priority);
    unsigned flags = 0;
    REQUIRE(cudaStreamGetFlags(s.get(), &flags) == cudaSuccess);
    CHECK(flags == cudaStreamNonBlocking);
  }
}

TEST_CASE("a priority out of range throws and is not clamped") {
  ww::stream_priority_range const range = ww::get_stream_priority_range();
  CHECK_THROWS_AS(ww::stream(ww::current_device(), range.greatest - 1), std::invalid_argument);
  CHECK_THROWS_WITH(ww::stream(ww::current_device(), range.least + 1),
                    contains("stream priority " + std::to_string(range.least + 1)));
}

TEST_CASE("a stream on a device that does not exist throws") {
  CHECK_THROWS_AS(ww::stream{ww::device_id{ww::device_count()}}, ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("moving a stream moves its work and its id") {
  ww::stream a;
  cudaStream_t const handle = a.get();
  auto const id = a.id();
  ww::stream b{std::move(a)};
  CHECK(b.get() == handle);
  CHECK(b.id() == id);
  ww::stream c;
  c = std::move(b);
  CHECK(c.get() == handle);
  CHECK(b.get() != handle);  // NOLINT(bugprone-use-after-move)
  c.synchronize();
}

TEST_CASE("done and synchronize follow the work") {
  ww::stream s;
  CHECK(s.done());
  std::atomic<bool> release{false};
  REQUIRE(cudaLaunchHostFunc(s.get(), &wait_for_flag, &release) == cudaSuccess);
  CHECK_FALSE(s.done());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  release = true;
  s.synchronize();
  CHECK(s.done());
}

TEST_CASE("a stream that waits for another is ordered after it") {
  ww::stream first;
  ww::stream second;
  std::atomic<bool> release{false};
  std::atomic<bool> ran{false};
  REQUIRE(cudaLaunchHostFunc(first.get(), &wait_for_flag, &release) == cudaSuccess);
  SECTION("by stream") { second.wait(first); }
  SECTION("by event") {
    ww::event marker;
    marker.record(first.get());
    second.wait(marker);
  }
  REQUIRE(cudaLaunchHostFunc(second.get(), &set_flag, &ran) == cudaSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(ran);
  release = true;
  second.synchronize();
  CHECK(ran);
  first.synchronize();
}

TEST_CASE("is_capturing, and the error of a query of a capturing stream") {
  ww::stream s;
  CHECK_FALSE(s.is_capturing());
  REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(s.is_capturing());
  CHECK_THROWS_AS(s.synchronize(), ww::cuda_error);
  cudaGraph_t graph = nullptr;
  cudaError_t const ended = cudaStreamEndCapture(s.get(), &graph);
  CHECK(ended == cudaErrorStreamCaptureInvalidated);
  static_cast<void>(cudaGetLastError());
  CHECK_FALSE(s.is_capturing());
  s.synchronize();
}

TEST_CASE("many threads create, use and destroy streams concurrently") {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      try {
        for (int i = 0; i < 20; ++i) {
          ww::stream a;
          ww::stream b;
          b.wait(a);
          b.synchronize();
        }
      } catch (...) {
        ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a stream whose creation fails midway leaks nothing") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  for (char const* call : {"cudaGetDevice", "cudaDeviceGetStreamPriorityRange",
                           "cudaStreamCreateWithPriority", "cudaStreamGetId"}) {
    CAPTURE(call);
    wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call, 1, cudaErrorMemoryAllocation)};
    CHECK_THROWS_AS(ww::stream(ww::device_id{0}, -1), ww::cuda_error);
    CHECK(plan.hits() == 1);
    CHECK(wt::stats().streams == 0);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("failing stream calls throw and name the call") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream s;
  ww::stream other;
  ww::event e;
  struct failing {
    char const* call;
    void (*use)(ww::stream&, ww::stream&, ww::event&);
  };
  failing const cases[] = {
      {"cudaStreamSynchronize", [](ww::stream& a, ww::stream&, ww::event&) { a.synchronize(); }},
      {"cudaStreamQuery", [](ww::stream& a, ww::stream&, ww::event&) { (void)a.done(); }},
      {"cudaStreamIsCapturing",
       [](ww::stream& a, ww::stream&, ww::event&) { (void)a.is_capturing(); }},
      {"cudaStreamWaitEvent", [](ww::stream& a, ww::stream&, ww::event& m) { a.wait(m); }},
      {"cudaEventCreateWithFlags", [](ww::stream& a, ww::stream& b, ww::event&) { a.wait(b); }},
      {"cudaEventRecord", [](ww::stream& a, ww::stream& b, ww::event&) { a.wait(b); }},
      {"cudaStreamGetId",
       [](ww::stream& a, ww::stream&, ww::event&) { (void)ww::stream_ref{a.get()}.id(); }},
  };
  for (failing const& each : cases) {
    CAPTURE(each.call);
    wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(each.call, 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(each.use(s, other, e), contains(each.call));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  CHECK(wt::stats().events == 1);
}
#endif
