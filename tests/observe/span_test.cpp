// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "traced_file.hpp"

#include <warpwright/observe/span.hpp>
#include <warpwright/observe/trace.hpp>

#include <malloc.h>

#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace ww = warpwright;
using test_support::event;
using test_support::traced_file;

namespace {

// Spans need no records of the GPU.
ww::trace_options only_spans() {
  return ww::trace_options{}.library("/nonexistent/libcupti.so").max_spans(4096);
}

TEST_CASE("a span that nobody listens to does nothing, and asks for no name", "[observe][span]") {
  bool asked = false;
  for (int i = 0; i < 2; ++i) {
    ww::span const named{[&] {
      asked = true;
      return std::string{"name"};
    }};
    asked = i == 0 ? false : asked;  // the first span of a process asks whether a tool listens
  }
  CHECK_FALSE(asked);
  CHECK(ww::detail::innermost_span() == nullptr);
}

TEST_CASE("spans nest, on each thread for itself", "[observe][span]") {
  ww::trace trace{only_spans()};
  CHECK(trace.unavailable().find("/nonexistent/libcupti.so") != std::string::npos);
  CHECK(trace.unavailable().find("trace_options::library()") != std::string::npos);
  {
    auto const step = trace.step();
    auto const both = [] {
      ww::span const outer{"outer"};
      {
        ww::span const inner{"inner"};
        CHECK(ww::detail::innermost_span() == std::string{"inner"});
      }
      ww::span const second{std::string{"second"}};
      CHECK(ww::detail::innermost_span() == std::string{"second"});
    };
    std::thread other{both};
    both();
    other.join();
  }
  traced_file const file{trace};
  std::vector<event> const outer = file.of("user_annotation", "outer");
  std::vector<event> const inner = file.of("user_annotation", "inner");
  std::vector<event> const second = file.of("user_annotation", "second");
  std::vector<event> const steps = file.of("user_annotation", "ProfilerStep#0");
  REQUIRE(outer.size() == 2);
  REQUIRE(inner.size() == 2);
  REQUIRE(second.size() == 2);
  REQUIRE(steps.size() == 1);
  CHECK(outer[0].text("tid") != outer[1].text("tid"));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(inner[i].text("tid") == outer[i].text("tid"));
    CHECK(inner[i].begin() >= outer[i].begin());
    CHECK(inner[i].end() <= second[i].begin() + 1e-3);
    CHECK(second[i].end() <= outer[i].end() + 1e-3);
    CHECK(outer[i].begin() >= steps[0].begin());
    CHECK(outer[i].end() <= steps[0].end() + 1e-3);
  }
  CHECK(trace.summary().dropped_spans == 0);
}

TEST_CASE("names made at run time are copied, and made only where they are recorded",
          "[observe][span]") {
  ww::trace trace{only_spans().schedule(1, 0, 1)};
  ww::stream const stream;
  int made = 0;
  for (int i = 0; i < 3; ++i) {
    auto const step = trace.step();
    std::string text = "batch " + std::to_string(i);
    auto const name = [&] {
      ++made;
      return text + " made";
    };
    {
      ww::span const a{name};
      ww::span const b{name, stream};
      ww::span const c{stream, name};
      ww::span const d{text};
      ww::span const e{stream, text};
      ww::span const f{text, stream};
      ww::span const g{[] { return "literal"; }};
    }
    text.assign(text.size(), '#');  // the copies stay
  }
  CHECK(made == 3);
  ww::span const late{std::string(1000, 'x')};
  traced_file const file{trace};
  CHECK(file.of("user_annotation", "batch 1 made").size() == 3);
  CHECK(file.of("user_annotation", "batch 1").size() == 3);
  CHECK(file.of("user_annotation", "literal").size() == 1);
  CHECK(file.of("user_annotation").size() == 8);  // and the step
}

TEST_CASE("names of any bytes", "[observe][span]") {
  std::string const longest(1000, 'y');
  ww::trace trace{only_spans()};
  {
    auto const step = trace.step();
    ww::span const quotes{"say \"forward\" \\ back\n\ttab"};
    ww::span const utf8{"Schritt \xC3\xBC \xE2\x86\x92 \xF0\x9F\x9A\x80"};
    ww::span const broken{std::string{"\xFF\xFE\x80 bytes"}};
    ww::span const cut{longest};
    ww::span const empty{""};
  }
  traced_file const file{trace};
  CHECK(file.is_json());
  CHECK(file.of("user_annotation", "say \\\"forward\\\" \\\\ back\\u000a\\u0009tab").size() == 1);
  CHECK(file.of("user_annotation", "Schritt \xC3\xBC \xE2\x86\x92 \xF0\x9F\x9A\x80").size() == 1);
  CHECK(file.of("user_annotation", "??? bytes").size() == 1);
  CHECK(file.of("user_annotation", longest.substr(0, 255)).size() == 1);
}

TEST_CASE("spans beyond the memory are dropped and counted; nothing is allocated",
          "[observe][span]") {
  ww::trace trace{only_spans().max_spans(256)};
  std::size_t before = 0, after = 0;
  {
    auto const step = trace.step();
    { ww::span const first{"first"}; }
    before = ::mallinfo2().uordblks;
    for (int i = 0; i < 2000; ++i) ww::span const recorded{"many"};
    after = ::mallinfo2().uordblks;
  }
  CHECK(after == before);
  ww::trace_summary const summary = trace.summary();
  CHECK(summary.dropped_spans == 2001 - 256);
  CHECK(summary.to_text().find("max_spans") != std::string::npos);
  traced_file const file{trace};
  CHECK(file.of("user_annotation").size() == 2001 - summary.dropped_spans + 1);
}

TEST_CASE("threads record at once", "[observe][span]") {
  ww::trace trace{only_spans().max_spans(800)};
  {
    auto const step = trace.step();
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([] {
        for (int k = 0; k < 100; ++k) ww::span const work{"work"};
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(trace.summary().dropped_spans == 0);
  traced_file const file{trace};
  CHECK(file.of("user_annotation", "work").size() == 800);
}

TEST_CASE("a span may outlive its trace, and begin before it", "[observe][span]") {
  auto trace = std::make_unique<ww::trace>(only_spans());
  auto step = std::make_unique<std::vector<int>>();
  {
    ww::span const before{"before"};
    {
      auto const turn = trace->step();
      ww::span const inside{"inside"};
    }
    std::thread racing{[] {
      for (int i = 0; i < 20000; ++i) ww::span const one{"racing"};
    }};
    for (int i = 0; i < 20; ++i) {
      trace.reset();
      trace = std::make_unique<ww::trace>(only_spans());
      auto const turn = trace->step();
    }
    racing.join();
    trace.reset();
  }
  ww::trace last{only_spans()};
  { auto const turn = last.step(); }
  traced_file const file{last};
  CHECK(file.of("user_annotation").size() == 1);
}

TEST_CASE("a span whose last listener ends while it begins is not open", "[observe][span]") {
  { ww::span const first{"asks whether a tool listens"}; }
  {
    ww::trace trace{only_spans()};
    auto const step = trace.step();
    ww::span const late{[&] {
      std::thread{[&] { trace.finish(); }}.join();
      return "late";
    }};
    CHECK(ww::detail::innermost_span() == nullptr);
  }
  CHECK(ww::detail::innermost_span() == nullptr);
}

TEST_CASE("a name that may change is a compile error", "[observe][span]") {
  CHECK_FALSE((std::is_constructible<ww::span, char*>::value));
  CHECK_FALSE((std::is_constructible<ww::span, char(&)[8]>::value));
  CHECK((std::is_constructible<ww::span, char const*>::value));
  CHECK_FALSE((std::is_copy_constructible<ww::span>::value));
}

}  // namespace
