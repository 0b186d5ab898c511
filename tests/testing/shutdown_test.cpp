// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A process exits within seconds and with its own status, whatever objects and work are left.
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

TEST_CASE("queued work does not delay the exit") { ends_with(3, "work_queued"); }

TEST_CASE("a host function that does not return does not block the exit") {
  ends_with(3, "work_stuck");
}

TEST_CASE("streams that are not destroyed do not block the exit") { ends_with(3, "streams_left"); }

TEST_CASE("static destructors may call the runtime") {
  outcome const end = ends_with(3, "static_destructors");
  // In the reverse order of construction: the runtime was constructed between the two.
  CHECK(end.out ==
        "after: cudaSuccess cudaSuccess cudaSuccess\n"
        "before: cudaErrorCudartUnloading cudaErrorCudartUnloading cudaErrorCudartUnloading\n");
}

TEST_CASE("the runtime is unusable in a forked child, but not in its parent") {
  ends_with(3, "fork_after_use");
}

TEST_CASE("a process may fork before it uses the runtime") { ends_with(3, "fork_before_use"); }

TEST_CASE("a host function may end the process") { ends_with(5, "exit_in_host_function"); }

TEST_CASE("a user object's destructor that does not return does not block the exit") {
  ends_with(3, "destructor_stuck");
}

TEST_CASE("a user object's destructor may end the process") { ends_with(5, "exit_in_destructor"); }

TEST_CASE("a thread that waits for a stream does not block the exit") {
  ends_with(3, "exit_beside_a_waiting_thread");
}

TEST_CASE("work in a thread's default stream completes after the thread has ended") {
  ends_with(3, "threads_end");
}
