// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Mistakes that involve other threads, streams, captures, devices and launches: the report names
// the cause, and stream, pool and the next capture work afterwards.
#include "graph/mistake_support.hpp"

#include <warpwright/graph/conditional.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <thread>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

namespace {

void allocate() {
  void* p = nullptr;
  if (cudaMalloc(&p, 256) == cudaSuccess) static_cast<void>(cudaFree(p));
  static_cast<void>(cudaGetLastError());
}

}  // namespace

TEST_CASE("another thread's cudaMalloc breaks a global capture, and is named with its thread") {
  bench_of_mistakes b;
  auto const body = [&](ww::stream_ref c) {
    std::thread other{&allocate};
    other.join();
    ww::for_each_index(c, 64, add_to{b.x.data(), 1});
  };
  auto const report = b.report_of(
      [&](ww::capture_scope& scope) {
        scope.mark("loader");
        try {
          body(scope);
        } catch (ww::cuda_error const&) {  // the launch tells that the capture is invalid
        }
      },
      ww::capture_mode::global);
  CHECK(names(report, "lloc"));
  CHECK(report.mark == "loader");
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(report.by_other_thread);
  CHECK_FALSE(report.thread.empty());
  CHECK(contains_text(report.cause(), "in another thread"));
  CHECK_FALSE(
      contains_text(report.to_text(), "stand anywhere in the body"));  // it is not in the body
  CHECK(contains_text(report.remedy(), "capture_mode::thread"));
  CHECK(contains_text(report.log, "initiated from another thread"));
#endif
  b.check_usable();
  // The remedy.
  CHECK(ww::capture(b.s, body).size() == 1);
}

TEST_CASE("a failure of another thread does not become the cause of this thread's") {
  bench_of_mistakes b;
  ww::stream theirs;
  auto const report = b.report_of([&](ww::stream_ref c) {
    std::thread other{[&] {
      CHECK_THROWS_AS(ww::capture(theirs, [](ww::stream_ref) { allocate(); }), ww::capture_error);
    }};
    other.join();
    static_cast<void>(cudaStreamQuery(c));
    static_cast<void>(cudaGetLastError());
    std::thread{[&] {  // whose end of a capture is the last in the log
      CHECK_THROWS_AS(ww::capture(theirs, [](ww::stream_ref) { allocate(); }), ww::capture_error);
    }}
        .join();
  });
  CHECK(names(report, "StreamQuery"));
  CHECK_FALSE(report.by_other_thread);
  b.check_usable();
}

TEST_CASE("another thread's wait for the device breaks a capture of any mode, and is named") {
  bench_of_mistakes b;
  auto const report = b.report_of([&](ww::stream_ref) {
    std::thread{[] {
      static_cast<void>(cudaDeviceSynchronize());
      static_cast<void>(cudaGetLastError());
    }}.join();
  });
  CHECK(names(report, "Synchronize"));
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(report.by_other_thread);
  CHECK(contains_text(report.remedy(), "no thread may make that call"));
#endif
  b.check_usable();
}

TEST_CASE("two captures that depend on each other break both") {
  bench_of_mistakes b;
  ww::stream other;
  ww::capture_scope theirs{other};
  auto const report = b.report_of([&](ww::stream_ref c) { c.wait(other); });
  CHECK(report.code == cudaErrorStreamCaptureMerge);
  CHECK(contains_text(report.cause(), "another capture"));
  CHECK_THROWS_AS(static_cast<void>(theirs.end()), ww::capture_error);
  CHECK_FALSE(other.is_capturing());
  b.check_usable();
}

TEST_CASE("a dependency on work outside of the capture is reported") {
  bench_of_mistakes b;
  ww::stream outside;
  ww::event e;
  e.record(outside);
  auto const report = b.report_of([&](ww::stream_ref c) { c.wait(e); });
  CHECK(report.code == cudaErrorStreamCaptureIsolation);
  CHECK(contains_text(report.cause(), "recorded outside of the capture"));
  CHECK(contains_text(report.remedy(), "wait before the capture begins"));
  b.check_usable();
}

TEST_CASE("a graph launched into a capture breaks it") {
  bench_of_mistakes b;
  auto const body = [&](ww::stream_ref c) { ww::for_each_index(c, 64, add_to{b.x.data(), 1}); };
  ww::graph_exec exec{ww::capture(b.s, body)};
  auto const report = b.report_of([&](ww::stream_ref c) { exec.launch(c); });
  CHECK(report.code == cudaErrorStreamCaptureUnsupported);
  CHECK(contains_text(report.remedy(), "call the code that the graph was captured from"));
  b.check_usable();
  exec.launch(b.s);
  b.s.synchronize();
}

TEST_CASE("a capture is ended on its stream, by its thread") {
  bench_of_mistakes b;
  SECTION("not on another stream of the capture") {
    ww::stream other;
    auto const report = b.report_of([&](ww::capture_scope& scope) {
      scope.fork(other);
      cudaGraph_t graph = nullptr;
      ww::check(cudaStreamEndCapture(other.get(), &graph), "cudaStreamEndCapture");
    });
    CHECK(report.code == cudaErrorStreamCaptureUnmatched);
    CHECK(contains_text(report.remedy(), "on the stream where it began"));
    CHECK_FALSE(other.is_capturing());
  }
  SECTION("not by another thread") {
    std::optional<ww::capture_scope> scope;
    scope.emplace(b.s);
    std::exception_ptr thrown;
    std::thread{[&] {
      try {
        static_cast<void>(scope->end());
      } catch (...) {
        thrown = std::current_exception();
      }
    }}.join();
    REQUIRE(thrown);
    CHECK_THROWS_WITH(std::rethrow_exception(thrown), contains("ended by another thread"));
    scope.reset();
  }
  b.check_usable();
}

TEST_CASE("a graph that keeps memory cannot be launched twice, and the error says what to do") {
  bench_of_mistakes b;
  void* kept = nullptr;
  auto const body = [&](ww::stream_ref c) {
    ww::check(cudaMallocAsync(&kept, 4096, c), "cudaMallocAsync");
    ww::check(cudaMemsetAsync(kept, 1, 4096, c), "cudaMemsetAsync");
  };
  SECTION("without a flag") {
    ww::graph_exec exec{ww::capture(b.s, body)};
    exec.launch(b.s);
    CHECK_THROWS_WITH(exec.launch(b.s), contains("graph_flags::auto_free_on_launch"));
    ww::check(cudaFreeAsync(kept, b.s), "cudaFreeAsync");
    exec.launch(b.s);
    ww::check(cudaFreeAsync(kept, b.s), "cudaFreeAsync");
    b.s.synchronize();
  }
  SECTION("with the flag it can") {
    ww::graph_exec exec{ww::capture(b.s, body), ww::graph_flags::auto_free_on_launch};
    for (int i = 0; i < 3; ++i) exec.launch(b.s);
    ww::check(cudaFreeAsync(kept, b.s), "cudaFreeAsync");
    b.s.synchronize();
  }
  b.check_usable();
}

TEST_CASE("what a conditional node's body does not allow") {
  bench_of_mistakes b;
  device_array<int> running{std::vector<int>(1, 0)};
  SECTION("a synchronisation is named") {
    auto const report = b.report_of([&](ww::capture_scope& scope) {
      scope.mark("solver");
      ww::repeat_while(scope, running.data(), [](ww::stream_ref loop) { loop.synchronize(); });
    });
    CHECK(report.code == cudaErrorStreamCaptureUnsupported);
    CHECK(std::string{report.api} == "cudaStreamSynchronize");
    CHECK(report.mark == "solver");
  }
  SECTION("a host function fails, at the latest when the graph is instantiated") {
    auto const build = [&] {
      ww::graph_exec const exec{ww::capture(b.s, [&](ww::stream_ref c) {
        ww::repeat_while(c, running.data(), [](ww::stream_ref loop) {
          ww::check(cudaLaunchHostFunc(
                        loop, [](void*) {}, nullptr),
                    "cudaLaunchHostFunc");
        });
      })};
    };
    CHECK_THROWS_AS(build(), ww::cuda_error);
  }
  SECTION("a condition's handle of another graph is refused") {
#if CUDART_VERSION >= 13000
    cudaGraph_t other = nullptr;
    REQUIRE(cudaGraphCreate(&other, 0) == cudaSuccess);
    cudaGraphConditionalHandle handle = 0;
    REQUIRE(cudaGraphConditionalHandleCreate(&handle, other, 0, 0) == cudaSuccess);
    ww::capture_scope scope{b.s};
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t mine = nullptr;
    REQUIRE(cudaStreamGetCaptureInfo(b.s, &status, nullptr, &mine, nullptr, nullptr, nullptr) ==
            cudaSuccess);
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeIf;
    params.conditional.size = 1;
    cudaGraphNode_t node = nullptr;
    CHECK(cudaGraphAddNode(&node, mine, nullptr, nullptr, 0, &params) != cudaSuccess);
    static_cast<void>(cudaGetLastError());
    CHECK(scope.end().size() == 0);  // and the capture is unharmed
    REQUIRE(cudaGraphDestroy(other) == cudaSuccess);
#endif
  }
  b.check_usable();
}

#if WARPWRIGHT_HOST_RUNTIME  // undefined behaviour with a GPU's runtime
TEST_CASE("a stream destroyed during the capture is reported") {
  bench_of_mistakes b;
  SECTION("a forked one") {
    auto const report = b.report_of([&](ww::capture_scope& scope) {
      ww::stream const local;
      scope.fork(local);
      ww::for_each_index(local, 64, add_to{b.x.data(), 1});
    });
    CHECK(report.code == cudaErrorInvalidResourceHandle);
    CHECK(contains_text(report.cause(), "was destroyed"));
    CHECK(contains_text(report.remedy(), "after the capture has ended"));
  }
  SECTION("the capturing one") {
    auto doomed = std::make_unique<ww::stream>();
    ww::capture_scope scope{*doomed};
    doomed.reset();
    try {
      static_cast<void>(scope.end());
      FAIL("the capture succeeded");
    } catch (ww::capture_error const& error) {
      CHECK(error.report().obstacle == ww::capture_obstacle::unknown_stream);
      CHECK(error.report().cause() == "the stream was destroyed during the capture");
    }
  }
  SECTION("before it began") {
    cudaStream_t gone = nullptr;
    {
      ww::stream const s;
      gone = s.get();
    }
    CHECK(ww::preflight(gone) == ww::capture_obstacle::unknown_stream);
    CHECK_THROWS_AS(ww::capture(gone, [](ww::stream_ref) {}), ww::cuda_error);
  }
  b.check_usable();
}

TEST_CASE("the wrong device") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    bench_of_mistakes b;
    ww::device_id const second{1};
    SECTION("a capture with branches works whatever device is current") {
      ww::stream s{second};
      ww::stream t{second};
      ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
        scope.fork(t);
        scope.fork(2, [&](ww::stream_ref branch, unsigned) {
          ww::scoped_device const current{second};
          ww::for_each_index(branch, 1, add_to{b.x.data(), 0});
        });
      });
      CHECK(captured.size() == 2);
      CHECK(ww::current_device() == ww::device_id{0});
    }
    SECTION("a branch may be a stream of another device") {
      ww::stream other{second};
      ww::graph const captured = ww::capture(b.s, [&](ww::capture_scope& scope) {
        scope.fork(other);
        ww::for_each_index(other, 1, add_to{b.x.data(), 0});
      });
      CHECK(captured.size() == 1);
    }
    SECTION("an event of another device than the stream's is reported") {
      ww::scoped_device const current{second};
      ww::event const e;
      auto const report = b.report_of([&](ww::stream_ref c) {
        ww::check(cudaEventRecord(e.get(), c.get()), "cudaEventRecord");
      });
      CHECK(contains_text(report.cause(), "another device"));
    }
    b.check_usable();
  }
  ww::testing::reset_host_runtime();
}
#endif
