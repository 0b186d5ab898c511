// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Traces of the host runtime, and of a scripted CUPTI.
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "traced_file.hpp"

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/system/activity_records.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/observe/detail/trace_core.hpp>
#include <warpwright/observe/trace.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <clocale>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ww = warpwright;
namespace detail = warpwright::detail;
using Catch::Matchers::Contains;
using test_support::event;
using test_support::traced_file;

namespace {

std::uint64_t now() { return detail::monotonic_nanoseconds(); }

std::atomic<std::uint64_t> time_in_kernels{0};

// Takes its time, and says how much that was.
struct busy {
  std::uint64_t nanoseconds;
  void operator()(std::uint64_t) const {
    std::uint64_t const begin = now();
    while (now() - begin < nanoseconds) {
    }
    time_in_kernels += now() - begin;
  }
};

struct nothing {
  void operator()(std::uint64_t) const {}
};

void launch(ww::stream_ref stream, std::uint64_t microseconds = 0) {
  ww::for_each_index(stream, 1, busy{1000 * microseconds});
}

TEST_CASE("steps are recorded by their schedule", "[observe][trace]") {
  struct {
    std::size_t wait, warm_up, record, repeat;
    std::vector<std::string> steps;
  } const cases[] = {{1, 2, 3, 2, {"3", "4", "5", "9", "10", "11"}},
                     {0, 0, 2, 1, {"0", "1"}},
                     {2, 0, 1, 0, {"2", "5", "8", "11", "14", "17"}},
                     {0, 1, 1, 3, {"1", "3", "5"}},
                     {30, 0, 1, 1, {}}};
  ww::stream const stream;
  for (auto const& c : cases) {
    ww::trace trace{ww::trace_options{}.schedule(c.wait, c.warm_up, c.record, c.repeat)};
    for (int i = 0; i < 20; ++i) {
      auto const step = trace.step();
      ww::span const body{"body"};
      launch(stream);
      launch(stream);
    }
    stream.synchronize();
    traced_file const file{trace};
    for (std::string const& number : c.steps) {
      CHECK(file.of("user_annotation", "ProfilerStep#" + number).size() == 1);
    }
    CHECK(file.of("user_annotation", "body").size() == c.steps.size());
    ww::trace_summary const summary = trace.summary();
    CHECK(summary.steps == c.steps.size());
    CHECK(summary.kernels == 2 * c.steps.size());
    CHECK(summary.dropped_records == 0);
    CHECK(trace.unavailable().empty());
  }
}

TEST_CASE("without a schedule all steps are recorded, until results are asked for",
          "[observe][trace]") {
  ww::stream const stream;
  ww::trace trace;
  for (int i = 0; i < 7; ++i) {
    auto const step = trace.step();
    launch(stream);
    if (i == 4) CHECK(trace.kernels().rows.at(0).calls == 5);  // within a step
  }
  CHECK(trace.summary().steps == 5);
}

TEST_CASE("kernels take the time that they take", "[observe][trace]") {
  ww::stream const stream;
  // Once undisturbed: a thread may lose its processor between its record and its own clock.
  bool same = false;
  for (int attempt = 0; attempt < 5 && !same; ++attempt) {
    ww::trace trace{ww::trace_options{}.schedule(0, 1, 1)};
    for (int i = 0; i < 2; ++i) {
      time_in_kernels = 0;
      auto const step = trace.step();
      for (int k = 0; k < 20; ++k) launch(stream, 300);
      stream.synchronize();
    }
    ww::kernel_table const table = trace.kernels();
    REQUIRE(table.rows.size() == 1);
    ww::kernel_row const& row = table.rows[0];
    double const measured = static_cast<double>(time_in_kernels) * 1e-9;
    CHECK(row.calls == 20);
    CHECK(row.total_seconds >= measured);
    same = row.total_seconds == Approx(measured).epsilon(0.02).margin(2e-3);
    CHECK(row.mean_seconds == Approx(row.total_seconds / 20));
    CHECK(row.share == 1.0);
    ww::trace_summary const summary = trace.summary();
    CHECK(summary.busy_seconds == Approx(row.total_seconds).epsilon(1e-6));  // one stream
    CHECK(summary.kernel_seconds == Approx(summary.busy_seconds));
    // The first launch apart, all were enqueued long before.
    CHECK(summary.between_kernels_seconds > 0);
    CHECK(summary.share(summary.busy_seconds) + summary.share(summary.idle_seconds) == Approx(1.0));
    CHECK_THAT(table.to_text(), Contains("for_each_index") && Contains("100 %"));
    CHECK_THAT(table.to_csv(), Contains("name,span,calls,total_seconds,mean_seconds,share\n\"") &&
                                   Contains(",\"\",20,"));
  }
  CHECK(same);
}

TEST_CASE("kernels belong to the innermost span that launched them", "[observe][trace]") {
  ww::stream const stream;
  ww::graph_exec graph = [&] {
    ww::span const capturing{"capturing"};
    return ww::graph_exec{ww::capture(stream, [](ww::capture_scope& s) {
      launch(s);
      launch(s);
    })};
  }();
  ww::trace trace;
  {
    auto const step = trace.step();
    launch(stream);
    ww::span const outer{"outer", stream};
    launch(stream, 100);
    {
      ww::span const inner{"inner"};
      for (int i = 0; i < 3; ++i) launch(stream);
      graph.launch(stream);
    }
    launch(stream, 100);
    std::thread{[&] {
      ww::span const other{"other thread"};
      launch(stream);
    }}.join();
  }
  std::map<std::string, std::size_t> calls;
  for (ww::kernel_row const& row : trace.kernels_by_span().rows) calls[row.span] = row.calls;
  CHECK(calls == std::map<std::string, std::size_t>{
                     {"", 1}, {"inner", 5}, {"other thread", 1}, {"outer", 2}});
  CHECK(trace.kernels().rows.at(0).calls == 9);
  CHECK_THAT(trace.kernels_by_span().to_text(2),
             Contains("[outer]") && Contains("(2 further rows)"));

  traced_file const file{trace};
  CHECK(file.is_json());
  std::vector<event> const ranges = file.of("gpu_user_annotation");
  REQUIRE(ranges.size() == 1);  // on the one stream; "inner" has none of its own
  CHECK(ranges[0].text("name") == "outer");
  CHECK(ranges[0].number("dur") > 200);
  std::vector<event> const kernels = file.of("kernel");
  std::vector<event> const launches = file.of("cuda_runtime", "cudaLaunchKernel");
  REQUIRE(kernels.size() == 9);
  CHECK(launches.size() == 7);
  CHECK(file.of("cuda_runtime", "cudaGraphLaunch").size() == 1);
  CHECK(kernels[0].text("correlation") == launches[0].text("correlation"));
  CHECK(kernels[0].text("pid") == "0");
  CHECK(kernels[0].text("tid") == kernels[0].text("stream"));
  CHECK(kernels[1].text("span") == "outer");
  CHECK(kernels[1].begin() >= launches[1].begin());
}

TEST_CASE("copies are counted by direction and by the memory of the host", "[observe][trace]") {
  constexpr std::size_t n = 100000;
  ww::stream const stream;
  test_support::device_array<char> device{n};
  std::vector<char> pageable(n);
  ww::pinned_pool pool;
  ww::pinned_buffer<char> pinned{pool, stream, n};
  ww::trace trace;
  {
    auto const step = trace.step();
    auto const copy = [&](void* to, void const* from, std::size_t bytes) {
      ww::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.get()), "copy");
    };
    copy(device.data(), pinned.data(), n);
    copy(device.data(), pageable.data(), n / 2);
    copy(device.data(), pageable.data(), n);  // waits
    copy(pageable.data(), device.data(), n);
    copy(pinned.data(), device.data(), n);
    copy(device.data(), device.data() + n / 2, n / 2);
    ww::check(cudaMemsetAsync(device.data(), 0, n, stream.get()), "fill");
  }
  ww::trace_summary const summary = trace.summary();
  CHECK(summary.host_to_device.count == 3);
  CHECK(summary.host_to_device.bytes == 2.5 * n);
  CHECK(summary.device_to_host.count == 2);
  CHECK(summary.pageable.count == 3);
  CHECK(summary.pageable.bytes == 2.5 * n);
  CHECK(summary.kernels == 0);
  CHECK(summary.copy_seconds > 0);
  CHECK(summary.calls.at(0).name == "cudaMemcpyAsync");
  CHECK(summary.calls.at(0).calls == 6);
  traced_file const file{trace};
  CHECK(file.of("gpu_memcpy", "Memcpy HtoD (pageable)").size() == 2);
  CHECK(file.of("gpu_memcpy", "Memcpy DtoH").size() == 1);
  CHECK(file.of("gpu_memset").at(0).text("bytes") == "100000");
}

TEST_CASE("one trace records at a time", "[observe][trace]") {
  ww::stream const stream;
  ww::trace first;
  {
    ww::trace second;
    CHECK_THAT(second.unavailable(), Contains("another trace of this process"));
    auto const step = second.step();
    launch(stream);
    CHECK(second.kernels().rows.empty());
    CHECK(second.summary().steps == 0);
  }
  { auto const step = first.step(); }
  first.finish();
  first.finish();
  ww::trace third;
  CHECK(third.unavailable().empty());
  CHECK(first.summary().steps == 1);
}

TEST_CASE("whole graphs are one record, and refused where a graph may be older",
          "[observe][trace]") {
  ww::stream const stream;
  ww::graph_exec graph{ww::capture(stream, [](ww::capture_scope& s) {
    launch(s, 100);
    launch(s, 100);
  })};
  {
    ww::trace refused{ww::trace_options{}.whole_graphs()};
    CHECK_THAT(refused.unavailable(),
               Contains("whole_graphs()") && Contains("before the first CUDA call"));
  }
  detail::activity_functions functions{};
  warpwrightHostActivity(&functions);
  functions.may_have_graphs = [] { return false; };
  ww::trace trace{ww::trace_options{}.whole_graphs(), functions};
  CHECK(trace.unavailable().empty());
  {
    auto const step = trace.step();
    ww::span const replay{"replay"};
    for (int i = 0; i < 3; ++i) graph.launch(stream);
    launch(stream);
  }
  ww::trace_summary const summary = trace.summary();
  CHECK(summary.graphs == 3);
  CHECK(summary.kernels == 1);
  CHECK(summary.kernel_seconds > 600e-6);
  CHECK(trace.kernels_by_span().rows.at(0).span == "replay");
  CHECK(trace.kernels_by_span().rows.at(0).calls == 3);
}

TEST_CASE("records beyond the buffers are dropped and counted", "[observe][trace]") {
  ww::trace trace{ww::trace_options{}.buffer_bytes(std::size_t{8} << 20U)};
  {
    auto const step = trace.step();
    int device = 0;
    for (int i = 0; i < 1200000; ++i) static_cast<void>(cudaGetDevice(&device));
  }
  ww::trace_summary const summary = trace.summary();
  CHECK(summary.dropped_records > 0);
  CHECK(summary.calls.at(0).calls + summary.dropped_records >= 1200000);
  CHECK_THAT(summary.to_text(), Contains("incomplete: "));
  ww::trace next;  // the buffers are there again
  {
    auto const step = next.step();
    launch(ww::stream_ref::legacy_default());
  }
  CHECK(next.summary().kernels == 1);
  CHECK(next.summary().dropped_records == 0);
}

// CUPTI as it is on a machine where something is wrong.
TEST_CASE("what is wrong with CUPTI is said in a line, and spans go on", "[observe][trace]") {
  detail::activity_functions good{};
  warpwrightHostActivity(&good);
  good.error_text = [](int code, char const** text) {
    *text = code == 35   ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
            : code == 39 ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                         : "?";
    return 0;
  };
  auto version = good, older = good, privileges = good, subscribed = good, late = good;
  version.version = [](std::uint32_t* v) { return *v = 150000, 0; };
  older.version = [](std::uint32_t* v) { return *v = 18, 0; };
  privileges.enable = [](detail::activity_kind) { return 35; };
  subscribed.subscribe = [](void**, void*, void*) { return 39; };
  subscribed.register_callbacks = [](auto, auto) { return 0; };
  late.enable = [](detail::activity_kind kind) {
    return kind == detail::activity_kind::runtime_call ? 15 : 0;
  };
  struct {
    detail::activity_functions const& functions;
    char const* says;
  } const cases[] = {
      {version, "CUPTI of version 150000 is not known here; use that of CUDA 12 or 13"},
      {older, "version 18 is not known"},
      {privileges, "NVreg_RestrictProfilingToAdminUsers=0"},
      {subscribed, "another profiler uses CUPTI in this process"},
      {late, "cuptiActivityEnable: ? (15); see whether there is a GPU"}};
  for (auto const& c : cases) {
    ww::trace trace{ww::trace_options{}, c.functions};
    {
      auto const step = trace.step();
      ww::span const still{"still here"};
      launch(ww::stream_ref::legacy_default());
    }
    CHECK_THAT(trace.unavailable(), Contains(c.says));
    CHECK(trace.unavailable().find('\n') == std::string::npos);
    traced_file const file{trace};
    CHECK(file.of("user_annotation", "still here").size() == 1);
    CHECK(file.is_json());
  }
  detail::library_subscribes_to_cupti.store(true, detail::memory_order::relaxed);
  ww::trace const beside{ww::trace_options{},
                         subscribed};  // a part of the library: no foreign tool
  CHECK(beside.unavailable().empty());
  detail::library_subscribes_to_cupti.store(false, detail::memory_order::relaxed);
}

// Delivers the records that a test has written, at its times.
struct scripted {
  static std::vector<std::uint8_t>& records() {
    static std::vector<std::uint8_t> all;
    return all;
  }
  template <class Record>
  static void add(Record const& record) {
    auto const* const bytes = reinterpret_cast<std::uint8_t const*>(&record);
    records().insert(records().end(), bytes, bytes + sizeof record);
  }
  static void kernel(std::uint32_t correlation, std::uint64_t begin, std::uint64_t end,
                     std::uint32_t device = 0, char const* name = "kernel") {
    detail::kernel_activity record{};
    record.kind = detail::activity_kind::kernel;
    record.start = begin;
    record.end = end;
    record.device = device;
    record.stream = 7;
    record.grid[0] = record.grid[1] = record.grid[2] = 1;
    record.correlation = correlation;
    record.name = name;
    add(record);
  }
  static void call(std::uint32_t correlation, std::uint64_t begin, std::uint64_t end,
                   std::uint32_t function = 0) {
    detail::call_activity record{};
    record.kind = detail::activity_kind::runtime_call;
    record.start = begin;
    record.end = end;
    record.correlation = correlation;
    record.function = function;
    add(record);
  }
  static detail::activity_functions functions() {
    records().clear();
    detail::activity_functions f{};
    warpwrightHostActivity(&f);
    static detail::activity_functions::request request;
    static detail::activity_functions::complete complete;
    f.register_callbacks = [](auto give, auto take) {
      request = give;
      complete = take;
      return 0;
    };
    f.enable = f.disable = [](detail::activity_kind) { return 0; };
    f.flush = [](std::uint32_t) {
      std::uint8_t* buffer = nullptr;
      std::size_t bytes = 0, most = 0;
      request(&buffer, &bytes, &most);
      std::memcpy(buffer, records().data(), records().size());
      complete(nullptr, 0, buffer, bytes, records().size());
      return 0;
    };
    f.function_name = [](int, std::uint32_t function, char const** name) {
      *name = function == 0 ? "cudaLaunchKernel_ptsz_v7000" : "cudaStreamSynchronize_v3020";
      return 0;
    };
    return f;
  }
};

TEST_CASE("each idle gap has the reason for which it is there", "[observe][trace]") {
  ww::trace trace{ww::trace_options{}, scripted::functions()};
  std::uint64_t start = 0;
  {
    auto const step = trace.step();
    start = now();
    auto const at = [start](std::uint64_t us) { return start + 1000 * us; };
    scripted::call(1, at(100), at(103));
    scripted::kernel(1, at(105), at(150));  // until 105: nothing was enqueued
    scripted::call(2, at(104), at(107));
    scripted::kernel(2, at(152), at(200));  // 2 us: enqueued long before
    scripted::call(3, at(201), at(204));    // 200 us after the last launch
    scripted::kernel(3, at(310), at(320));  // 110 us, the host did something else
    scripted::call(4, at(321), at(324));
    scripted::kernel(4, at(326), at(327));  // waits: 114 us since the last launch
    scripted::call(5, at(328), at(331));
    scripted::kernel(5, at(333), at(334));  // 6 us, launched back to back
    scripted::call(6, at(333), at(336));
    scripted::kernel(6, at(338), at(340));   // 4 us: the call began before, and had not ended
    scripted::kernel(99, at(345), at(350));  // 5 us; nobody knows its call
    scripted::call(7, at(345), at(348));
    scripted::kernel(7, at(353), at(355));  // 3 us: it had hardly reached the GPU
    scripted::kernel(0, at(50), 0);         // not complete
    while (now() < at(450)) {
    }
  }
  ww::trace_summary const s = trace.summary();
  CHECK(s.kernels == 8);
  CHECK(s.between_kernels_seconds == Approx(2e-6).margin(2e-7));
  CHECK(s.launch_bound_seconds == Approx(13e-6).margin(2e-7));
  CHECK(s.unexplained_seconds == Approx(5e-6).margin(2e-7));
  CHECK(s.busy_seconds == Approx(114e-6).margin(2e-7));
  CHECK(s.idle_seconds + s.busy_seconds == Approx(s.recorded_seconds).margin(2e-7));
  CHECK(s.waiting_for_host_seconds > 315e-6);  // 105 and more, 110, 6, and 95 at the end
  CHECK(s.calls.at(0).name == "cudaLaunchKernel");
  CHECK(s.calls.at(0).seconds == Approx(21e-6).margin(2e-7));
}

TEST_CASE("a launch behind a wait for the device is not launch-bound; kernels of one block",
          "[observe][trace]") {
  ww::trace trace{ww::trace_options{}, scripted::functions()};
  {
    auto const step = trace.step();
    std::uint64_t const start = now();
    auto const at = [start](std::uint64_t us) { return start + 1000 * us; };
    scripted::call(1, at(100), at(103));
    scripted::kernel(1, at(105), at(110));
    scripted::call(50, at(104), at(111), 1);
    scripted::call(2, at(112), at(114));  // 9 us behind the launch before
    scripted::kernel(2, at(116), at(150));
    while (now() < at(160)) {
    }
  }
  ww::trace_summary const s = trace.summary();
  CHECK(s.synchronizing_calls == 1);
  CHECK(s.launch_bound_seconds < 1e-9);
  CHECK(s.waiting_for_host_seconds > 110e-6);
  int processors = 0;
  REQUIRE(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
  REQUIRE(processors > 1);
  CHECK(s.unfilled_seconds == Approx(39e-6 * (1.0 - 1.0 / processors)).margin(2e-7));
}

TEST_CASE("streams overlap, devices do not share their idle time", "[observe][trace]") {
  ww::trace trace{ww::trace_options{}.runtime_calls(false), scripted::functions()};
  {
    auto const step = trace.step();
    std::uint64_t const start = now();
    auto const at = [start](std::uint64_t us) { return start + 1000 * us; };
    scripted::kernel(1, at(100), at(200), 0, "_ZN2my5spaceI3fooE6kernelIfN2ns4typeEEEvPT_i");
    detail::copy_activity copy{};
    copy.kind = detail::activity_kind::copy;
    copy.direction = detail::activity_copy::to_device;
    copy.start = at(150);
    copy.end = at(260);
    scripted::add(copy);
    scripted::kernel(2, at(100), at(150), 1, "_ZN12_GLOBAL__N_15otherEv");
    while (now() < at(300)) {
    }
  }
  ww::trace_summary const s = trace.summary();
  CHECK(s.busy_seconds == Approx(210e-6).margin(2e-7));
  CHECK(s.kernel_seconds == Approx(150e-6).margin(2e-7));
  CHECK(s.copy_seconds == Approx(110e-6).margin(2e-7));
  CHECK(s.overlapped_copy_seconds == Approx(50e-6).margin(2e-7));
  CHECK(s.unexplained_seconds == Approx(s.idle_seconds));
  CHECK(s.idle_seconds + s.busy_seconds == Approx(2 * s.recorded_seconds).margin(2e-7));
  ww::kernel_table const table = trace.kernels();
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].name == "kernel<float, type>");
  CHECK(table.rows[1].name == "other");
}

TEST_CASE("a decimal comma changes nothing", "[observe][trace]") {
  char const* found = nullptr;
  for (char const* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ru_RU.UTF-8"}) {
    if (found == nullptr) found = std::setlocale(LC_ALL, name);
  }
  std::string const folder = "./locale_" + std::to_string(::getpid());
  ::mkdir(folder.c_str(), 0755);
  if (found == nullptr &&
      std::system(
          ("localedef -i de_DE -f UTF-8 " + folder + "/de_DE.UTF-8 >/dev/null 2>&1").c_str()) ==
          0) {
    setenv("LOCPATH", folder.c_str(), 1);
    found = std::setlocale(LC_ALL, "de_DE.UTF-8");
    unsetenv("LOCPATH");
  }
  ww::trace trace;
  {
    auto const step = trace.step();
    launch(ww::stream_ref::legacy_default(), 10);
  }
  if (found == nullptr) WARN("no locale with a decimal comma on this machine: not tested");
  traced_file const file{trace};
  std::string const csv = trace.kernels().to_csv();
  std::string const text = trace.summary().to_text();
  std::setlocale(LC_ALL, "C");
  CHECK(std::system(("rm -r " + folder).c_str()) == 0);
  CHECK(text == trace.summary().to_text());
  CHECK(file.is_json());
  CHECK(file.of("kernel").at(0).number("dur") >= 10.0);
  CHECK(std::count(csv.begin(), csv.end(), ',') == 2 * 5);
}

TEST_CASE("wrong input", "[observe][trace]") {
  ww::trace_options const o;
  CHECK_THROWS_WITH(o.schedule(1, 1, 0), Contains("0 steps to record"));
  CHECK_THROWS_WITH(o.buffer_bytes(1000), Contains("1000 bytes; give 8 MiB to 1 GiB"));
  CHECK_THROWS_WITH(o.max_spans(0), Contains("0 spans; give 1 to 2^24"));
  CHECK_THROWS_AS(o.max_spans(1U << 25U), std::invalid_argument);
  ww::trace trace;
  CHECK_THROWS_WITH(trace.write_chrome("/nonexistent/trace.json"),
                    Contains("'/nonexistent/trace.json': No such file or directory"));
  CHECK_THROWS_WITH(trace.write_chrome("/dev/full"), Contains("No space left on device"));
  CHECK(trace.kernels().rows.empty());
  CHECK(trace.kernels().to_text().find("calls") != std::string::npos);
}

TEST_CASE("a trace is off in a child of fork()", "[observe][trace]") {
  ww::trace trace;
  { auto const step = trace.step(); }
  pid_t const child = fork();
  if (child == 0) {
    { auto const step = trace.step(); }
    ww::span const span{"in the child"};
    trace.finish();
    _exit(trace.summary().steps == 1 ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  { auto const step = trace.step(); }
  CHECK(trace.summary().steps == 2);
}

TEST_CASE("nothing is recorded, and no call is made, outside of windows", "[observe][trace]") {
  ww::stream const stream;
  ww::trace trace{ww::trace_options{}.schedule(100, 0, 1)};
  ww::testing::reset_call_counts();
  for (int i = 0; i < 50; ++i) auto const step = trace.step();
  CHECK(ww::testing::total_calls() == 0);
  launch(stream);
  stream.synchronize();
  CHECK(trace.summary().calls.empty());
}

}  // namespace
