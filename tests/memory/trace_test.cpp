// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/memory/detail/trace/pickle_writer.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/memory/trace.hpp>

#include "digits/support_process.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"
#include "tools/warpwright_replay/trace_file.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::read_file;
using test_support::scratch_directory;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};
using recorder = ww::trace_recorder<ww::memory_pool>;

ww::memory_pool_options small(std::size_t maximum) {
  return ww::memory_pool_options{}.max_bytes(maximum).growth_bytes(2 * mib);
}

template <class Recorder>
std::string csv_of(Recorder const& from, scratch_directory& scratch) {
  std::string const path = scratch.file("trace.csv");
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  from.write_csv(file);
  REQUIRE(std::fclose(file) == 0);
  return path;
}

// The lines without comments.
std::string rows_of(std::string const& path) {
  std::string const all = read_file(path);
  std::string rows;
  for (std::size_t from = 0; from < all.size();) {
    std::size_t const end = all.find('\n', from);
    REQUIRE(end != std::string::npos);
    if (all[from] != '#') rows += all.substr(from, end - from + 1);
    from = end + 1;
  }
  return rows;
}

std::string first_line_of(std::string const& path) {
  std::string const all = read_file(path);
  return all.substr(0, all.find('\n'));
}

}  // namespace

TEST_CASE("a recorder forwards calls and records them") {
  scratch_directory scratch;
  ww::stream s;
  ww::stream t;
  ww::memory_pool pool{device};
  recorder record{pool, 100};
  CHECK(record.device() == device);
  CHECK(&record.upstream() == &pool);
  CHECK(record.capacity() == 128);
  CHECK(record.recorded_operations() == 0);

  void* const p = record.allocate(s, 1000);
  void* const q = record.try_allocate(t, 5 * mib, 4096);
  REQUIRE(p != nullptr);
  REQUIRE(q != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(q) % 4096 == 0);
  test_support::fill(s, p, 7, 1000);
  CHECK(test_support::all_are(test_support::fetch(s, p, 1000), 7));
  CHECK(pool.statistics().live_blocks == 2);
  record.deallocate(s, p, 1000);
  void* const r = record.allocate(s, 1000);
  record.deallocate(t, q, 5 * mib);
  CHECK(record.recorded_operations() == 5);
  CHECK(record.lost_operations() == 0);

  std::string const path = csv_of(record, scratch);
  CHECK(rows_of(path) == "a,0,1000,0\na,1,5242880,1\nf,0,1000,0\na,2,1000,0\nf,1,5242880,1\n");
  CHECK(
      first_line_of(path) ==
      "# {\"recorder\": \"warpwright\", \"ops\": 5, \"streams\": 2, \"peak_live_bytes\": 5243880, "
      "\"lost_ops\": 0, \"omitted_frees\": 0}");

  record.clear();
  CHECK(record.recorded_operations() == 0);
  CHECK(rows_of(csv_of(record, scratch)).empty());
  record.deallocate(s, r, 1000);
  std::string const after = csv_of(record, scratch);
  CHECK(rows_of(after).empty());  // a free whose allocation is not in the record
  CHECK_THAT(first_line_of(after), contains("\"omitted_frees\": 1"));
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("failed calls are not recorded") {
  ww::stream s;
  ww::memory_pool pool{device, small(4 * mib)};
  recorder record{pool};
  CHECK_THROWS_AS(record.allocate(s, 5 * mib), ww::out_of_memory);
  CHECK_THROWS_WITH(record.allocate(s, 5 * mib), contains("trace_test.cpp"));
  CHECK(record.try_allocate(s, 5 * mib) == nullptr);
  CHECK(record.allocate(s, 0) == nullptr);
  CHECK(record.try_allocate(s, 0) == nullptr);
  CHECK_THROWS_AS(record.allocate(s, 100, 3), std::invalid_argument);
  record.deallocate(s, nullptr, 100);
  CHECK(record.recorded_operations() == 0);

  // A free that the pool rejects leaves its block live in the record, too.
  scratch_directory scratch;
  ww::memory_pool careful{device, small(4 * mib).checked()};
  recorder checked{careful};
  void* const p = checked.allocate(s, 4096);
  CHECK_THROWS_AS(checked.deallocate(s, p, 100), std::invalid_argument);
  checked.deallocate(s, p, 4096);
  CHECK_THROWS_AS(checked.deallocate(s, p, 4096), std::invalid_argument);
  std::string const path = csv_of(checked, scratch);
  CHECK(rows_of(path) == "a,0,4096,0\nf,0,4096,0\n");
  CHECK_THAT(first_line_of(path), contains("\"omitted_frees\": 0"));
}

TEST_CASE("a full ring keeps the newest calls, and counts the overwritten ones") {
  scratch_directory scratch;
  ww::stream s;
  ww::memory_pool pool{device};
  recorder record{pool, 16};
  CHECK(record.capacity() == 16);
  void* const old = record.allocate(s, 512);
  for (std::size_t i = 1; i <= 20; ++i) record.deallocate(s, record.allocate(s, 256 * i), 256 * i);
  record.deallocate(s, old, 512);
  CHECK(record.recorded_operations() == 42);
  CHECK(record.lost_operations() == 26);
  std::string const path = csv_of(record, scratch);
  CHECK_THAT(first_line_of(path), contains("\"lost_ops\": 26, \"omitted_frees\": 2"));
  replay::trace const trace = replay::read_trace(path);
  CHECK(trace.operations.size() ==
        14);  // seven pairs; the frees of block 13 and of `old` are overwritten
  CHECK(trace.block_bytes.front() == 256 * 14);
  CHECK(trace.block_bytes.back() == 256 * 20);
}

TEST_CASE("a free that was not recorded is inserted") {
  scratch_directory scratch;
  ww::detail::trace_ring ring{16};
  auto const at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  auto const here = ww::source_location::current();
  ring.record(ww::detail::trace_kind::allocation, at(0x10000), 300, 5, here);
  ring.record(ww::detail::trace_kind::allocation, at(0x10000), 200, 6, here);
  ring.record(ww::detail::trace_kind::deallocation, at(0x10000), 999, 6, here);
  ww::detail::array<ww::detail::trace_event> events;
  ring.copy(events);
  std::string const path = scratch.file("gap.csv");
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  ww::detail::write_trace_csv(file, events, 0, here);
  REQUIRE(std::fclose(file) == 0);
  CHECK(rows_of(path) == "a,0,300,0\nf,0,300,1\na,1,200,1\nf,1,200,1\n");
  CHECK(replay::read_trace(path).peak_live_bytes == 300);
}

TEST_CASE("threads record while others write the record out") {
  constexpr unsigned threads = 4;
  constexpr unsigned rounds = 3000;
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  scratch_directory scratch;
  ww::memory_pool pool{device};
  recorder all{pool, std::size_t{1} << 16U};
  recorder last{pool, 32};  // wraps around all the time
  std::vector<ww::stream> streams(threads);
  std::atomic<unsigned> running{threads};
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      std::mt19937 random{seed + i};
      std::vector<std::pair<void*, std::size_t>> mine;
      for (unsigned round = 0; round < rounds; ++round) {
        if (mine.size() > 20 || (!mine.empty() && random() % 2 == 0)) {
          std::swap(mine[random() % mine.size()], mine.back());
          all.deallocate(streams[i], mine.back().first, mine.back().second);
          mine.pop_back();
        } else {
          std::size_t const bytes = 1 + random() % 100000;
          mine.emplace_back(all.allocate(streams[i], bytes), bytes);
        }
        last.deallocate(streams[i], last.allocate(streams[i], 64), 64);
      }
      for (auto const& block : mine) all.deallocate(streams[i], block.first, block.second);
      --running;
    });
  }
  unsigned written = 0;
  std::string const meanwhile = scratch.file("meanwhile.csv");
  while (running != 0 || written == 0) {
    std::FILE* const file = std::fopen(meanwhile.c_str(), "wb");
    last.write_csv(file);
    static_cast<void>(std::fclose(file));
    // Calls in progress are missing; the file contains a valid trace, or none.
    if (!rows_of(meanwhile).empty()) static_cast<void>(replay::read_trace(meanwhile));
    ++written;
  }
  for (std::thread& each : workers) each.join();

  CHECK(all.lost_operations() == 0);
  replay::trace const trace = replay::read_trace(csv_of(all, scratch));
  CHECK(trace.operations.size() == all.recorded_operations());
  CHECK(trace.streams == threads);
  CHECK(2 * trace.block_bytes.size() == trace.operations.size());  // all were freed
  CHECK(last.recorded_operations() == 2 * threads * rounds);
  CHECK(last.lost_operations() == 2 * threads * rounds - 32);
}

TEST_CASE("a thread forgets the record while others read it") {
  std::uint64_t most = 0;
  std::size_t empty = 0;  // of a slot to which nothing was written
  for (int rings = 0; rings < 100; ++rings) {
    ww::detail::trace_ring ring{1024};
    std::atomic<bool> end{false};
    std::thread forgets{[&] {
      while (!end) {
        int const block = 0;
        ring.record(ww::detail::trace_kind::allocation, &block, 4, 1,
                    ww::source_location::current());
        ring.clear();
      }
    }};
    for (int round = 0; round < 50; ++round) {
      std::uint64_t const recorded = ring.recorded();
      most = recorded > most ? recorded : most;
      ww::detail::array<ww::detail::trace_event> events;
      ring.copy(events);
      for (ww::detail::trace_event const& e : events) empty += e.file == nullptr ? 1 : 0;
    }
    end = true;
    forgets.join();
  }
  CHECK(most < std::uint64_t{1} << 63U);
  CHECK(empty == 0);
}

TEST_CASE("an absurd capacity throws before anything else") {
  ww::memory_pool pool{device};
  CHECK_THROWS_AS((recorder{pool, ~std::size_t{0}}), std::bad_alloc);
  CHECK_THROWS_AS((recorder{pool, std::size_t{1} << 60U}), std::bad_alloc);
  CHECK(recorder(pool, 0).capacity() == 16);
}

TEST_CASE("a file that cannot be written is an error with the reason") {
  ww::stream s;
  ww::memory_pool pool{device};
  recorder record{pool, 16};
  record.deallocate(s, record.allocate(s, 64), 64);
  std::FILE* const full = std::fopen("/dev/full", "wb");
  if (full == nullptr) {
    WARN("skipped: this system has no /dev/full");
    return;
  }
  CHECK_THROWS_WITH(record.write_csv(full),
                    contains("the CSV cannot be written: No space left on device"));
  std::clearerr(full);
  CHECK_THROWS_WITH(record.write_snapshot(full), contains("trace_test.cpp"));
  static_cast<void>(std::fclose(full));
}

TEST_CASE("a disk that becomes full while a trace is written is an error, wherever it happens") {
  ww::detail::array<ww::detail::trace_event> events;
  for (std::uint64_t i = 1; i <= 2000; ++i) {
    events.push_back(ww::detail::trace_event{i << 20U, 4096, 1, i, "file.cpp", 7,
                                             ww::detail::trace_kind::allocation});
  }
  for (int const good_writes : {0, 1, 3}) {
    CAPTURE(good_writes);
    int left = good_writes;
    ww::detail::file_operations operations = ww::detail::stdio_operations;
    operations.context = &left;
    operations.write = [](void* context, std::FILE*, void const*, std::size_t bytes) {
      if ((*static_cast<int*>(context))-- > 0) return bytes;
      errno = ENOSPC;
      return bytes / 2;
    };
    ww::source_location const here = ww::source_location::current();
    CHECK_THROWS_WITH(ww::detail::write_trace_csv(stderr, events, 0, here, operations),
                      contains("the CSV cannot be written: No space left on device"));
    left = good_writes;
    CHECK_THROWS_WITH(ww::detail::write_trace_snapshot(stderr, events, 0, here, operations),
                      contains("the snapshot cannot be written: No space left on device"));
  }
}

TEST_CASE("the snapshot is what Python's pickle and the memory viewer expect") {
#ifndef WARPWRIGHT_PYTHON3
  WARN("skipped: no python3 was found when this test was configured");
#else
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  scratch_directory scratch;
  ww::stream s;
  ww::stream t;
  ww::stream_ref const streams[2] = {s, t};
  ww::memory_pool pool{device};
  recorder record{pool, 4096};
  std::vector<std::pair<void*, std::size_t>> live;
  for (int i = 0; i < 3000; ++i) {  // more than one batch of the writer
    if (!live.empty() && random() % 5 < 2) {
      std::swap(live[random() % live.size()], live.back());
      record.deallocate(streams[random() % 2], live.back().first, live.back().second);
      live.pop_back();
    } else {
      std::size_t const bytes = 1 + random() % 20000;
      live.emplace_back(record.allocate(streams[random() % 2], bytes), bytes);
    }
  }
  std::string expected;
  for (auto const& block : live) {
    expected += std::to_string(reinterpret_cast<std::uintptr_t>(block.first)) + ' ' +
                std::to_string(block.second) + '\n';
  }
  std::string const snapshot = scratch.file("snapshot.pickle");
  std::FILE* const file = std::fopen(snapshot.c_str(), "wb");
  REQUIRE(file != nullptr);
  record.write_snapshot(file);
  REQUIRE(std::fclose(file) == 0);
  test_support::outcome const end = test_support::run_program(
      scratch, {WARPWRIGHT_PYTHON3, WARPWRIGHT_SNAPSHOT_CHECK, snapshot,
                scratch.write("live.txt", expected), "3000", "trace_test.cpp"});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK(end.out == "good\n");
  for (auto const& block : live) record.deallocate(s, block.first, block.second);
#endif
}

#ifdef WARPWRIGHT_PYTHON3
TEST_CASE("a snapshot of host memory, and of files whose names are not UTF-8, can be read") {
  scratch_directory scratch;
  ww::detail::trace_ring ring{16};
  char const* const names[] = {
      "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80.cpp",  // good: two, three and four bytes
      "\xfc.cpp",                                            // Latin-1
      "\xe2\x82",                                            // truncated
      "\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf",                // overlong
      "\xed\xa0\x80\xf4\x90\x80\x80\xff\x80",                // a surrogate; past the last one
  };
  std::uintptr_t address = 0x10000;
  for (char const* const name : names) {
    ring.record(ww::detail::trace_kind::allocation, reinterpret_cast<void*>(address), 300, 5,
                ww::source_location::current(name, 7));
    address += 0x1000;
  }
  ww::detail::array<ww::detail::trace_event> events;
  ring.copy(events);
  std::string const path = scratch.file("names.pickle");
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  ww::detail::write_trace_snapshot(file, events, -1, ww::source_location::current());
  REQUIRE(std::fclose(file) == 0);
  test_support::outcome const end = test_support::run_program(
      scratch,
      {WARPWRIGHT_PYTHON3, "-c",
       "import pickle, sys\n"
       "s = pickle.load(open(sys.argv[1], 'rb'))\n"
       "print([x['device'] for x in s['segments']], len(s['device_traces']))\n"
       "for e in s['device_traces'][0]: print(ascii(e['frames'][0]['filename'].replace('?', '#')))",
       path});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK(end.out ==
        "[0] 1\n'gr\\xfc\\xdf\\u20ac\\U0001f600.cpp'\n'#.cpp'\n'##'\n'#########'\n'#########'\n");
}

TEST_CASE("integers survive the pickle") {
  scratch_directory scratch;
  std::string const path = scratch.file("numbers.pickle");
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  std::string expected = "[";
  ww::detail::pickle_writer out{file, ww::detail::stdio_operations};
  out.begin_list();
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (std::uint64_t const value :
         {(std::uint64_t{1} << bit) - 1, std::uint64_t{1} << bit, (std::uint64_t{1} << bit) + 1}) {
      out.integer(value);
      expected += std::to_string(value) + ", ";
    }
  }
  out.integer(~std::uint64_t{0});
  expected += "18446744073709551615]\n";
  out.end_list();
  out.end();
  REQUIRE(out.file().flush() == 0);
  REQUIRE(std::fclose(file) == 0);
  test_support::outcome const end = test_support::run_program(
      scratch, {WARPWRIGHT_PYTHON3, "-c",
                "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))", path});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK(end.out == expected);
}
#endif

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("recording adds no CUDA call, and queries a raw handle's id once for both") {
  ww::stream own;
  ww::stream_ref const s = own;
  ww::memory_pool pool{device};
  recorder record{pool, 64};
  record.deallocate(s, record.allocate(s, 4096), 4096);
  std::uint64_t const before = ww::testing::total_calls();
  for (int i = 0; i < 100; ++i) record.deallocate(s, record.allocate(s, 4096), 4096);
  CHECK(ww::testing::total_calls() == before);
  record.deallocate(own.get(), record.allocate(own.get(), 4096), 4096);
  CHECK(ww::testing::total_calls() == before + 2);
}

TEST_CASE("a failing query of a stream's id loses no memory") {
  ww::stream s;
  ww::memory_pool pool{device};
  recorder record{pool, 64};
  {
    ww::testing::scoped_fault_plan const scope{
        ww::testing::fault_plan{}.fail("cudaStreamGetId", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(record.allocate(s.get(), 4096), ww::cuda_error);
  }
  CHECK(pool.statistics().live_blocks == 0);
  void* const p = record.allocate(s.get(), 4096);
  {
    ww::testing::scoped_fault_plan const scope{
        ww::testing::fault_plan{}.fail("cudaStreamGetId", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(record.deallocate(s.get(), p, 4096), ww::cuda_error);
  }
  CHECK(record.recorded_operations() == 1);
  record.deallocate(s.get(), p, 4096);
  CHECK(pool.statistics().live_blocks == 0);
}
#endif
