// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the digits program writes: lost output fails, no input is overwritten, no argument makes up
// a RESULT line, long steps show their progress, and parts are compared with the plain CUDA way.
#include "digits/result_line.hpp"
#include "digits/support_process.hpp"
#include "digits/well_formed.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace {

using test_support::outcome;
using test_support::run_program;
using test_support::scratch_directory;

outcome run_digits(scratch_directory& scratch, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), DIGITS_PROGRAM);
  return run_program(scratch, arguments);
}

// Runs with a redirection of the shell.
outcome run_redirected(scratch_directory& scratch, std::string const& redirection,
                       std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"/bin/sh", "-c", "exec \"$0\" \"$@\" " + redirection, DIGITS_PROGRAM});
  return run_program(scratch, arguments);
}

std::string copy_of_data(scratch_directory& scratch) {
  return scratch.write("digits.csv", test_support::read_file(DIGITS_DATA));
}

}  // namespace

TEST_CASE("output that is lost is exit code 1") {
  if (access("/dev/full", W_OK) != 0) {
    WARN("skipped: this system has no /dev/full");
    return;
  }
  scratch_directory scratch;
  std::string const report = scratch.file("report.html");
  for (std::vector<std::string> const& arguments :
       {std::vector<std::string>{"--help"}, {"--quick", "--report", report}}) {
    outcome const end = run_redirected(scratch, "> /dev/full", arguments);
    INFO(end.text());
    CHECK(end.exit_code == 1);
    CHECK(end.error ==
          "error: the standard output cannot be written: No space left on device; make room, or "
          "write it elsewhere\n");
  }
  CHECK(access(report.c_str(), F_OK) != 0);  // it fails before the work, not after it
}

TEST_CASE("a closed standard output is exit code 1, and no file receives the output") {
  scratch_directory scratch;
  std::string const report = scratch.file("report.html");
  for (std::vector<std::string> const& arguments :
       {std::vector<std::string>{"--help"}, {"--quick", "--report", report}}) {
    outcome const end = run_redirected(scratch, ">&-", arguments);
    INFO(end.text());
    CHECK(end.exit_code == 1);
    CHECK(end.error == "error: the standard output is closed; open it, or use /dev/null\n");
  }
  CHECK(access(report.c_str(), F_OK) != 0);

  // Without an input and an error output the report is a page and nothing else.
  outcome const end = run_redirected(scratch, "<&- 2>&-", {"--quick", "--report", report});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK(test_support::malformed(test_support::read_file(report)) == "");
}

TEST_CASE("no file that is read is written over") {
  scratch_directory scratch;
  std::string const data = copy_of_data(scratch);
  std::string const before = test_support::read_file(data);
  std::string const symbolic = scratch.file("symbolic.csv");
  std::string const hard = scratch.file("hard.csv");
  REQUIRE(symlink(data.c_str(), symbolic.c_str()) == 0);
  REQUIRE(link(data.c_str(), hard.c_str()) == 0);
  std::string other_spelling = data;
  other_spelling.insert(other_spelling.rfind('/'), "/.");
  std::string const report = scratch.file("report.html");
  std::string const store = scratch.file("store");
  struct wrong {
    std::vector<std::string> arguments;
    std::string expected;
  };
  std::vector<wrong> all;
  for (std::string const& name : {data, symbolic, hard, other_spelling}) {
    all.push_back({{"--data", data, "--report", name},
                   "--report would overwrite the file of --data, \"" + data + '"'});
    all.push_back({{"--data", data, "--report", report, "--tuning-store", name},
                   "--tuning-store would overwrite the file of --data, \"" + data + '"'});
  }
  all.push_back({{"--data", data, "--report", store, "--tuning-store", store},
                 "--report would overwrite the file of --tuning-store, \"" + store + '"'});
  for (wrong each : all) {
    each.arguments.emplace_back("--quick");
    outcome const end = run_digits(scratch, each.arguments);
    INFO(end.text());
    CHECK(end.exit_code == 2);
    CHECK(end.error == "error: " + each.expected + "; name another file\n");
    CHECK(end.out.empty());
  }
  CHECK(test_support::read_file(data) == before);
  CHECK(access(store.c_str(), F_OK) != 0);
}

TEST_CASE("a store that becomes the report's file in the run is not overwritten") {
  scratch_directory scratch;
  std::string const store = scratch.file("store");
  static_cast<void>(scratch.file("store.lock"));
  std::string other_spelling = store;
  other_spelling.insert(other_spelling.rfind('/'), "/.");
  outcome const end =
      run_digits(scratch, {"--quick", "--report", other_spelling, "--tuning-store", store});
  INFO(end.text());
  CHECK(end.exit_code == 2);
  CHECK(end.error.find("--report would overwrite the file of --tuning-store") != std::string::npos);
  CHECK(test_support::read_file(store).find("digits 64-256-10") != std::string::npos);
}

TEST_CASE("no argument makes up a line of the output") {
  scratch_directory scratch;
  std::string const forged =
      "x\nRESULT runtime=cuda device=\"H100\" accuracy=1.0 batch=1 items_per_s=1 p99_ms=1 "
      "graph_speedup=9 tuning=tuned report=r";
  std::vector<std::vector<std::string>> const all = {
      {"--report", scratch.file("r") + forged},
      {"--data", forged},
      {"--tuning-store", forged},
      {"--tuning-store", forged + '/'},
      {forged},
      {"--seed", forged},
      {"--latency-limit", "3" + forged},
      {"--memory-budget", "3" + forged},
      {"--accuracy-floor", "0" + forged},
      {"--report", scratch.file("r") + "\rRESULT"},
      {"--report", scratch.file("r") + "\x1b[2K"},
  };
  for (std::vector<std::string> arguments : all) {
    arguments.emplace_back("--quick");
    outcome const end = run_digits(scratch, arguments);
    INFO(end.text());
    CHECK(end.exit_code == 2);
    CHECK(end.out.empty());
    CHECK(end.error.find('\n') == end.error.size() - 1);  // one line
    CHECK(end.error.find_first_of("\r\x1b") == std::string::npos);
  }
}

TEST_CASE("a terminal shows progress in one line, and other outputs none of a short run") {
  scratch_directory scratch;
  std::vector<std::string> const arguments = {
      DIGITS_PROGRAM, "--quick", "--epochs", "2", "--report", scratch.file("report.html")};
  outcome const end = test_support::run_on_terminal(arguments);
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  CHECK(end.out.find("\rtraining: epoch 1 of 2") != std::string::npos);
  CHECK(end.out.find("\rtuning: ") != std::string::npos);
  // Each line is cleared: what follows the last return of a line is what stays.
  std::string stays;
  std::size_t begin = 0;
  for (std::size_t at = end.out.find('\n'); at != std::string::npos;
       begin = at + 1, at = end.out.find('\n', begin)) {
    std::string const line = end.out.substr(begin, at - begin);
    stays += line.substr(line.rfind('\r') + 1) + '\n';  // npos + 1 is 0
  }
  CHECK(stays.find("epoch 1") == std::string::npos);
  CHECK(stays.find("tuning: ") == std::string::npos);
  test_support::result_fields fields;
  CHECK(test_support::parse_result(test_support::last_line(stays), fields) == "");

  outcome const plain = run_program(scratch, arguments);
  INFO(plain.text());
  CHECK(plain.exit_code == 0);
  CHECK(plain.out.find('\r') == std::string::npos);
}

TEST_CASE("--compare shows each part beside the plain CUDA way, in the output and the report") {
  scratch_directory scratch;
  std::string const report = scratch.file("report.html");
  outcome const end = run_digits(scratch, {"--quick", "--compare", "--report", report});
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  CHECK(end.error == "");
  std::string const page = test_support::read_file(report);
  CHECK(test_support::malformed(page) == "");
  for (char const* const part : {"memory pool", "staging", "graph", "tuner", "fused kernels"}) {
    INFO(part);
    CHECK(end.out.find('\n' + std::string{part} + ' ') != std::string::npos);
    CHECK(page.find("<tr><td class=\"why\">" + std::string{part} + "</td>") != std::string::npos);
  }
  CHECK(page.find("not compared") == std::string::npos);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(end.out.find("a GPU's gains are others") != std::string::npos);
  CHECK(page.find("a GPU's gains are others") != std::string::npos);
#endif
  test_support::result_fields fields;
  CHECK(test_support::parse_result(test_support::last_line(end.out), fields) == "");

  outcome const without = run_digits(scratch, {"--quick", "--report", report});
  REQUIRE(without.exit_code == 0);
  CHECK(without.out.find("plain CUDA") == std::string::npos);
  CHECK(test_support::read_file(report).find("not compared in this run") != std::string::npos);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a CUDA call that fails in the comparison ends the run, and leaks nothing") {
  scratch_directory scratch;
  std::string const report = scratch.file("report.html");
  std::string const list = scratch.file("calls.txt");
  auto const with = [&](std::vector<std::string> const& arguments,
                        std::vector<std::string> environment) {
    environment.insert(environment.end(),
                       {"WARPWRIGHT_HOST_TIME=simulated", "WARPWRIGHT_HOST_LEAKS=1"});
    std::vector<std::string> command = {DIGITS_PROGRAM, "--quick",  "--tune-max",
                                        "16",           "--report", report};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_program(scratch, command, environment);
  };
  REQUIRE(with({"--compare"}, {"WARPWRIGHT_HOST_CALLS=" + list}).exit_code == 0);
  std::string const calls = test_support::read_file(list);
  // cudaMalloc is called by nothing but the plain way of the pool.
  for (char const* const function : {"cudaMalloc", "cudaMemsetAsync"}) {
    INFO(calls);
    REQUIRE(calls.find(std::string{function} + ' ') != std::string::npos);
    for (char const* const call : {"1", "3", "6"}) {
      outcome const end = with({"--compare"}, {std::string{"WARPWRIGHT_HOST_FAULT="} + function +
                                               ':' + call + ":cudaErrorUnknown"});
      INFO(function << ' ' << call << '\n' << end.text());
      CHECK(end.exit_code == 1);  // 23 with leaks
      CHECK(end.error.rfind("error: ", 0) == 0);
      CHECK(end.out.find("RESULT") == std::string::npos);
    }
  }
}
#endif
