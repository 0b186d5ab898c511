// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The event log and the fault adaptor.
#include "memory/adaptors_support.hpp"
#include "support/catch.hpp"

#include <warpwright/core/stream.hpp>
#include <warpwright/memory/adaptors/event_log.hpp>
#include <warpwright/memory/adaptors/rmm_log.hpp>
#include <warpwright/memory/adaptors/tracking.hpp>
#include <warpwright/testing/fault_adaptor.hpp>

#include "tools/warpwright_replay/trace_file.hpp"

#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace ww = warpwright;
using test_support::scripted_upstream;

namespace {

ww::device_id const device{0};

void collect(void* user, ww::memory_log_record const& record) noexcept {
  static_cast<std::vector<ww::memory_log_record>*>(user)->push_back(record);
}

// Which of the first requests of `bytes` a plan fails.
std::vector<int> failing(ww::memory_pool& pool, ww::memory_faults const& faults, int requests,
                         std::size_t bytes = 100) {
  ww::stream const s;
  ww::fault_adaptor flaky{pool, faults};
  std::vector<int> numbers;
  for (int i = 1; i <= requests; ++i) {
    void* const p = flaky.try_allocate(s, bytes);
    if (p == nullptr) numbers.push_back(i);
    flaky.deallocate(s, p, bytes);
  }
  CHECK(flaky.requests() == static_cast<std::uint64_t>(requests));
  CHECK(flaky.injected() == numbers.size());
  pool.retire(s);
  return numbers;
}

}  // namespace

TEST_CASE("an event log reports each call, in order, with its source location") {
  ww::stream const s;
  ww::memory_pool pool{device};
  scripted_upstream below{pool};
  std::vector<ww::memory_log_record> records;
  ww::event_log_adaptor log{below, &collect, &records};
  void* const p = log.allocate(s.get(), 1000, 512);  // a raw handle: the id is queried
  int const line = __LINE__ - 1;
  below.next_allocation = scripted_upstream::answer::none;
  CHECK(log.try_allocate(s, 50) == nullptr);
  CHECK_THROWS_AS(log.allocate(s, 60), ww::out_of_memory);
  below.next_deallocation = scripted_upstream::answer::cuda_error;
  CHECK_THROWS_AS(log.deallocate(s, p, 1000), ww::cuda_error);
  below.next_deallocation = scripted_upstream::answer::memory;
  log.deallocate(s, p, 1000);

  using operation = ww::memory_log_operation;
  REQUIRE(records.size() == 6);
  CHECK(records[0].operation == operation::allocate);
  CHECK(records[0].pointer == p);
  CHECK(records[0].bytes == 1000);
  CHECK(records[0].alignment == 512);
  CHECK(records[0].stream_id == s.id());
  CHECK(records[0].where.line() == line);
  CHECK(records[1].operation == operation::allocate_failed);
  CHECK(records[1].pointer == nullptr);
  CHECK(records[1].bytes == 50);
  CHECK(records[2].operation == operation::allocate_failed);
  CHECK(records[2].bytes == 60);
  CHECK(records[3].operation == operation::deallocate);
  CHECK(records[4].operation == operation::deallocate_failed);
  CHECK(records[4].pointer == p);
  CHECK(records[5].operation == operation::deallocate);
  CHECK(records[5].bytes == 1000);
  CHECK(records[5].alignment == 0);
  CHECK(records[5].stream_id == s.id());
  for (std::size_t i = 1; i < records.size(); ++i) {
    CHECK(records[i].time_ns >= records[i - 1].time_ns);
  }
  ww::event_log_adaptor<ww::memory_pool>::callback const none = nullptr;
  CHECK_THROWS_WITH(ww::event_log_adaptor(pool, none), contains("the callback is null"));
  CHECK(std::string{to_string(operation::allocate)} == "allocate");
  CHECK(std::string{to_string(operation::allocate_failed)} == "allocate_failed");
  CHECK(std::string{to_string(operation::deallocate)} == "deallocate");
  CHECK(std::string{to_string(operation::deallocate_failed)} == "deallocate_failed");
}

TEST_CASE("an event log can be written as comma-separated values, by several threads") {
  ww::memory_pool pool{device};
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  ww::memory_log_csv_header(file);
  ww::event_log_adaptor log{pool, &ww::memory_log_to_csv, file};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      ww::stream const s;
      for (int i = 0; i < 50; ++i) log.deallocate(s, log.allocate(s, 300), 300);
      pool.retire(s);
    });
  }
  for (std::thread& t : threads) t.join();
  std::rewind(file);
  char line[1000] = {};
  REQUIRE(std::fgets(line, sizeof line, file) != nullptr);
  CHECK(std::string{line} ==
        "time_ns,operation,pointer,bytes,alignment,stream_id,elapsed_ns,file,line\n");
  int allocations = 0;
  int deallocations = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    unsigned long long time = 0;
    unsigned long long id = 0;
    unsigned long long elapsed = 0;
    char operation[30] = {};
    char name[500] = {};
    void* pointer = nullptr;
    std::size_t bytes = 0;
    std::size_t alignment = 0;
    int number = 0;
    REQUIRE(std::sscanf(line, "%llu,%29[a-z_],%p,%zu,%zu,%llu,%llu,\"%499[^\"]\",%d\n", &time,
                        operation, &pointer, &bytes, &alignment, &id, &elapsed, name,
                        &number) == 9);
    CHECK(pointer != nullptr);
    CHECK(bytes == 300);
    CHECK(number > 0);
    if (std::string{operation} == "allocate") ++allocations;
    if (std::string{operation} == "deallocate") ++deallocations;
  }
  CHECK(allocations == 150);
  CHECK(deallocations == 150);
  std::fclose(file);
}

TEST_CASE(
    "a file's name with a quotation mark, or with bytes that are not UTF-8, stays one value") {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  ww::memory_log_record const record{ww::memory_log_operation::allocate_failed,
                                     nullptr,
                                     7,
                                     256,
                                     3,
                                     11,
                                     13,
                                     ww::source_location::current("q\"uote,\xE9\xC3\xA9.cpp", 17),
                                     nullptr};
  ww::memory_log_to_csv(file, record);
  std::rewind(file);
  char line[200] = {};
  REQUIRE(std::fgets(line, sizeof line, file) != nullptr);
  CHECK_THAT(std::string{line}, contains("11,allocate_failed,"));
  CHECK_THAT(std::string{line}, contains(",7,256,3,13,\"q\"\"uote,?\xC3\xA9.cpp\",17\n"));
  std::fclose(file);
}

TEST_CASE("a record names the handle of its stream") {
  ww::stream const s;
  ww::memory_pool pool{device};
  std::vector<ww::memory_log_record> records;
  ww::event_log_adaptor log{pool, &collect, &records};
  log.deallocate(s, log.allocate(s, 10), 10);
  REQUIRE(records.size() == 2);
  CHECK(records[0].stream == s.get());
  CHECK(records[1].stream == s.get());
}

namespace {

// The lines of what a function has written to a file.
template <class Write>
std::vector<std::string> lines_of(Write&& write) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  write(file);
  std::rewind(file);
  std::vector<std::string> lines;
  char line[300] = {};
  while (std::fgets(line, sizeof line, file) != nullptr) lines.emplace_back(line);
  std::fclose(file);
  return lines;
}

std::string text_of(void const* pointer) {
  char text[40] = {};
  std::snprintf(text, sizeof text, "%p", pointer);
  return text;
}

}  // namespace

TEST_CASE("RMM's log has its columns, and its names of the calls") {
  ww::stream const s;
  ww::memory_pool pool{device};
  scripted_upstream below{pool};
  void* p = nullptr;
  std::vector<std::string> const lines = lines_of([&](std::FILE* file) {
    ww::memory_log_rmm_header(file);
    ww::event_log_adaptor log{below, &ww::memory_log_to_rmm, file};
    p = log.allocate(s, 1000);
    below.next_allocation = scripted_upstream::answer::none;
    CHECK(log.try_allocate(s, 70) == nullptr);
    below.next_deallocation = scripted_upstream::answer::cuda_error;
    CHECK_THROWS_AS(log.deallocate(s, p, 1000), ww::cuda_error);
    below.next_deallocation = scripted_upstream::answer::memory;
    log.deallocate(s, p, 1000);
  });
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "Thread,Time,Action,Pointer,Size,Stream\n");
  std::string const end = ',' + text_of(s.get()) + '\n';
  char const* const expected[] = {"allocate", "allocate failure", "free", "allocate", "free"};
  for (std::size_t i = 0; i < 5; ++i) {
    INFO(lines[i + 1]);
    long thread = 0;
    int hours = -1;
    int minutes = -1;
    int seconds = -1;
    char microseconds[8] = {};
    int used = 0;
    REQUIRE(std::sscanf(lines[i + 1].c_str(), "%ld,%2d:%2d:%2d.%7[0-9],%n", &thread, &hours,
                        &minutes, &seconds, microseconds, &used) == 5);
    CHECK(thread > 0);
    CHECK(hours < 24);
    CHECK(minutes < 60);
    CHECK(seconds < 61);
    CHECK(std::string{microseconds}.size() == 6);
    std::string const rest = lines[i + 1].substr(static_cast<std::size_t>(used));
    std::string const block = i == 1 ? ",(nil),70" : ',' + text_of(p) + ",1000";
    CHECK(rest == expected[i] + block + end);
  }
}

TEST_CASE("RMM's log of several threads can be replayed") {
  ww::memory_pool pool{device};
  char path[] = "/tmp/warpwright_rmm_log_XXXXXX";
  int const descriptor = ::mkstemp(path);
  REQUIRE(descriptor >= 0);
  std::FILE* const file = ::fdopen(descriptor, "w");
  REQUIRE(file != nullptr);
  ww::memory_log_rmm_header(file);
  ww::event_log_adaptor log{pool, &ww::memory_log_to_rmm, file};
  {
    std::vector<ww::stream> const streams(3);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&log, &streams, t] {
        for (std::size_t i = 1; i <= 50; ++i) {
          void* const p = log.allocate(streams[t], 300 * i);
          log.deallocate(streams[t], p, 300 * i);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    static_cast<void>(log.allocate(streams[0], 64));  // still live at the end
    std::fclose(file);
    replay::trace const trace = replay::read_trace(path);
    CHECK(trace.operations.size() == 301);
    CHECK(trace.block_bytes.size() == 151);
    CHECK(trace.streams == 3);
    CHECK(trace.peak_live_bytes >= 15000);
    for (ww::stream const& s : streams) pool.retire(s);
  }
  CHECK(std::remove(path) == 0);
}

TEST_CASE("faults hit the n-th, every n-th, from a size on, or none") {
  ww::memory_pool pool{device};
  CHECK(failing(pool, ww::memory_faults{}, 20).empty());
  CHECK(failing(pool, ww::memory_faults{}.fail_nth(3), 20) == std::vector<int>{3});
  CHECK(failing(pool, ww::memory_faults{}.fail_every(6), 20) == std::vector<int>{6, 12, 18});
  CHECK(failing(pool, ww::memory_faults{}.fail_every(1), 3) == std::vector<int>{1, 2, 3});
  CHECK(failing(pool, ww::memory_faults{}.fail_from_bytes(100), 2) == std::vector<int>{1, 2});
  CHECK(failing(pool, ww::memory_faults{}.fail_from_bytes(101), 2).empty());
  CHECK(failing(pool, ww::memory_faults{}.fail_nth(1).fail_every(4), 8) ==
        std::vector<int>{1, 4, 8});
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("random faults have the requested frequency, and are the same for the same seed") {
  ww::memory_pool pool{device};
  std::vector<int> const once = failing(pool, ww::memory_faults{}.fail_randomly(0.1, 42), 5000);
  CHECK(once == failing(pool, ww::memory_faults{}.fail_randomly(0.1, 42), 5000));
  CHECK(once != failing(pool, ww::memory_faults{}.fail_randomly(0.1, 43), 5000));
  // 500 expected, with a standard deviation of 21; the seed makes it the same each time.
  CHECK(once.size() > 400);
  CHECK(once.size() < 600);
  CHECK(failing(pool, ww::memory_faults{}.fail_randomly(0.0, 1), 500).empty());
  CHECK(failing(pool, ww::memory_faults{}.fail_randomly(1.0, 1), 500).size() == 500);
  for (double const bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_WITH(ww::memory_faults{}.fail_randomly(bad, 1), contains("is not in [0, 1]"));
  }
}

TEST_CASE("an injected fault is out of memory, or the requested error") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::fault_adaptor empty{pool, ww::memory_faults{}.fail_every(1)};
  try {
    static_cast<void>(empty.allocate(s, 77));
    FAIL("every request fails");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().requested_bytes == 77);
    CHECK(e.report().limit_bytes == 0);
    CHECK(e.report().device == 0);
    CHECK_THAT(std::string{e.what()}, contains("adaptors_log_test.cpp"));
  }
  CHECK(empty.try_allocate(s, 77) == nullptr);
  CHECK(empty.allocate(s, 0) == nullptr);
  CHECK(empty.requests() == 2);

  ww::fault_adaptor broken{pool, ww::memory_faults{}.fail_every(1).error(cudaErrorInvalidValue)};
  try {
    static_cast<void>(broken.try_allocate(s, 77));
    FAIL("every request fails");
  } catch (ww::cuda_error const& e) {
    CHECK(e.code() == cudaErrorInvalidValue);
    CHECK_FALSE(e.sticky());
    CHECK_THAT(std::string{e.what()},
               contains("injected by a fault_adaptor into request 1, of 77 bytes"));
  }
  CHECK_THROWS_AS(broken.allocate(s, 77), ww::cuda_error);
  CHECK_THROWS_WITH(ww::memory_faults{}.error(cudaSuccess), contains("not an error"));
  CHECK(pool.statistics().allocations == 0);
}

TEST_CASE("a delay slows every request") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::fault_adaptor slow{pool, ww::memory_faults{}.delay_seconds(2e-3)};
  auto const start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) slow.deallocate(s, slow.allocate(s, 10), 10);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds{6});
}

TEST_CASE("a program under random faults loses no memory") {
  ww::memory_pool pool{device};
  ww::fault_adaptor flaky{pool, ww::memory_faults{}.fail_randomly(0.2, 7)};
  ww::tracking_adaptor tracked{flaky};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ww::stream const s;
      for (std::size_t i = 0; i < 500; ++i) {
        std::size_t const bytes = 1 + i * 37 % 5000;
        try {
          void* const p = tracked.allocate(s, bytes);
          tracked.deallocate(s, p, bytes);
        } catch (ww::out_of_memory const&) {
        }
      }
      pool.retire(s);
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(flaky.requests() == 2000);
  CHECK(flaky.injected() > 200);
  CHECK(tracked.outstanding_blocks() == 0);
  CHECK(pool.statistics().live_blocks == 0);
}
