// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/mistake_support.hpp"

#include <string>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

TEST_CASE("each code from 900 to 908 has a cause and a remedy") {
  for (int code = 900; code <= 908; ++code) {
    CAPTURE(code);
    ww::capture_report report;
    report.code = static_cast<cudaError_t>(code);
    report.api = "cudaStreamEndCapture";
    CHECK(report.cause().size() > 20);
    CHECK(report.remedy().size() > 20);
    CHECK(contains_text(report.to_text(), std::to_string(code).c_str()));
    ww::capture_error const error{report};
    CHECK(error.code() == report.code);
    CHECK(contains_text(error.what(), report.remedy().c_str()));
    CHECK_FALSE(error.sticky());
  }
  CHECK_FALSE(ww::detail::is_capture_error(cudaErrorInvalidValue));
  CHECK_FALSE(ww::detail::is_capture_error(static_cast<cudaError_t>(899)));
  CHECK_FALSE(ww::detail::is_capture_error(static_cast<cudaError_t>(909)));
}

TEST_CASE("an error without a rule is a report without advice") {
  ww::capture_report report;
  report.code = cudaErrorUnknown;
  report.api = "cudaStreamEndCapture";
  CHECK(report.cause().empty());
  CHECK(report.remedy().empty());
  std::string const what = ww::capture_error{report}.what();
  CHECK(contains_text(what, "cudaErrorUnknown"));
  CHECK(what.find("; ") == std::string::npos);
}

TEST_CASE("the breaking call is found in CUDA's log") {
  std::string const log =
      "[10:00:00.000][100][CUDA][E] Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc_v2\n"
      "[10:00:00.001][200][CUDA][E] API call conflicts with a stream capture sequence initiated "
      "from another thread\n"
      "[10:00:00.001][200][CUDA][E] Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from "
      "cuMemHostAlloc\n"
      "[10:00:00.002][100][CUDA][E] Returning 901 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) from "
      "cuLaunchKernelEx\n"
      "[10:00:00.003][100][CUDA][E] Returning 901 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) from "
      "cuStreamEndCapture\n";
  bool other = false;
  ww::detail::logged_call call = ww::detail::find_breaking_call(log, true, other);
  CHECK(other);
  CHECK(call.code == 900);
  CHECK(call.api == "cuMemHostAlloc");
  CHECK(call.thread == "200");
  // In thread-local mode another thread cannot have broken it.
  call = ww::detail::find_breaking_call(log, false, other);
  CHECK_FALSE(other);
  CHECK(call.code == 0);
  // This thread's own call counts more than another one's.
  std::string const own =
      log.substr(0, log.find("[10:00:00.002]")) +
      "[10:00:00.002][100][CUDA][E] Returning 907 (CUDA_ERROR_CAPTURED_EVENT) from cuEventQuery\n" +
      log.substr(log.find("[10:00:00.003]"));
  call = ww::detail::find_breaking_call(own, true, other);
  CHECK_FALSE(other);
  CHECK(call.api == "cuEventQuery");
  CHECK(call.code == 907);
}

TEST_CASE("a log of another form is no reason to fail") {
  bool other = true;
  for (std::string const log :
       {"", "\n", "Returning", "Returning 900 (X) from", "Returning 900 (X) from y", "][ ][",
        "][Returning 900 (X) from cuY\n", "text without an end of line"}) {
    CAPTURE(log);
    ww::detail::logged_call const call = ww::detail::find_breaking_call(log, true, other);
    CHECK((call.code == 0 || call.code == 900));
  }
}

TEST_CASE("the last mark is reported, and cut off at 63 characters") {
  bench_of_mistakes b;
  std::string long_name(100, 'm');
  auto const report = b.report_of([&](ww::capture_scope& scope) {
    scope.mark("first");
    scope.mark(long_name.c_str());
    long_name = "changed";
    scope.stream().synchronize();
    scope.mark("never");
  });
  CHECK(report.mark == std::string(63, 'm'));
  CHECK(contains_text(report.summary(), "after mark"));
  b.check_usable();
}

TEST_CASE("the report of a valid capture says that it is valid") {
  ww::stream s;
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    CHECK(scope.report().to_text() == "the capture is valid so far\n");
    scope.mark("layer 1");
    CHECK(scope.report().summary() == "the capture is valid so far, last mark \"layer 1\"");
    scope.mark(nullptr);
    CHECK(scope.report().mark.empty());
  });
  CHECK(captured.size() == 0);
}

TEST_CASE("a break that the body ignores is reported at the end, with the body's last mark") {
  bench_of_mistakes b;
  bool const checked = GENERATE(false, true);
  CAPTURE(checked);
  auto const report = b.report_of([&](ww::capture_scope& scope) {
    scope.mark("first");
    if (checked) {
      CHECK_THROWS_AS(scope.stream().synchronize(), ww::cuda_error);
    } else {
      ww::detail::discard(cudaStreamSynchronize(scope.stream()));
    }
    scope.mark("second");
  });
  CHECK(report.noticed_at_end);
  CHECK(report.mark == "second");
  CHECK(std::string{report.api} == "cudaStreamEndCapture");
  CHECK(contains_text(report.summary(),
                      ", noticed at the end of the body, whose last mark is \"second\""));
  CHECK_FALSE(contains_text(report.summary(), "after mark"));
  CHECK(contains_text(report.to_text(),
                      "\n  noticed      at the end of the body: the call that broke "
                      "the capture can stand anywhere in the body"));
  b.check_usable();
}

TEST_CASE("a break that a later call tells of can stand before an earlier mark") {
  bench_of_mistakes b;
  auto const report = b.report_of([&](ww::capture_scope& scope) {
    scope.mark("first");
    ww::detail::discard(cudaStreamSynchronize(scope.stream()));
    scope.mark("second");
    ww::for_each_index(scope, 64, add_to{b.x.data(), 1});
    scope.mark("third");
  });
  CHECK_FALSE(report.noticed_at_end);
  CHECK(report.mark == "second");
  CHECK(report.code == cudaErrorStreamCaptureInvalidated);
  CHECK(contains_text(report.summary(), ", noticed after mark \"second\""));
  CHECK(contains_text(report.to_text(), "\n  noticed      by a later call"));
  b.check_usable();
}

TEST_CASE("a break whose exception leaves the body is reported with its line and mark") {
  bench_of_mistakes b;
  unsigned line = 0;
  auto const report = b.report_of([&](ww::capture_scope& scope) {
    scope.mark("first");
    line = __LINE__ + 1;
    ww::check(cudaStreamSynchronize(scope.stream()), "cudaStreamSynchronize");
    scope.mark("second");
  });
  CHECK_FALSE(report.noticed_at_end);
  CHECK(report.mark == "first");
  CHECK(static_cast<unsigned>(report.where.line()) == line);
  CHECK(contains_text(report.summary(), ", after mark \"first\""));
  CHECK_FALSE(contains_text(report.to_text(), "\n  noticed "));
}

TEST_CASE("the state of a capture can be reported without ending it") {
  bench_of_mistakes b;
  {
    ww::capture_scope scope{b.s};
    scope.mark("layer 1");
    CHECK(scope.report().code == cudaSuccess);
    CHECK(scope.report().mark == "layer 1");
    CHECK(scope.report().obstacle == ww::capture_obstacle::already_capturing);
    static_cast<void>(cudaStreamSynchronize(b.s));
    static_cast<void>(cudaGetLastError());
    CHECK(scope.report().code == cudaErrorStreamCaptureInvalidated);
    CHECK(names(scope.report(), "Synchronize"));
    CHECK(ww::preflight(b.s) == ww::capture_obstacle::invalidated_capture);
  }
  b.check_usable();
}

TEST_CASE("preflight names the obstacle, and none for a plain stream") {
  ww::stream s;
  CHECK(ww::preflight(s) == ww::capture_obstacle::none);
  CHECK(std::string{ww::to_string(ww::capture_obstacle::none)}.empty());
  CHECK(ww::preflight(ww::stream_ref::per_thread()) == ww::capture_obstacle::blocking_stream);
  for (ww::capture_obstacle const each :
       {ww::capture_obstacle::legacy_stream, ww::capture_obstacle::already_capturing,
        ww::capture_obstacle::invalidated_capture, ww::capture_obstacle::unknown_stream,
        ww::capture_obstacle::blocking_stream}) {
    CHECK(std::string{ww::to_string(each)}.size() > 20);
  }
}

TEST_CASE("bodies take the scope or the stream, by any kind of parameter") {
  ww::stream s;
  device_array<int> x{std::vector<int>(8, 0)};
  int* const p = x.data();
  auto const one = [](auto&& body, ww::stream_ref on) { return ww::capture(on, body).size(); };
  CHECK(one([p](auto c) { ww::for_each_index(c, 8, add_to{p, 1}); }, s) == 1);
  CHECK(one([p](auto& c) { ww::for_each_index(c, 8, add_to{p, 1}); }, s) == 1);
  CHECK(one([p](auto const& c) { ww::for_each_index(c, 8, add_to{p, 1}); }, s) == 1);
  CHECK(one([p](ww::stream_ref c) { ww::for_each_index(c, 8, add_to{p, 1}); }, s) == 1);
  CHECK(one([p](ww::capture_scope& c) { ww::for_each_index(c, 8, add_to{p, 1}); }, s) == 1);
  CHECK(one([p](cudaStream_t c) { ww::for_each_index(c, 8, add_to{p, 1}); }, s) == 1);
  CHECK(one([p](auto c) { ww::for_each_index(c.get(), 8, add_to{p, 1}); }, s) == 1);
  CHECK(one(
            [p](auto& c) {
              c.fork(1, [p](auto d, unsigned) { ww::for_each_index(d, 8, add_to{p, 1}); });
            },
            s) == 1);
  int calls = 0;
  CHECK(one([calls](auto) mutable { ++calls; }, s) == 0);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("without a log the report still has the code's cause and remedy") {
  bench_of_mistakes b;
  char const* const call = GENERATE("cudaLogsCurrent", "cudaLogsDumpToMemory");
  {
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail_from(call, 1, cudaErrorCallRequiresNewerDriver)};
    auto const report = b.report_of([](ww::stream_ref) {
      void* p = nullptr;
      static_cast<void>(cudaMalloc(&p, 256));
    });
    CHECK(plan.hits() == 1);
    CHECK(report.log.empty());
    CHECK(report.broken_by.empty());
    CHECK(report.cause() == "an earlier call invalidated the capture");
    CHECK(contains_text(report.remedy(), "look for cudaMalloc"));
  }
  b.check_usable();
}
#endif
