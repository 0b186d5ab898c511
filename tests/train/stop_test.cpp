// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/train/stop.hpp>

#include <cerrno>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ww = warpwright;

namespace {

bool readable(int descriptor) {
  pollfd p{descriptor, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

std::uint64_t now_of_test(void* context) { return *static_cast<std::uint64_t*>(context); }

}  // namespace

TEST_CASE("a signal, in whatever thread, makes the run stop") {
  for (bool const in_thread : {false, true}) {
    ww::stop_signal stop{{SIGTERM, SIGINT}};
    CHECK_FALSE(stop.requested());
    CHECK(std::string{stop.reason()}.empty());
    CHECK_FALSE(readable(stop.descriptor()));
    errno = 7;
    in_thread ? std::thread{[] { ::raise(SIGTERM); }}.join() : static_cast<void>(::raise(SIGTERM));
    if (!in_thread) CHECK(errno == 7);
    CHECK(stop.requested());
    CHECK(stop.requested());
    CHECK(std::string{stop.reason()} == "SIGTERM");
    CHECK(readable(stop.descriptor()));
  }
}

TEST_CASE("a second signal ends the process, also of the other kind, and behind request()") {
  for (int const case_ : {0, 1, 2}) {
    pid_t const child = ::fork();
    if (child == 0) {
      ww::stop_signal stop{{SIGTERM, SIGINT}};
      if (case_ == 2) {
        stop.request();
        ::raise(SIGINT);  // the first signal
        if (stop.requested()) ::raise(SIGTERM);
        ::_exit(3);
      }
      ::raise(SIGINT);
      if (!stop.requested()) ::_exit(1);
      ::raise(case_ == 0 ? SIGINT : SIGTERM);
      ::_exit(2);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == (case_ == 0 ? SIGINT : SIGTERM));
  }
}

TEST_CASE("handlers are those from before when it ends") {
  { ww::stop_signal const stop{SIGUSR1}; }
  struct sigaction now;
  REQUIRE(::sigaction(SIGUSR1, nullptr, &now) == 0);
  CHECK(now.sa_handler == SIG_DFL);
  ww::stop_signal stop{SIGUSR1};
  CHECK_FALSE(stop.requested());
}

TEST_CASE("a run stops at its time limit, and when the program says so") {
  std::uint64_t now = 1000;
  ww::detail::clock_ref const clock{&now_of_test, &now};
  {
    ww::stop_signal stop{{}, ww::stop_options{}.time_limit(2.0).clock(clock)};
    now += 1999999999;
    CHECK_FALSE(stop.requested());
    now += 1;
    CHECK(stop.requested());
    CHECK(std::string{stop.reason()} == "time limit");
  }
  ww::stop_signal stop;
  stop.request();
  CHECK(stop.requested());
  CHECK(std::string{stop.reason()} == "request()");
}

TEST_CASE("ranks stop together: when their function says so, and not before") {
  bool another = false;
  int calls = 0;
  ww::stop_signal stop{{}, ww::stop_options{}.agree([&](bool mine) {
                         ++calls;
                         return mine && another;
                       })};
  CHECK_FALSE(stop.requested());
  stop.request();
  CHECK_FALSE(stop.requested());
  another = true;
  CHECK(stop.requested());
  CHECK(stop.requested());
  CHECK(calls == 3);
}

TEST_CASE("what cannot be is refused") {
  CHECK_THROWS_WITH((ww::stop_signal{SIGKILL}), Catch::Contains("signal 9 cannot be handled"));
  for (double const limit : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS((ww::stop_signal{{}, ww::stop_options{}.time_limit(limit)}),
                    std::invalid_argument);
  }
  ww::stop_signal const first{SIGTERM};
  CHECK_THROWS_WITH((ww::stop_signal{SIGTERM}),
                    Catch::Contains("there is one in this process already"));
}

TEST_CASE("a signal of a child of fork() is not the parent's") {
  ww::stop_signal stop{SIGUSR1};
  pid_t const child = ::fork();
  if (child == 0) {
    ::raise(SIGUSR1);
    ::_exit(stop.requested() ? 7 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK_FALSE(stop.requested());
  CHECK_FALSE(readable(stop.descriptor()));
}
