// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/core/error.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>

#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;

namespace {

// A CUDA call that fails without side effects and sets the last error.
cudaError_t fail_harmlessly() { return cudaSetDevice(-7); }

}  // namespace

TEST_CASE("check is silent on success") { ww::check(cudaSuccess, "cudaAnything"); }

TEST_CASE("check names the call, the code, its text and the caller's line") {
  int line = 0;
  try {
    line = __LINE__ + 1;
    ww::check(fail_harmlessly(), "cudaSetDevice");
    FAIL("nothing was thrown");
  } catch (ww::cuda_error const& error) {
    CHECK(error.code() == cudaErrorInvalidDevice);
    CHECK(std::string{error.name()} == "cudaErrorInvalidDevice");
    CHECK(std::string{error.api()} == "cudaSetDevice");
    CHECK(error.where().line() == line);
    CHECK_FALSE(error.sticky());
    std::string const text = error.what();
    CHECK(text.find("error_test.cpp:" + std::to_string(line) + ": cudaSetDevice: ") !=
          std::string::npos);
    CHECK(text.find("cudaErrorInvalidDevice (101): invalid device ordinal") != std::string::npos);
  }
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a line of the standard library is not named as the caller's") {
  ww::testing::scoped_fault_plan const faults{
      ww::testing::fault_plan{}.fail_from("*", 1, cudaErrorNotSupported)};
  auto const text_of = [](auto make) {
    try {
      make();
    } catch (ww::cuda_error const& error) {
      return std::string{error.what()};
    }
    return std::string{"nothing was thrown"};
  };
  std::vector<ww::event> events;
  std::vector<std::string> const texts{
      text_of([] { return std::make_unique<ww::event>(); }),
      text_of([] { return std::make_unique<ww::stream>(); }),
      text_of([&] { return events.emplace_back().get(); }),
      text_of([] { return std::optional<ww::event>{std::in_place}.has_value(); })};
  for (std::string const& text : texts) {
    INFO(text);
    CHECK(text.find("cudaErrorNotSupported") != std::string::npos);
    CHECK(text.find("pass a source_location") != std::string::npos);
    CHECK(text.find("c++/") == std::string::npos);
  }
  std::string const named =
      text_of([] { return std::make_unique<ww::event>(ww::source_location::current()); });
  CHECK(named.find("error_test.cpp:") == named.rfind('/') + 1);
}
#endif

TEST_CASE("a reported error is no longer the thread's last error") {
  CHECK_THROWS_AS(ww::check(fail_harmlessly(), "cudaSetDevice"), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("a destructor's failed call leaves no last error") {
  ww::detail::discard(fail_harmlessly());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("advice is part of the text") {
  ww::cuda_error const error{cudaErrorInvalidValue, "cudaX", ww::source_location::current(), false,
                             "do it otherwise"};
  CHECK(std::string{error.what()}.find("; do it otherwise") != std::string::npos);
}

TEST_CASE("out_of_memory is a bad_alloc whose text has every figure") {
  ww::memory_report report;
  report.requested_bytes = 1001;
  report.live_bytes = 2002;
  report.reserved_bytes = 3003;
  report.largest_free_block_bytes = 404;
  report.limit_bytes = 5005;
  report.device = 6;
  try {
    throw ww::out_of_memory{report};
  } catch (std::bad_alloc const& error) {
    std::string const text = error.what();
    CAPTURE(text);
    for (char const* part :
         {"requested 1001 bytes", "live 2002", "reserved 3003", "largest free block 404",
          "limit 5005 bytes", "device 6", "error_test.cpp"}) {
      CAPTURE(part);
      CHECK(text.find(part) != std::string::npos);
    }
  }
  report.limit_bytes = static_cast<std::size_t>(-1);
  report.device = -1;
  std::string const text = ww::out_of_memory{report}.what();
  CHECK(text.find("limit none") != std::string::npos);
  CHECK(text.find("page-locked memory") != std::string::npos);
  CHECK(ww::out_of_memory{report}.report().requested_bytes == 1001);
}

TEST_CASE("a long path does not displace the figures of out_of_memory") {
  std::string const path = std::string(2000, 'x') + "/end.cpp";
  ww::memory_report report;
  for (std::size_t* figure : {&report.requested_bytes, &report.live_bytes, &report.reserved_bytes,
                              &report.largest_free_block_bytes}) {
    *figure = static_cast<std::size_t>(-2);
  }
  report.limit_bytes = static_cast<std::size_t>(-3);
  ww::out_of_memory const error{report, ww::source_location::current(path.c_str(), 2147483647)};
  std::string const text = error.what();
  CAPTURE(text);
  CHECK(text.find("/end.cpp:2147483647: out of memory") != std::string::npos);
  CHECK(text.find("raise the limit") != std::string::npos);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("an error's text holds numbers of all types, and is cut off at its capacity") {
  using ww::detail::text;
  text const all = text{"a"} + -1 + " " + 2U + " " + -3L + " " + 4UL + " " + -5LL + " " + 6ULL +
                   " " + 0.5 + " " + static_cast<void const*>(nullptr) + " " + text{"f.cu", 7};
  CHECK(std::string{all.c_str()} == "a-1 2 -3 4 -5 6 0.5 (nil) f.cu:7");
  text const limits = text{std::numeric_limits<long long>::min()} + " " +
                      std::numeric_limits<unsigned long long>::max();
  CHECK(std::string{limits.c_str()} == "-9223372036854775808 18446744073709551615");

  text grown = "";
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    grown += text{"line "} + i + ";";
    expected += "line " + std::to_string(i) + ";";
  }
  std::string const kept = grown.c_str();
  CHECK(kept.size() == 999);
  CHECK(kept == expected.substr(0, kept.size()));
}

TEST_CASE("numbers have a decimal point in every locale") {
  auto const undone = [](char const* printed) {
    char number[32];
    std::snprintf(number, sizeof number, "%s", printed);
    ww::detail::undo_locale(number);
    return std::string{number};
  };
  CHECK(undone("1,5") == "1.5");
  CHECK(undone("-1,25e-07") == "-1.25e-07");
  CHECK(undone("1\xd9\xab"
               "5") == "1.5");  // the Arabic separator, two bytes
  CHECK(undone("0x7f") == "0x7f");
  CHECK(undone("inf") == "inf");
  CHECK(undone("3.5e+10") == "3.5e+10");
}

TEST_CASE("a sticky error says that the process cannot use the device any more") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  {
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}.poison("cudaDeviceSynchronize", 1, cudaErrorIllegalAddress)};
    try {
      ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      FAIL("nothing was thrown");
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorIllegalAddress);
      CHECK(error.sticky());
      CHECK(std::string{error.what()}.find("sticky") != std::string::npos);
    }
  }
  wt::reset_host_runtime();
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}
#endif
