// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The warpwright_replay program: result lines, pages, error messages, exit codes.
#include "digits/support_process.hpp"
#include "digits/well_formed.hpp"
#include "support/catch.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace {

using test_support::outcome;
using test_support::run_program;
using test_support::scratch_directory;

std::string const data = WARPWRIGHT_REPLAY_DATA;

outcome run_replay(scratch_directory& scratch, std::vector<std::string> arguments,
                   std::vector<std::string> const& environment = {}) {
  arguments.insert(arguments.begin(), WARPWRIGHT_REPLAY_PROGRAM);
  return run_program(scratch, arguments, environment);
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The value behind NAME= in a result line.
std::string field(std::string const& line, std::string const& name) {
  std::istringstream in{line};
  for (std::string word; in >> word;) {
    if (word.compare(0, name.size() + 1, name + '=') == 0) return word.substr(name.size() + 1);
  }
  return "missing: " + name;
}

void check_line(std::string const& line, char const* trace, char const* allocator, char const* ops,
                char const* peak_live) {
  INFO(line);
  CHECK(field(line, "trace") == trace);
  CHECK(field(line, "allocator") == allocator);
  CHECK(field(line, "ops") == ops);
  CHECK(field(line, "peak_live") == peak_live);
  double const reserved = std::strtod(field(line, "peak_reserved").c_str(), nullptr);
  double const live = std::strtod(peak_live, nullptr);
  CHECK(reserved >= live);
  CHECK(std::fabs(std::strtod(field(line, "ratio").c_str(), nullptr) - reserved / live) < 1e-3);
  CHECK(std::strtod(field(line, "ns_per_op").c_str(), nullptr) > 0.0);
  CHECK(std::strtod(field(line, "cuda_calls_per_op").c_str(), nullptr) >= 0.0);
  CHECK(lines_of(line).size() == 1);
}

}  // namespace

TEST_CASE("one line a trace and allocator") {
  scratch_directory scratch;
  outcome const end =
      run_replay(scratch, {data + "/small.csv", "--verify", "full", data + "/rmm_log.csv"});
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  CHECK(end.error.empty());
  std::vector<std::string> const lines = lines_of(end.out);
  REQUIRE(lines.size() == 6);
  char const* const names[3] = {"pool", "async", "best_fit"};
  for (std::size_t i = 0; i < 3; ++i) {
    check_line(lines[i], "small", names[i], "12", "2098154");
    check_line(lines[3 + i], "rmm_log", names[i], "5", "3072");
  }
  // Two streams without sharing: a segment of 2 MiB for one, of 4 and 2 MiB for the other.
  CHECK(field(lines[2], "peak_reserved") == "8388608");
}

TEST_CASE("one allocator, threads, passes and pool options can be chosen") {
  scratch_directory scratch;
  for (char const* const name : {"pool", "async", "best_fit"}) {
    outcome const end =
        run_replay(scratch, {"--allocator", name, "--threads", "--repeat", "3", "--pool-option",
                             "growth_bytes=4MiB", data + "/small.csv"});
    INFO(end.text());
    REQUIRE(end.exit_code == 0);
    REQUIRE(lines_of(end.out).size() == 1);
    CHECK(field(end.out, "allocator") == name);
    CHECK(field(end.out, "ops") == "12");
  }
  outcome const small = run_replay(
      scratch, {"--allocator", "pool", "--pool-option", "growth_bytes=3MiB", "--pool-option",
                "order=wait_before_grow", "--verify", "none", data + "/small.csv"});
  outcome const large = run_replay(scratch, {"--allocator", "pool", "--pool-option",
                                             "initial_bytes=256MiB", data + "/small.csv"});
  CHECK(std::strtod(field(large.out, "peak_reserved").c_str(), nullptr) >= 268435456.0);
  CHECK(std::strtod(field(small.out, "peak_reserved").c_str(), nullptr) < 268435456.0);
}

TEST_CASE(
    "--statistics adds what the pool counted, and nothing for allocators that count nothing") {
  scratch_directory scratch;
  outcome const end = run_replay(scratch, {"--statistics", "--repeat", "2", data + "/small.csv"});
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  std::vector<std::string> const lines = lines_of(end.out);
  REQUIRE(lines.size() == 4);
  check_line(lines[0], "small", "pool", "12", "2098154");
  CHECK(lines[1].compare(0, 2, "  ") == 0);
  // Of both passes, with the frees of the blocks that the trace leaves allocated.
  CHECK(field(lines[1], "allocations") == field(lines[1], "deallocations"));
  CHECK(field(lines[1], "allocations") == "10");  // five of at least a byte, in each pass
  CHECK(std::strtod(field(lines[1], "virtual_memory_calls").c_str(), nullptr) >= 3.0);
  CHECK(field(lines[2], "allocator") == "async");
}

TEST_CASE("a compressed trace has the result of the plain one") {
  scratch_directory scratch;
  outcome const end = run_replay(scratch, {"--allocator", "best_fit", data + "/small.csv.gz"});
  INFO(end.text());
#if WARPWRIGHT_REPLAY_ZLIB
  REQUIRE(end.exit_code == 0);
  check_line(lines_of(end.out).at(0), "small", "best_fit", "12", "2098154");
#else
  CHECK(end.exit_code == 2);
  CHECK(end.error.find("built without zlib") != std::string::npos);
#endif
}

#if WARPWRIGHT_REPLAY_ZLIB
TEST_CASE("a compressed trace may come through a pipe") {
  scratch_directory scratch;
  outcome const end =
      run_program(scratch, {"/bin/sh", "-c", "cat \"$1\" | \"$0\" --allocator best_fit /dev/stdin",
                            WARPWRIGHT_REPLAY_PROGRAM, data + "/small.csv.gz"});
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  check_line(lines_of(end.out).at(0), "stdin", "best_fit", "12", "2098154");
}
#endif

TEST_CASE("an invalid trace ends in exit code 2 before any replay") {
  scratch_directory scratch;
  std::string const bad = scratch.write("bad.csv", "a,0,10,0\nf,1,10,0\n");
  outcome const end = run_replay(scratch, {data + "/small.csv", bad});
  INFO(end.text());
  CHECK(end.exit_code == 2);
  CHECK(end.out.empty());
  CHECK(end.error == "error: " + bad + ":2: block 1 is freed, but is not allocated\n");
}

TEST_CASE("an allocator out of memory ends in exit code 1, and the others are replayed") {
  scratch_directory scratch;
  outcome const end = run_replay(
      scratch, {"--pool-option", "max_bytes=1MiB", data + "/small.csv", data + "/rmm_log.csv"});
  INFO(end.text());
  CHECK(end.exit_code == 1);
  CHECK(lines_of(end.out).size() == 5);
  CHECK(end.error.find("error: allocator pool: ") == 0);
  CHECK(end.error.find("small.csv:7: no memory for 2097153 bytes; reserved ") != std::string::npos);
}

TEST_CASE("an invalid command line ends in exit code 2") {
  struct wrong {
    std::vector<std::string> arguments;
    std::string expected;
  };
  std::vector<wrong> const all = {
      {{}, "no trace given; try --help"},
      {{"--allocater", "pool"}, "unknown argument \"--allocater\"; try --help"},
      {{"--allocator"}, "--allocator needs a value; try --help"},
      {{"--allocator", "c10"}, "--allocator needs pool, async, best_fit or all, not \"c10\""},
      {{"--repeat", "0"}, "--repeat needs an integer of 1 to 1000, not \"0\""},
      {{"--repeat", "0x2"}, "--repeat needs an integer of 1 to 1000, not \"0x2\""},
      {{"--repeat", "99999999999999999999999"}, "--repeat needs an integer"},
      {{"--verify", "some"}, "--verify needs none, ends or full, not \"some\""},
      {{"--html", ""}, "--html needs a path"},
      {{"--pool-option", "growth_bytes"}, "--pool-option needs KEY=VALUE, not \"growth_bytes\""},
      {{"--pool-option", "colour=red"}, "--pool-option: unknown option \"colour\"; try --help"},
      {{"--pool-option", "growth_bytes=4MB"},
       "--pool-option growth_bytes needs a size such as 64MiB, not \"4MB\""},
      {{"--pool-option", "growth_bytes=99999999999GiB"},
       "--pool-option growth_bytes needs a size such as 64MiB"},
      {{"--pool-option", "growth_factor=-1"},
       "--pool-option growth_factor needs a number of 0 to 16, such as 0.5, not \"-1\""},
      {{"--pool-option", "growth_factor=17"},
       "--pool-option growth_factor needs a number of 0 to 16, such as 0.5, not \"17\""},
      {{"--pool-option", "max_fraction=0"},
       "--pool-option max_fraction needs a number above 0, at most 1, such as 0.5, not \"0\""},
      {{"--pool-option", "max_fraction=7", data + "/small.csv"},
       "--pool-option max_fraction needs a number above 0, at most 1, such as 0.5, not \"7\""},
      {{"--pool-option", "source=disk"},
       "--pool-option source needs automatic, virtual_memory, cuda_malloc or cuda_malloc_async, "
       "not \"disk\""},
      {{"--pool-option", "order=best"},
       "--pool-option order needs grow_before_wait or wait_before_grow, not \"best\""},
  };
  scratch_directory scratch;
  for (wrong const& each : all) {
    outcome const end = run_replay(scratch, each.arguments);
    INFO(end.text());
    CHECK(end.exit_code == 2);
    CHECK(end.error.rfind("error: " + each.expected, 0) == 0);
  }
  outcome const dashed = run_replay(scratch, {"--", "--help"});
  CHECK(dashed.exit_code == 2);
  CHECK(dashed.error == "error: --help: cannot be opened: No such file or directory\n");
}

TEST_CASE("each source of the pool's memory can be selected") {
  scratch_directory scratch;
  for (char const* const source : {"automatic", "cuda_malloc", "cuda_malloc_async"}) {
    outcome const end = run_replay(scratch, {"--allocator", "pool", "--pool-option",
                                             std::string{"source="} + source, data + "/small.csv"});
    INFO(end.text());
    CHECK(end.exit_code == 0);
  }
}

TEST_CASE("--help prints the usage and runs nothing") {
  scratch_directory scratch;
  outcome const end = run_replay(scratch, {"--help"});
  CHECK(end.exit_code == 0);
  CHECK(end.error.empty());
  CHECK(end.out.find("--pool-option K=V") != std::string::npos);
}

TEST_CASE("output that is lost ends in exit code 1") {
  if (access("/dev/full", W_OK) != 0) {
    WARN("skipped: this system has no /dev/full");
    return;
  }
  scratch_directory scratch;
  for (std::string const& argument : {std::string{"--help"}, data + "/small.csv"}) {
    outcome const end =
        run_program(scratch, {"/bin/sh", "-c", "exec \"$0\" --allocator pool \"$1\" > /dev/full",
                              WARPWRIGHT_REPLAY_PROGRAM, argument});
    INFO(end.text());
    CHECK(end.exit_code == 1);
    CHECK(end.error.find("error: the standard output cannot be written: No space left on device") ==
          0);
  }
}

TEST_CASE("a closed standard output ends in exit code 1") {
  scratch_directory scratch;
  std::string const page = scratch.file("page.html");
  for (std::string const& argument : {std::string{"--help"}, data + "/small.csv"}) {
    outcome const end = run_program(
        scratch, {"/bin/sh", "-c", "exec \"$0\" --allocator pool --html \"$1\" \"$2\" >&-",
                  WARPWRIGHT_REPLAY_PROGRAM, page, argument});
    INFO(end.text());
    CHECK(end.exit_code == 1);
    CHECK(end.error == "error: the standard output is closed; open it, or use /dev/null\n");
  }
  CHECK(access(page.c_str(), F_OK) != 0);
}

TEST_CASE("--html does not overwrite a trace") {
  scratch_directory scratch;
  std::string const text = test_support::read_file(data + "/small.csv");
  std::string const trace = scratch.write("trace.csv", text);
  std::string const symbolic = scratch.file("symbolic.csv");
  std::string const hard = scratch.file("hard.csv");
  REQUIRE(symlink(trace.c_str(), symbolic.c_str()) == 0);
  REQUIRE(link(trace.c_str(), hard.c_str()) == 0);
  std::string other_spelling = trace;
  other_spelling.insert(other_spelling.rfind('/'), "/.");
  for (std::string const& page : {trace, symbolic, hard, other_spelling}) {
    outcome const end = run_replay(scratch, {"--html", page, trace});
    INFO(end.text());
    CHECK(end.exit_code == 2);
    CHECK(end.error ==
          "error: --html would overwrite the trace \"" + trace + "\"; name another file\n");
    CHECK(end.out.empty());
  }
  // A page's own name, made of that of its trace, may be a trace's, too.
  std::string const second = scratch.write("page-trace.csv", text);
  std::string const asked = second.substr(0, second.size() - 10) + ".csv";
  outcome const end = run_replay(scratch, {"--html", asked, trace, second});
  INFO(end.text());
  CHECK(end.exit_code == 2);
  CHECK(end.error.find("--html would overwrite the trace \"" + second) != std::string::npos);
  CHECK(test_support::read_file(trace) == text);
  CHECK(test_support::read_file(second) == text);
}

TEST_CASE("a trace's name makes up no field and no line") {
  scratch_directory scratch;
  std::string const text = test_support::read_file(data + "/small.csv");
  std::string const trace = scratch.write("a b\nallocator=none ops=1.csv", text);
  outcome const end = run_replay(scratch, {"--allocator", "best_fit", trace});
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  REQUIRE(lines_of(end.out).size() == 1);
  check_line(lines_of(end.out)[0], "a_b_allocator=none_ops=1", "best_fit", "12", "2098154");
}

TEST_CASE("--html writes one page a trace") {
  scratch_directory scratch;
  std::string const page = scratch.file("page.html");
  outcome const one = run_replay(scratch, {"--html", page, data + "/small.csv"});
  INFO(one.text());
  REQUIRE(one.exit_code == 0);
  std::string const text = test_support::read_file(page);
  CHECK(test_support::malformed(text) == "");
  CHECK(text.find("<title>small: memory over time</title>") != std::string::npos);
  CHECK(text.find("best_fit: peak reserved / peak live") != std::string::npos);
  CHECK(text.find("largest free block") != std::string::npos);
  CHECK(text.find("<polygon class=\"live\" points=\"") != std::string::npos);

  std::string const first = scratch.file("pages-small.html");
  std::string const second = scratch.file("pages-rmm_log.html");
  std::string const asked = first.substr(0, first.size() - 11) + ".html";
  outcome const two = run_replay(scratch, {"--html", asked, "--threads", "--allocator", "pool",
                                           data + "/small.csv", data + "/rmm_log.csv"});
  INFO(two.text());
  REQUIRE(two.exit_code == 0);
  CHECK(test_support::malformed(test_support::read_file(first)) == "");
  CHECK(test_support::read_file(second).find("<h1>rmm_log</h1>") != std::string::npos);

  outcome const same =
      run_replay(scratch, {"--html", page, data + "/small.csv", data + "/small.csv"});
  CHECK(same.exit_code == 2);
  CHECK(same.error.find("two traces are named \"small\"") != std::string::npos);
  outcome const nowhere =
      run_replay(scratch, {"--html", "/no/such/page.html", data + "/small.csv"});
  CHECK(nowhere.exit_code == 1);
  CHECK(nowhere.out.empty());  // reported before any replay
  CHECK(nowhere.error ==
        "error: /no/such/page.html: the page cannot be written: No such file or directory\n");
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("any failing CUDA call is an error, not a crash, and nothing leaks") {
  scratch_directory scratch;
  std::string const list = scratch.file("calls.txt");
  outcome const good = run_replay(scratch, {data + "/small.csv"},
                                  {"WARPWRIGHT_HOST_CALLS=" + list, "WARPWRIGHT_HOST_LEAKS=1"});
  INFO(good.text());
  REQUIRE(good.exit_code == 0);
  std::istringstream calls{test_support::read_file(list)};
  unsigned tried = 0;
  std::string name;
  std::string count;
  while (calls >> name >> count) {
    outcome const end = run_replay(
        scratch, {data + "/small.csv"},
        {"WARPWRIGHT_HOST_FAULT=" + name + ":1:cudaErrorUnknown", "WARPWRIGHT_HOST_LEAKS=1"});
    INFO(name + ": " + end.text());
    CHECK(end.signal == 0);
    // 0: the failure of this call is ignored (a destructor's, a query's); 23 are leaks.
    CHECK((end.exit_code == 0 || end.exit_code == 1 || end.exit_code == 23));
    if (end.exit_code == 1) CHECK(end.error.find("error: ") == 0);
    ++tried;
  }
  CHECK(tried > 10);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these need more addresses
TEST_CASE("threads that cannot be started are an error, not an abort") {
  scratch_directory scratch;
  std::string text;
  for (int i = 0; i < 1024; ++i)
    text += "a," + std::to_string(i) + ",8," + std::to_string(i) + '\n';
  outcome const end = run_program(
      scratch,
      {"/bin/sh", "-c",  // 1,024 stacks of 8 MiB do not fit
       "ulimit -s 8192; ulimit -v 2000000; exec \"$0\" --allocator best_fit --threads \"$1\"",
       WARPWRIGHT_REPLAY_PROGRAM, scratch.write("wide.csv", text)},
      {"WARPWRIGHT_HOST_MEMORY_BYTES=67108864"});
  INFO(end.text());
  CHECK(end.signal == 0);
  CHECK(end.exit_code == 1);
  CHECK(end.error.find(" of 1024 cannot be started: ") != std::string::npos);
  CHECK(end.error.find("or omit --threads") != std::string::npos);
}
#endif

TEST_CASE("a device that is too small is reported, with the remedy") {
  scratch_directory scratch;
  outcome const end = run_replay(scratch, {"--allocator", "best_fit", data + "/small.csv"},
                                 {"WARPWRIGHT_HOST_MEMORY_BYTES=4194304"});
  INFO(end.text());
  CHECK(end.exit_code == 1);
  CHECK(end.error.find("Raise WARPWRIGHT_HOST_MEMORY_BYTES") != std::string::npos);
}
#endif
