// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The digits program: exit codes, error texts, the RESULT line, the report.
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

outcome run_digits(scratch_directory& scratch, std::vector<std::string> arguments,
                   std::vector<std::string> const& environment = {}) {
  arguments.insert(arguments.begin(), DIGITS_PROGRAM);
  return run_program(scratch, arguments, environment);
}

std::string good_data() { return test_support::read_file(DIGITS_DATA); }

// Runs with an invalid data file: exit code 2, and one line that names it.
void check_rejected(scratch_directory& scratch, std::string const& path,
                    std::string const& expected) {
  outcome const end = run_digits(scratch, {"--data", path, "--report", scratch.file("r.html")});
  INFO(end.text());
  CHECK(end.exit_code == 2);
  CHECK(end.error == "error: " + path + expected + '\n');
  CHECK(end.out.find("RESULT") == std::string::npos);
}

}  // namespace

TEST_CASE("an invalid data file is exit code 2, with its name and line") {
  scratch_directory scratch;
  std::string const whole = good_data();
  REQUIRE(whole.size() > 100000);

  check_rejected(scratch, scratch.file("missing.csv"),
                 ": cannot be opened: No such file or directory");

  std::size_t const tenth_line = [&] {
    std::size_t at = 0;
    for (int i = 0; i < 9; ++i) at = whole.find('\n', at) + 1;
    return at;
  }();
  check_rejected(scratch, scratch.write("short.csv", whole.substr(0, tenth_line)),
                 ":10: the file ends after 9 of 1,797 images");

  std::string bad = whole;
  bad[tenth_line] = 'x';
  check_rejected(scratch, scratch.write("bad.csv", bad),
                 ":10: column 1: expected a pixel of 0 to 16, found \"x\"");

  check_rejected(scratch, scratch.write("long.csv", whole + whole),
                 ":1798: expected 1,797 lines, but here is one more");
}

TEST_CASE("an invalid command line is exit code 2") {
  struct wrong {
    std::vector<std::string> arguments;
    std::string expected;
  };
  std::vector<wrong> const all = {
      {{"--sede", "1"}, "unknown argument \"--sede\"; try --help"},
      {{"--seed"}, "--seed needs a value; try --help"},
      {{"--seed", "-1"}, "--seed needs an integer of 0 to"},
      {{"--epochs", "0"}, "--epochs needs an integer of 1 to 1000, not \"0\""},
      {{"--epochs", "1e3"}, "--epochs needs an integer of 1 to 1000, not \"1e3\""},
      {{"--tune-max", "100000"}, "--tune-max needs an integer of 1 to 65536, not \"100000\""},
      {{"--memory-budget", "8MB"}, "--memory-budget needs a size such as 8MiB, not \"8MB\""},
      {{"--memory-budget", "0"}, "--memory-budget needs a size of 1 byte or more, not \"0\""},
      {{"--latency-limit", "20"}, "--latency-limit needs a time with a unit"},
      {{"--latency-limit", "0ms"}, "--latency-limit needs a time above 0, not \"0ms\""},
      {{"--latency-limit", "fast"}, "--latency-limit needs a number, not \"fast\""},
      {{"--accuracy-floor", "1.5"}, "--accuracy-floor needs a number of 0 to 1, not \"1.5\""},
      {{"--data", ""}, "--data needs a path"},
      {{"--tuning-store"}, "--tuning-store needs a value; try --help"},
      {{"--tuning-store", ""}, "--tuning-store needs the path of a file, not \"\""},
      {{"--tuning-store", "folder/"}, "--tuning-store needs the path of a file, not \"folder/\""},
  };
  scratch_directory scratch;
  for (wrong const& each : all) {
    outcome const end = run_digits(scratch, each.arguments);
    INFO(each.expected << '\n' << end.text());
    CHECK(end.exit_code == 2);
    CHECK(end.error.rfind("error: " + each.expected, 0) == 0);
  }
}

TEST_CASE("--help lists the options and runs nothing") {
  scratch_directory scratch;
  outcome const end = run_digits(scratch, {"--help"});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK(end.out.find("--memory-budget SIZE") != std::string::npos);
  CHECK(end.out.find("RESULT") == std::string::npos);
}

TEST_CASE("a short run ends in a RESULT line and a report") {
  scratch_directory scratch;
  std::string const report = scratch.file("report.html");
  outcome const end = run_digits(scratch, {"--quick", "--report", report});
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  CHECK(end.error == "");
  test_support::result_fields fields;
  REQUIRE(test_support::parse_result(test_support::last_line(end.out), fields) == "");
  CHECK(fields.report == report);
  CHECK(fields.batch <= 64);
  CHECK(fields.accuracy > 0.3);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(fields.runtime == "host");
  CHECK(end.out.find("No GPU speed is measured") != std::string::npos);
#else
  CHECK(fields.runtime == "cuda");
#endif
  CHECK(end.out.find("-> ") != std::string::npos);
  std::string const page = test_support::read_file(report);
  CHECK(test_support::malformed(page) == "");
  CHECK(page.find("chosen: " + std::to_string(fields.batch)) != std::string::npos);
}

TEST_CASE("a second run finds the batch of the first one in the store") {
  scratch_directory scratch;
  std::string const store = scratch.file("tuning.txt");
  static_cast<void>(scratch.file("tuning.txt.lock"));
  std::vector<std::string> const arguments = {"--quick", "--tuning-store", store, "--report",
                                              scratch.file("report.html")};
  test_support::result_fields fields[3];
  for (int i = 0; i < 3; ++i) {
    std::vector<std::string> its = arguments;
    // Of other limits there is no stored batch.
    if (i == 2) its.insert(its.end(), {"--memory-budget", "40KiB"});
    outcome const end = run_digits(scratch, its);
    INFO(end.text());
    REQUIRE(end.exit_code == 0);
    CHECK(end.error == "");
    REQUIRE(test_support::parse_result(test_support::last_line(end.out), fields[i]) == "");
    CHECK(fields[i].tuning == (i == 1 ? "stored" : "tuned"));
    CHECK(end.out.find("warning:") == std::string::npos);
    std::string const page = test_support::read_file(fields[i].report);
    CHECK(test_support::malformed(page) == "");
    CHECK((page.find("stored by an earlier run") != std::string::npos) == (i == 1));
  }
  CHECK(fields[1].batch == fields[0].batch);
  CHECK(test_support::read_file(store).find("digits 64-256-10") != std::string::npos);
}

TEST_CASE("a store that cannot be written is a warning") {
  scratch_directory scratch;
  outcome const end = run_digits(scratch, {"--quick", "--report", scratch.file("report.html"),
                                           "--tuning-store", "/nonexistent/folder/tuning.txt"});
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  CHECK(end.error == "");
  CHECK(end.out.find("warning: ") != std::string::npos);
  test_support::result_fields fields;
  REQUIRE(test_support::parse_result(test_support::last_line(end.out), fields) == "");
  CHECK(fields.tuning == "tuned");
}

TEST_CASE("a whole training reaches the accuracy, the same for the same seed") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  std::vector<std::string> const length = {"--quick", "--epochs", "6", "--accuracy-floor", "0.85"};
#else
  std::vector<std::string> const length = {"--quick", "--epochs", "40", "--accuracy-floor", "0.96"};
#endif
  scratch_directory scratch;
  std::vector<std::string> arguments = length;
  arguments.insert(arguments.end(), {"--seed", "7", "--report", scratch.file("report.html")});
  double accuracy[2] = {};
  for (double& each : accuracy) {
    outcome const end = run_digits(scratch, arguments);
    INFO(end.text());
    REQUIRE(end.exit_code == 0);
    test_support::result_fields fields;
    REQUIRE(test_support::parse_result(test_support::last_line(end.out), fields) == "");
    each = fields.accuracy;
  }
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(accuracy[0] == accuracy[1]);
#endif
}

TEST_CASE("a run that fails is exit code 1 and one clear line") {
  scratch_directory scratch;
  std::string const report = scratch.file("report.html");
  struct failing {
    std::vector<std::string> arguments;
    std::string expected;
  };
  std::vector<failing> const all = {
      {{"--quick", "--report", "/nonexistent-directory/r.html"},
       "error: /nonexistent-directory/r.html: the report cannot be written: No such file or "
       "directory\n"},
      {{"--quick", "--report", report, "--accuracy-floor", "1"}, "error: accuracy 0."},
      {{"--quick", "--report", report, "--latency-limit", "0.001us"},
       "error: no batch size is within the limits; raise --memory-budget or --latency-limit\n"},
      {{"--quick", "--report", report, "--memory-budget", "1"},
       "error: no batch size is within the limits; raise --memory-budget or --latency-limit\n"},
  };
  for (failing const& each : all) {
    outcome const end = run_digits(scratch, each.arguments);
    INFO(end.text());
    CHECK(end.exit_code == 1);
    CHECK(end.error.rfind(each.expected, 0) == 0);
    CHECK(end.out.find("RESULT") == std::string::npos);
  }
}

TEST_CASE("the table shows the limits") {
  scratch_directory scratch;
  outcome const end = run_digits(
      scratch, {"--quick", "--report", scratch.file("report.html"), "--memory-budget", "40KiB"});
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  CHECK(end.out.find("over budget") != std::string::npos);
  test_support::result_fields fields;
  REQUIRE(test_support::parse_result(test_support::last_line(end.out), fields) == "");
  CHECK(fields.batch < 31);  // 1,324 bytes per image
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("the errors without a device, and with too little memory") {
  scratch_directory scratch;
  std::vector<std::string> const arguments = {"--quick", "--report", scratch.file("report.html")};
  outcome const none = run_digits(scratch, arguments, {"WARPWRIGHT_HOST_DEVICES=0"});
  INFO(none.text());
  CHECK(none.exit_code == 1);
  CHECK(none.error == "error: no CUDA device is visible\n");

  outcome const small = run_digits(
      scratch, arguments, {"WARPWRIGHT_HOST_MEMORY_BYTES=65536", "WARPWRIGHT_HOST_LEAKS=1"});
  INFO(small.text());
  CHECK(small.exit_code == 1);
  CHECK(small.error.find("out of memory on device 0: requested") != std::string::npos);
}
#endif
