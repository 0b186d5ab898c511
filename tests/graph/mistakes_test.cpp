// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Mistakes in a captured body, made by the capturing thread: the report names the cause, and
// stream, pool and the next capture work afterwards.
#include "graph/mistake_support.hpp"

#include <warpwright/graph/graph_audit.hpp>

#include <stdexcept>

namespace ww = warpwright;
using namespace test_support;

TEST_CASE("a synchronisation in the body is named") {
  bench_of_mistakes b;
  SECTION("if its error is ignored") {
    auto const report =
        b.report_of([](ww::stream_ref c) { static_cast<void>(cudaStreamSynchronize(c)); });
    CHECK(report.code == cudaErrorStreamCaptureInvalidated);
    CHECK(names(report, "StreamSynchronize"));
    CHECK_FALSE(report.by_other_thread);
#if WARPWRIGHT_HOST_RUNTIME
    CHECK(report.broken_with == cudaErrorStreamCaptureUnsupported);
    CHECK(contains_text(report.remedy(), "synchronise after the graph's launch"));
    CHECK(contains_text(report.log, "cudaStreamSynchronize"));
#endif
  }
  SECTION("with its line, if it throws") {
    int line = 0;
    auto const report = b.report_of([&line](ww::stream_ref c) {
      line = __LINE__ + 1;
      c.synchronize();
    });
    CHECK(report.code == cudaErrorStreamCaptureUnsupported);
    CHECK(std::string{report.api} == "cudaStreamSynchronize");
    CHECK(report.where.line() == line);
    CHECK(contains_text(report.where.file(), "mistakes_test"));
    CHECK(contains_text(report.to_text(), ("mistakes_test.cpp:" + std::to_string(line)).c_str()));
  }
  SECTION("of the whole device") {
    auto const report =
        b.report_of([](ww::stream_ref) { static_cast<void>(cudaDeviceSynchronize()); });
    CHECK(names(report, "Synchronize"));
  }
  b.check_usable();
}

TEST_CASE("cudaMalloc in the body is named, with the remedy") {
  bench_of_mistakes b;
  auto const report = b.report_of([](ww::stream_ref) {
    void* p = nullptr;
    static_cast<void>(cudaMalloc(&p, 256));
  });
  CHECK(names(report, "lloc"));
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(contains_text(report.remedy(), "allocate before the capture, or from a memory_pool"));
#endif
  b.check_usable();
}

TEST_CASE("cudaFree in the body is named") {
  bench_of_mistakes b;
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, 256) == cudaSuccess);
  auto const report = b.report_of([p](ww::stream_ref) { static_cast<void>(cudaFree(p)); });
  CHECK(names(report, "Free"));
  static_cast<void>(cudaFree(p));
  static_cast<void>(cudaGetLastError());
  b.check_usable();
}

TEST_CASE("work on the legacy default stream breaks the capture of a blocking stream") {
  bench_of_mistakes b;
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  CHECK(ww::preflight(blocking) == ww::capture_obstacle::blocking_stream);
  try {
    ww::graph const captured = ww::capture(blocking, [&](ww::stream_ref) {
      static_cast<void>(cudaMemsetAsync(b.x.data(), 0, 4, cudaStreamLegacy));
    });
    FAIL("the capture succeeded");
  } catch (ww::capture_error const& error) {
    CHECK(names(error.report(), "Memset"));
    CHECK(error.report().obstacle == ww::capture_obstacle::blocking_stream);
#if WARPWRIGHT_HOST_RUNTIME
    CHECK(error.report().broken_with == cudaErrorStreamCaptureImplicit);
    CHECK(contains_text(error.what(), "create it with cudaStreamNonBlocking"));
#endif
  }
  REQUIRE(cudaStreamDestroy(blocking) == cudaSuccess);
  b.check_usable();
}

TEST_CASE("the legacy default stream cannot be captured, and the preflight says so") {
  bench_of_mistakes b;
  ww::stream_ref const legacy = ww::stream_ref::legacy_default();
  CHECK(ww::preflight(legacy) == ww::capture_obstacle::legacy_stream);
  CHECK_THROWS_WITH(ww::capture(legacy, [](ww::stream_ref) {}),
                    contains(ww::to_string(ww::capture_obstacle::legacy_stream)));
  b.check_usable();
}

TEST_CASE("a copy that waits is not captured, and the audit says that the graph is empty") {
  bench_of_mistakes b;
  std::vector<int> const host(64, 3);
  ww::graph const captured = ww::capture(b.s, [&](ww::stream_ref) {
    ww::check(cudaMemcpy(b.x.data(), host.data(), 64 * sizeof(int), cudaMemcpyHostToDevice),
              "cudaMemcpy");
  });
  CHECK(b.x.fetch(b.s) == host);
  CHECK(captured.node_counts().total() == 0);
  CHECK(ww::audit(captured).empty());
  b.check_usable();
}

TEST_CASE("a captured copy of pageable memory is found by the audit") {
  bench_of_mistakes b;
  std::vector<int> const host(64, 3);
  ww::graph const captured = ww::capture(b.s, [&](ww::stream_ref c) {
    ww::check(cudaMemcpyAsync(b.x.data(), host.data(), 64 * sizeof(int), cudaMemcpyHostToDevice, c),
              "cudaMemcpyAsync");
  });
  CHECK(ww::audit(captured).pageable_copies == 1);
  CHECK(contains_text(ww::audit(captured).to_text(), "pageable"));
  b.check_usable();
}

TEST_CASE("a stream forked by hand and not joined is reported with the remedy") {
  bench_of_mistakes b;
  ww::stream other;
  auto const report = b.report_of([&](ww::stream_ref c) {
    other.wait(c);
    ww::for_each_index(other, 64, add_to{b.x.data(), 1});
  });
  CHECK(report.code == cudaErrorStreamCaptureUnjoined);
  CHECK(contains_text(report.cause(), "not joined"));
  CHECK(contains_text(report.remedy(), "capture_scope::fork"));
  CHECK_FALSE(other.is_capturing());
  b.check_usable();
}

TEST_CASE("a query of an event that was recorded in the capture is named") {
  bench_of_mistakes b;
  ww::event e;
  SECTION("an ignored one") {
    auto const report = b.report_of([&](ww::stream_ref c) {
      e.record(c);
      static_cast<void>(cudaEventQuery(e.get()));
    });
    CHECK(names(report, "EventQuery"));
  }
  SECTION("a checked one") {
    auto const report = b.report_of([&](ww::stream_ref c) {
      e.record(c);
      static_cast<void>(e.done());
    });
    CHECK(report.code == cudaErrorCapturedEvent);
    CHECK(contains_text(report.cause(), "was queried"));
  }
  b.check_usable();
}

TEST_CASE("exceptions of the body and of branches pass unchanged") {
  bench_of_mistakes b;
  CHECK_THROWS_WITH(ww::capture(b.s, [](ww::stream_ref) { throw std::runtime_error{"mine"}; }),
                    "mine");
  b.check_usable();
  CHECK_THROWS_WITH(ww::capture(b.s,
                                [&](ww::capture_scope& scope) {
                                  scope.fork(3, [&](ww::stream_ref c, unsigned i) {
                                    ww::for_each_index(c, 64, add_to{b.x.data(), 1});
                                    if (i == 1) throw std::runtime_error{"branch"};
                                  });
                                }),
                    "branch");
  b.check_usable();
}

TEST_CASE("a capture inside of a capture") {
  bench_of_mistakes b;
  SECTION("of the same stream is refused, and harmless if that is caught") {
    ww::graph const captured = ww::capture(b.s, [&](ww::stream_ref c) {
      CHECK(ww::preflight(c) == ww::capture_obstacle::already_capturing);
      CHECK_THROWS_WITH(ww::capture(c, [](ww::stream_ref) {}), contains("is capturing already"));
      ww::for_each_index(c, 64, add_to{b.x.data(), 0});
    });
    CHECK(captured.size() == 1);
  }
  SECTION("of another stream is legal") {
    ww::stream other;
    ww::graph const captured = ww::capture(b.s, [&](ww::stream_ref c) {
      ww::for_each_index(c, 64, add_to{b.x.data(), 0});
      ww::graph const inner = ww::capture(other, [&](ww::stream_ref d) {
        ww::for_each_index(d, 64, add_to{b.x.data(), 0});
        ww::for_each_index(d, 64, add_to{b.x.data(), 0});
      });
      CHECK(inner.size() == 2);
    });
    CHECK(captured.size() == 1);
  }
  SECTION("that fails is reported as its own failure") {
    ww::stream other;
    auto const report = b.report_of([&](ww::stream_ref) {
      static_cast<void>(ww::capture(other, [&](ww::capture_scope& inner) {
        inner.mark("inner");
        ww::for_each_index(inner, 64, add_to{b.x.data(), 0});
        inner.stream().synchronize();
      }));
    });
    CHECK(report.mark == "inner");
    CHECK_FALSE(other.is_capturing());
  }
  b.check_usable();
}

TEST_CASE("a library that allocates is named, whatever it makes of the error") {
  // As a library does that grows its workspace: its own status tells nothing.
  struct library {
    static int multiply() {
      void* workspace = nullptr;
      if (cudaMalloc(&workspace, 4096) != cudaSuccess) return 7;
      return cudaFree(workspace) == cudaSuccess ? 0 : 8;
    }
  };
  bench_of_mistakes b;
  auto const report = b.report_of([](ww::capture_scope& scope) {
    scope.mark("multiply");
    static_cast<void>(library::multiply());
  });
  CHECK(names(report, "lloc"));
  CHECK(report.mark == "multiply");
  CHECK(contains_text(report.to_text(), "multiply"));
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(contains_text(report.remedy(), "if a library allocates, run it once before the capture"));
#endif
  b.check_usable();
}

TEST_CASE("cudaStreamAddCallback in the body is named") {
  bench_of_mistakes b;
  auto const report = b.report_of([](ww::stream_ref c) {
    static_cast<void>(cudaStreamAddCallback(
        c, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0));
  });
  CHECK(names(report, "AddCallback"));
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(contains_text(report.remedy(), "cudaLaunchHostFunc"));
#endif
  b.check_usable();
}

TEST_CASE("a host function must not call CUDA: its calls fail at each replay") {
  bench_of_mistakes b;
  cudaError_t seen = cudaSuccess;
  ww::graph_exec exec{ww::capture(b.s, [&](ww::stream_ref c) {
    ww::check(cudaLaunchHostFunc(
                  c,
                  [](void* result) {
                    void* p = nullptr;
                    *static_cast<cudaError_t*>(result) = cudaMalloc(&p, 256);
                  },
                  &seen),
              "cudaLaunchHostFunc");
  })};
#if WARPWRIGHT_HOST_RUNTIME  // a GPU's driver may wait for ever
  exec.launch(b.s);
  b.s.synchronize();
  CHECK(seen == cudaErrorNotPermitted);
#endif
  b.check_usable();
}

TEST_CASE("an empty capture is an empty graph, which a size of 0 tells") {
  bench_of_mistakes b;
  ww::stream other;
  // The common cause: the body enqueues on a stream of its own.
  ww::graph const captured = ww::capture(b.s, [&](ww::stream_ref) {
    ww::for_each_index(other, 64, add_to{b.x.data(), 1});
  });
  CHECK(captured.size() == 0);
  CHECK(ww::audit(captured).empty());
  other.synchronize();
  CHECK(b.x.fetch(b.s)[0] == 1);
  ww::graph_exec exec{captured};
  exec.launch(b.s);
  CHECK(b.x.fetch(b.s)[0] == 1);
  b.check_usable();
}
