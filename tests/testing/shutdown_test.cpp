// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A process ends within seconds whatever it has left in the runtime, with its own status.
#include "testing/child_process.hpp"

namespace {

using test_support::outcome;
using test_support::run_child;

// Above the two seconds that the runtime waits for work that does not end, with room for
// sanitizers.
constexpr double limit_s = 15.0;

outcome ends_with(int status, std::string const& situation) {
  outcome end = run_child(situation);
  INFO(situation << ": " << end.text());
  CHECK_FALSE(end.timed_out);
  CHECK(end.signal == 0);
  CHECK(end.exit_code == status);
  CHECK(end.seconds < limit_s);
  CHECK(end.error.empty());
  return end;
}

}  // namespace

TEST_CASE("work that is queued does not hold the exit up") { ends_with(3, "work_queued"); }

TEST_CASE("a host function that never returns does not hold the exit up") {
  ends_with(3, "work_stuck");
}

TEST_CASE("streams that are never destroyed do not hold the exit up") {
  ends_with(3, "streams_left");
}

TEST_CASE("static destructors may call the runtime") {
  outcome const end = ends_with(3, "static_destructors");
  // In the reverse order of construction: the runtime itself lies between the two.
  CHECK(end.out ==
        "after: cudaSuccess cudaSuccess cudaSuccess\n"
        "before: cudaErrorCudartUnloading cudaErrorCudartUnloading cudaErrorCudartUnloading\n");
}

TEST_CASE("a forked child has lost the runtime, its parent has not") {
  ends_with(3, "fork_after_use");
}

TEST_CASE("a process may fork before it uses the runtime") { ends_with(3, "fork_before_use"); }

TEST_CASE("a host function may end the process") { ends_with(5, "exit_in_host_function"); }

TEST_CASE("a user object's destructor that never returns does not hold the exit up") {
  ends_with(3, "destructor_stuck");
}

TEST_CASE("a user object's destructor may end the process") { ends_with(5, "exit_in_destructor"); }

TEST_CASE("a thread that waits for a stream does not hold the exit up") {
  ends_with(3, "exit_beside_a_waiting_thread");
}

TEST_CASE("work in a thread's default stream is done after the thread") {
  ends_with(3, "threads_end");
}
