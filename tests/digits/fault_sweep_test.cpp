// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Runtime calls of the digits program fail, one in each run: the program must end with a clear
// error or with the complete result, and without leaks.
#include "digits/result_line.hpp"
#include "digits/support_process.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using test_support::outcome;
using test_support::process;
using test_support::scratch_directory;

using test_support::sanitized;
constexpr double limit_seconds = sanitized ? 120.0 : 30.0;
constexpr std::size_t side_by_side = 2;

struct called {
  std::string name;
  std::uint64_t count;
};

std::vector<std::string> quick_run(scratch_directory& scratch) {
  return {DIGITS_PROGRAM, "--quick", "--tune-max", "16", "--report", scratch.file("report.html")};
}

// With simulated time the tuner's decisions depend on the earlier calls only: each run makes the
// same calls up to the one that fails.
std::vector<std::string> environment(std::string const& calls_file) {
  return {"WARPWRIGHT_HOST_TIME=simulated", "WARPWRIGHT_HOST_LEAKS=1",
          "WARPWRIGHT_HOST_CALLS=" + calls_file};
}

std::vector<called> parse_calls(std::string const& text) {
  std::vector<called> calls;
  std::istringstream lines{text};
  called each;
  while (lines >> each.name >> each.count) calls.push_back(each);
  return calls;
}

// The calls of one function to fail: the first, second, fourth, eighth, ... and the last; every one
// in the nightly build; with a sanitizer, where a run takes seconds, the first or the last.
std::set<std::uint64_t> which_calls(std::uint64_t count) {
  if (sanitized) return {count % 2 == 0 ? 1 : count};
  std::set<std::uint64_t> which{1, count};
  for (std::uint64_t n = 1; n < count; n += WARPWRIGHT_NIGHTLY ? 1 : n) which.insert(n);
  return which;
}

bool takes_memory(std::string const& name) {
  return name.find("Malloc") != std::string::npos || name.find("HostAlloc") != std::string::npos;
}

// A failure of such a call leaks its object, whatever the caller does, but no other object.
// A mapping that is leaked keeps its memory and its addresses.
long left_behind(std::string const& name) {
  if (name == "cuMemUnmap") return 3;
  bool const gives_back = name.find("Free") != std::string::npos ||
                          name.find("Destroy") != std::string::npos ||
                          name == "cudaHostUnregister" || name == "cuMemRelease";
  return gives_back ? 1 : 0;
}

// The number of the pool's event queries depends on the speed of the machine.
bool is_polled(std::string const& name) { return name == "cudaEventQuery"; }

// The number in the runtime's "objects not freed or destroyed: N"; 0 without that line.
long leaks(std::string const& error) {
  std::string const line = "objects not freed or destroyed: ";
  std::size_t const at = error.find(line);
  return at == std::string::npos ? 0 : std::strtol(error.c_str() + at + line.size(), nullptr, 10);
}

std::uint64_t count_of(std::string const& name, std::vector<called> const& calls) {
  for (called const& each : calls) {
    if (each.name == name) return each.count;
  }
  return 0;
}

struct trial {
  std::string function;
  std::uint64_t call;  // the one that fails
  std::string how;
  long most_leaks;
  bool must_fail;
  int attempts = 0;

  [[nodiscard]] std::string fault() const {
    return function + ':' + std::to_string(call) + ':' + how;
  }
};

// @return whether the program ended with status 0
bool judge(trial const& tried, outcome const& end) {
  INFO("WARPWRIGHT_HOST_FAULT=" << tried.fault() << '\n' << end.text());
  CHECK_FALSE(end.timed_out);
  CHECK(end.signal == 0);
  bool const leaked = end.exit_code == 23;
  CHECK(leaked == (leaks(end.error) > 0));
  CHECK(leaks(end.error) <= tried.most_leaks);
  if (tried.must_fail) {
    CHECK((leaked || end.exit_code == 1));
    CHECK(end.error.rfind("error: ", 0) == 0);
    CHECK(end.out.find("RESULT") == std::string::npos);
  } else if (end.exit_code == 0) {
    // It handled the failure: the output must be complete.
    test_support::result_fields fields;
    CHECK(test_support::parse_result(test_support::last_line(end.out), fields) == "");
    return true;
  } else if (!leaked) {
    CHECK(end.exit_code == 1);
    CHECK(end.error.rfind("error: ", 0) == 0);
    CHECK(end.error.size() > 20);
    CHECK(end.error.find('\n') == end.error.size() - 1);  // one line
    CHECK(end.out.find("RESULT") == std::string::npos);
  }
  return false;
}

}  // namespace

TEST_CASE("a runtime call fails, and the program ends with an error or the whole result") {
  scratch_directory scratch;
  std::string const calls_file = scratch.file("calls");
  std::vector<std::string> const command = quick_run(scratch);
  // The calls that every run makes: on a busy machine the program's streams may be late, and the
  // pool then makes more calls of one function and fewer of another.
  std::vector<called> calls;
  for (int run = 0; run < 3; ++run) {
    outcome const whole =
        process{scratch, "whole", command, environment(calls_file)}.wait(limit_seconds);
    {
      INFO(whole.text());
      REQUIRE(whole.exit_code == 0);
    }
    std::vector<called> const made = parse_calls(test_support::read_file(calls_file));
    if (run == 0) calls = made;
    for (called& each : calls) each.count = std::min(each.count, count_of(each.name, made));
  }
  calls.erase(
      std::remove_if(calls.begin(), calls.end(), [](called const& c) { return c.count == 0; }),
      calls.end());
  REQUIRE(calls.size() > 20);

  std::deque<trial> trials;
  for (called const& each : calls) {
    std::string const code =
        takes_memory(each.name) ? "cudaErrorMemoryAllocation" : "cudaErrorInvalidValue";
    for (std::uint64_t const n : which_calls(each.count)) {
      trials.push_back({each.name, n, code, left_behind(each.name), false});
    }
  }
  // A sticky error, as after an illegal access. Nothing can be freed after it.
  for (auto const& [function, call] : {std::pair<char const*, std::uint64_t>{"cudaLaunchKernel", 1},
                                       {"cudaLaunchKernel", 300},
                                       {"cudaGraphLaunch", 1},
                                       {"cudaStreamSynchronize", 1},
                                       {"cudaMemcpyAsync", 2}}) {
    trials.push_back(
        {function, call, "poison=cudaErrorIllegalAddress", std::numeric_limits<long>::max(), true});
  }

  std::size_t const count = trials.size();
  std::size_t coped = 0;
  std::string not_reached;
  struct running_trial {
    trial what;
    std::string calls_file;
    process program;
  };
  std::deque<running_trial> running;
  for (std::size_t started = 0; !trials.empty() || !running.empty();) {
    if (!trials.empty() && running.size() < side_by_side) {
      trial const next = trials.front();
      trials.pop_front();
      std::string const name = "trial" + std::to_string(started++ % (2 * side_by_side));
      std::string const its_calls = scratch.file(name + ".calls");
      std::vector<std::string> variables = environment(its_calls);
      variables.push_back("WARPWRIGHT_HOST_FAULT=" + next.fault());
      running.push_back({next, its_calls, process{scratch, name, command, variables}});
      continue;
    }
    running_trial& first = running.front();
    bool const ended_well = judge(first.what, first.program.wait(limit_seconds));
    if (ended_well) {
      ++coped;
      std::vector<called> const made = parse_calls(test_support::read_file(first.calls_file));
      std::uint64_t const times = count_of(first.what.function, made);
      if (times < first.what.call && !is_polled(first.what.function)) {
        // On a busy machine this run made fewer calls: its last one shall fail in the next.
        if (times > 0 && ++first.what.attempts < 6) {
          first.what.call = times;
          trials.push_back(first.what);
        } else {
          not_reached += ' ' + first.what.fault();
        }
      }
    }
    running.pop_front();
  }
  INFO("of " << count << ": " << coped << " coped with");
  CHECK(not_reached == "");  // in six runs
  // Most failures must end the program, else the faults were not injected.
  CHECK(coped < count / 2);
}
