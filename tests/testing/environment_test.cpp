// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The environment variables, with an unmodified program.
#include "testing/child_process.hpp"

namespace {

using test_support::outcome;
using test_support::run_child;

constexpr char const* leaks = "WARPWRIGHT_HOST_LEAKS=1";

}  // namespace

TEST_CASE("a program without leaks ends with its own status") {
  for (char const* situation : {"clean", "free_at_the_end"}) {
    outcome const end = run_child(situation, {leaks});
    INFO(situation << ": " << end.text());
    CHECK(end.exit_code == 0);
    CHECK(end.error.empty());
  }
}

TEST_CASE("a program that leaks ends with status 23 and a list") {
  outcome const end = run_child("leak", {leaks});
  INFO(end.text());
  CHECK(end.exit_code == 23);
  CHECK_THAT(end.error, contains("not freed or destroyed: 3\n"));
  CHECK_THAT(end.error, contains("cudaMalloc: 1000 bytes"));
  CHECK_THAT(end.error, contains("stream 0x"));
  CHECK_THAT(end.error, contains("event 0x"));
}

TEST_CASE("leaks are not reported by default") {
  for (char const* variable : {"WARPWRIGHT_HOST_LEAKS=0", "WARPWRIGHT_HOST_LEAKS="}) {
    outcome const end = run_child("leak", {variable});
    INFO(variable << ": " << end.text());
    CHECK(end.exit_code == 0);
    CHECK(end.error.empty());
  }
}

TEST_CASE("calls are written at exit in the order of first calls") {
  test_support::scratch_directory scratch;
  std::string const list = scratch.file("calls.txt");
  outcome const end = run_child("calls", {"WARPWRIGHT_HOST_CALLS=" + list});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK(test_support::read_file(list) == "cudaMalloc 3\ncudaFree 4\ncudaDeviceSynchronize 1\n");
}

TEST_CASE("calls are written beside a leak report") {
  test_support::scratch_directory scratch;
  std::string const list = scratch.file("calls.txt");
  outcome const end = run_child("leak", {leaks, "WARPWRIGHT_HOST_CALLS=" + list});
  INFO(end.text());
  CHECK(end.exit_code == 23);
  CHECK_THAT(test_support::read_file(list), contains("cudaEventCreate 1\n"));
}

TEST_CASE("a list that cannot be written ends the process with status 2") {
  for (char const* file : {"/nonexistent/calls.txt", "/"}) {
    std::string const setting = std::string{"WARPWRIGHT_HOST_CALLS="} + file;
    outcome const end = run_child("describe", {setting});
    INFO(end.text());
    CHECK(end.exit_code == 2);
    CHECK_THAT(end.error, contains(setting + ": cannot write the file: "));
    CHECK(end.out.empty());
  }
}

TEST_CASE("a list that is lost at exit ends the process with status 2, or that of its leaks") {
  constexpr char const* full = "WARPWRIGHT_HOST_CALLS=/dev/full";
  outcome const end = run_child("calls", {full});
  INFO(end.text());
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.error, contains(full));
  CHECK(run_child("leak", {full, leaks}).exit_code == 23);
}

TEST_CASE("without standard streams the runtime leaves their descriptors free") {
  test_support::scratch_directory scratch;
  std::string const list = scratch.file("calls.txt");
  outcome const end = run_child("standard_streams_closed", {"WARPWRIGHT_HOST_CALLS=" + list});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK_THAT(test_support::read_file(list), contains("cuMemCreate "));
}

TEST_CASE("faults come from the environment") {
  outcome const end =
      run_child("describe", {"WARPWRIGHT_HOST_FAULT=cudaMalloc:2:cudaErrorMemoryAllocation,"
                             "cudaMalloc:3+:cudaErrorNotSupported"});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.out, contains("cudaSuccess\ncudaErrorMemoryAllocation\ncudaErrorNotSupported\n"));
}

TEST_CASE("a poisoned device from the environment") {
  outcome const end =
      run_child("describe", {"WARPWRIGHT_HOST_FAULT=cudaFree:1:poison=cudaErrorIllegalAddress"});
  INFO(end.text());
  CHECK_THAT(end.out, contains("cudaSuccess\ncudaErrorIllegalAddress\ncudaErrorIllegalAddress\n"));
}

TEST_CASE("devices come from the environment") {
  outcome const end =
      run_child("describe", {"WARPWRIGHT_HOST_PROFILE=rtx 4090", "WARPWRIGHT_HOST_DEVICES=2",
                             "WARPWRIGHT_HOST_MEMORY_BYTES=1048576"});
  INFO(end.text());
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.out, contains("devices 2\nRTX 4090 (host runtime), 1048576 bytes\n"
                               "RTX 4090 (host runtime), 1048576 bytes\n"));
}

TEST_CASE("a list of leaks that is neither on nor off ends the process") {
  outcome const end = run_child("describe", {"WARPWRIGHT_HOST_LEAKS=no"});
  INFO(end.text());
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.error, contains("WARPWRIGHT_HOST_LEAKS"));
}

TEST_CASE("a time that is neither real nor simulated ends the process") {
  outcome const end = run_child("describe", {"WARPWRIGHT_HOST_TIME=stopped"});
  INFO(end.text());
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.error, contains("WARPWRIGHT_HOST_TIME"));
}

TEST_CASE("without an environment there is one H100 with 4 GiB") {
  outcome const end = run_child("describe");
  INFO(end.text());
  CHECK_THAT(end.out, contains("devices 1\nH100 (host runtime), 4294967296 bytes\ncudaSuccess\n"));
}

TEST_CASE("the real board's memory, little memory, and no device") {
  CHECK_THAT(run_child("describe", {"WARPWRIGHT_HOST_MEMORY_BYTES=profile"}).out,
             contains("H100 (host runtime), 85899345920 bytes\ncudaSuccess\n"));
  CHECK_THAT(run_child("describe", {"WARPWRIGHT_HOST_MEMORY_BYTES=999"}).out,
             contains("H100 (host runtime), 999 bytes\ncudaErrorMemoryAllocation\n"));
  CHECK_THAT(run_child("describe", {"WARPWRIGHT_HOST_DEVICES=0"}).out,
             contains("devices 0\ncudaErrorNoDevice\n"));
}

TEST_CASE("a malformed value ends the process with status 2") {
  struct bad {
    std::string variable, value, says;
  };
  std::vector<bad> const cases{
      {"WARPWRIGHT_HOST_PROFILE", "H1000", "RTX 5090"},
      {"WARPWRIGHT_HOST_PROFILE", "", "H100"},
      {"WARPWRIGHT_HOST_DEVICES", "17", "0 to 16"},
      {"WARPWRIGHT_HOST_DEVICES", "-1", "0 to 16"},
      {"WARPWRIGHT_HOST_DEVICES", "two", "0 to 16"},
      {"WARPWRIGHT_HOST_DEVICES", "", "0 to 16"},
      {"WARPWRIGHT_HOST_MEMORY_BYTES", "0", "number of bytes"},
      {"WARPWRIGHT_HOST_MEMORY_BYTES", "4GiB", "number of bytes"},
      {"WARPWRIGHT_HOST_MEMORY_BYTES", "99999999999999999999999", "number of bytes"},
      {"WARPWRIGHT_HOST_FAULT", "cudaMalloc", "rule \"cudaMalloc\""},
      {"WARPWRIGHT_HOST_FAULT", "cudaMalloc:1:cudaErrorNoSuch", "cudaErrorNoSuch"},
      {"WARPWRIGHT_HOST_FAULT", "cudaMaloc:1:2", "the nearest name is \"cudaMalloc\""},
  };
  for (bad const& each : cases) {
    std::string const setting = each.variable + '=' + each.value;
    outcome const end = run_child("describe", {setting});
    INFO(setting << ": " << end.text());
    CHECK(end.exit_code == 2);
    CHECK_THAT(end.error, contains(setting));
    CHECK_THAT(end.error, contains(each.says));
    CHECK(end.out.empty());
  }
}
