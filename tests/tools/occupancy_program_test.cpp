// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The warpwright_occupancy program: options, output, exit statuses.
#include "digits/support_process.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

TEST_CASE("warpwright_occupancy takes what it can use, and refuses the rest") {
  struct run {
    std::vector<std::string> arguments;
    int status;
    char const* part;  // of the output
  };
  std::vector<run> const runs = {
      {{"-h"}, 0, "usage: "},
      {{"--arch", "sm_90a,80", "--registers", "40"}, 0, "sm_80        6     48       75 %"},
      {{"--gpu", "NVIDIA L4", "--blocks", "700"}, 0, "L4: 700 blocks are 3 waves"},
      {{"--arch", "90", "--barriers", "17"}, 0, "1 barrier fewer"},
      {{}, 2, "give --arch, --gpu or --ptxas"},
      {{"--foo"}, 2, "there is no option '--foo'"},
      {{"--arch", ""}, 2, "--arch needs a value"},
      {{"--arch", "90", "--arch", "80"}, 2, "--arch is given twice"},
      {{"--arch", "hopper"}, 2, "known are sm_60, "},
      {{"--arch", "90", "--threads", "0"}, 2, "'0'; a whole number from 1 to 65536"},
      {{"--arch", "90,80", "--svg", "x"}, 2, "--svg draws one architecture"},
      {{"--arch", "90", "--blocks", "9"}, 2, "--gpu and --blocks need each other"},
      {{"--gpu", "L4", "--blocks", "9", "--arch", "90"}, 2, "L4 is sm_89, not sm_90"},
      {{"--ptxas", "x", "--svg", "y"}, 2, "--svg has no effect with --ptxas"},
      {{"--ptxas", "/dev/null"}, 2, "/dev/null: parse_ptxas: there is no line"},
      {{"--ptxas", "/"}, 1, "cannot read /: Is a directory"},
  };
  test_support::scratch_directory scratch;
  for (run const& each : runs) {
    std::vector<std::string> command = each.arguments;
    command.insert(command.begin(), WARPWRIGHT_OCCUPANCY_PROGRAM);
    test_support::outcome const end = test_support::run_program(scratch, command, {});
    INFO(end.text());
    CHECK(end.exit_code == each.status);
    CHECK((each.status == 0 ? end.out : end.error).find(each.part) != std::string::npos);
    CHECK(end.error.find("main.cpp") == std::string::npos);
  }
  std::string const closed = "exec \"$0\" -h >&-";
  CHECK(test_support::run_program(scratch, {"/bin/sh", "-c", closed, WARPWRIGHT_OCCUPANCY_PROGRAM},
                                  {})
            .exit_code == 1);
}
