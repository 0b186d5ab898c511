// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a test, as processes: only they use the runtime. On the host runtime they are children
// of the test; CUDA does not outlive a fork(), so that there each is this program, run anew for the
// one test case, in which it comes to the one call of run() and ends there.
#pragma once

#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/scale/communicator.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace ranks {

namespace ww = warpwright;

struct result {
  pid_t pid = 0;
  int status = 0;        // as of waitpid()
  std::string text;      // what the function returned, or "error: …"
  double seconds = 0.0;  // that it took
  [[nodiscard]] bool has(std::string const& part) const {
    return text.find(part) != std::string::npos;
  }
};

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// @return what a test says of a rank that has failed
inline std::string texts(std::vector<result> const& all) {
  std::string text;
  for (result const& r : all) {
    text += "\n  " + std::to_string(r.seconds) + " s, status " + std::to_string(r.status) + ": " +
            r.text;
  }
  return text;
}

/// Requires that the ranks have said these texts, one for all or one for each, in so many seconds;
/// one that begins with "..." is a part of what was said. Without GPUs for a run nothing was said.
inline void expect(std::vector<result> const& all, std::vector<std::string> const& expected,
                   double seconds = 1e9) {
  INFO(texts(all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string const& text = expected[i % expected.size()];
    CAPTURE(i, text);
    REQUIRE((text.substr(0, 3) == "..." ? all[i].has(text.substr(3)) : all[i].text == text));
    REQUIRE(all[i].seconds < seconds);
  }
}

/// @return what a call throws of a type, in a line
template <class Error = std::exception, class F>
std::string error_of(F const& call) {
  try {
    call();
  } catch (Error const& error) {
    return std::string{error.what()} + "\n";
  }
  return "nothing\n";
}

/// A folder of its own for each run, or for a test that needs it before; removed at the end.
class folder {
 public:
  folder() {
    char name[] = "/tmp/warpwright_ranks_XXXXXX";
    char const* const given = std::getenv("WARPWRIGHT_TEST_FOLDER");
    if (given == nullptr && ::mkdtemp(name) == nullptr) std::abort();
    path_ = given != nullptr ? given : name;
    owner_ = given == nullptr ? ::getpid() : 0;
    ::setenv("WARPWRIGHT_TEST_FOLDER", path_.c_str(), 1);
  }
  ~folder() {
    if (owner_ != ::getpid()) return;
    ::unsetenv("WARPWRIGHT_TEST_FOLDER");
    static_cast<void>(std::system(("rm -rf " + path_).c_str()) == 0);
  }
  folder(folder const&) = delete;
  folder& operator=(folder const&) = delete;

 private:
  std::string path_;
  pid_t owner_;
};

/// @return the path of a file in the folder of the run
inline std::string file(std::string const& name) {
  return std::getenv("WARPWRIGHT_TEST_FOLDER") + ("/" + name);
}
/// @return how the ranks of a run come together by such a file
inline ww::rendezvous meet(int rank, int count, std::string const& name = "store") {
  return ww::rendezvous::file(file(name), rank, count);
}

inline ww::communicator_options within(double seconds) {
  return ww::communicator_options{}.deadline(seconds);
}
/// @return a deadline, longer where WARPWRIGHT_TEST_PATIENCE says so, as under compute-sanitizer
inline double patient(double seconds) {
  char const* const factor = std::getenv("WARPWRIGHT_TEST_PATIENCE");
  return factor != nullptr ? seconds * std::atof(factor) : seconds;
}

/// @return how many ranks the machine has place for: NCCL wants a GPU for each
inline int most() {
#if WARPWRIGHT_HOST_RUNTIME
  return 1000;
#else
  return ww::device_count();
#endif
}

template <class F>
[[noreturn]] void be_rank(int rank, int pipe, F& function) {
  ::alarm(
      static_cast<unsigned>(patient(test_support::sanitized ? 280.0 : 120.0)));  // no test may hang
  double const begin = now();
  std::string text;
  try {
#if !WARPWRIGHT_HOST_RUNTIME
    ww::check(cudaSetDevice(rank % ww::device_count()), "cudaSetDevice");
#endif
    text = function(rank);
  } catch (std::exception const& error) {
    text = std::string{"error: "} + error.what();
  }
  text = std::to_string(now() - begin) + " " + text;
  static_cast<void>(::write(pipe, text.data(), text.size()) == 0);
  if (test_support::sanitized) ::usleep(300000);  // what ends in the background is no leak
  ::_exit(0);
}

/// Lets a rank that has stopped go on, as soon as all others have ended.
inline void continue_last(std::vector<pid_t> const& pids, int stopped) {
  auto const wait = [](pid_t pid, int how) {
    siginfo_t information{};
    ::waitid(P_PID, static_cast<id_t>(pid), &information, how | WEXITED | WNOWAIT);
  };
  pid_t const last = pids[static_cast<std::size_t>(stopped)];
  for (pid_t const pid : pids) wait(pid, pid == last ? WSTOPPED : 0);
  ::kill(last, SIGCONT);
}

inline void nothing(std::vector<pid_t> const&) {}

/// Calls `function(rank)` in a process for each rank, and `meanwhile(pids)` here.
/// @return nothing where there are not so many GPUs, and in a process that is to be a rank of a
/// later call
template <class F, class Meanwhile = decltype(&nothing)>
std::vector<result> run_on(int gpus, int count, F function, Meanwhile meanwhile = nothing) {
  static int calls = 0;
  ++calls;
  if (most() < gpus) {
    WARN("left out: it needs " << gpus << " GPUs");
    return {};
  }
  char const* const given = std::getenv("WARPWRIGHT_TEST_RANK");
  if (given != nullptr) {
    if (std::atoi(std::getenv("WARPWRIGHT_TEST_CALL")) != calls) return {};
    be_rank(std::atoi(given), std::atoi(std::getenv("WARPWRIGHT_TEST_PIPE")), function);
  }
  folder const files;
  std::vector<result> all(static_cast<std::size_t>(count));
  std::vector<int> pipes;
  std::vector<pid_t> pids;
  std::fflush(nullptr);
  for (int rank = 0; rank < count; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_t const child = ::fork();
    if (child == 0) {
#if WARPWRIGHT_HOST_RUNTIME
      be_rank(rank, ends[1], function);
#else
      ::setenv("WARPWRIGHT_TEST_RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WARPWRIGHT_TEST_CALL", std::to_string(calls).c_str(), 1);
      ::setenv("WARPWRIGHT_TEST_PIPE", std::to_string(ends[1]).c_str(), 1);
      std::string name;
      for (char const c : Catch::getResultCapture().getCurrentTestName()) {
        if (c == ',') name += '\\';  // else it separates names
        name += c;
      }
      ::execl("/proc/self/exe", "rank", name.c_str(), nullptr);
      ::_exit(127);
#endif
    }
    ::close(ends[1]);
    pipes.push_back(ends[0]);
    pids.push_back(child);
  }
  meanwhile(pids);
  for (std::size_t i = 0; i < all.size(); ++i) {
    char chunk[4096];
    std::string text;
    for (ssize_t n; (n = ::read(pipes[i], chunk, sizeof chunk)) > 0;) {
      text.append(chunk, static_cast<std::size_t>(n));
    }
    ::close(pipes[i]);
    all[i].pid = pids[i];
    ::waitpid(all[i].pid, &all[i].status, 0);
    if (WIFEXITED(all[i].status) && WEXITSTATUS(all[i].status) != 0) {  // of a sanitizer
      text = "0 exit status " + std::to_string(WEXITSTATUS(all[i].status)) + " " + text;
    }
    std::size_t const space = text.find(' ');
    if (space == std::string::npos) continue;  // it was killed
    all[i].seconds = std::atof(text.c_str());
    all[i].text = text.substr(space + 1);
  }
  return all;
}
template <class F, class Meanwhile = decltype(&nothing)>
std::vector<result> run(int count, F function, Meanwhile meanwhile = nothing) {
  return run_on(count, count, function, meanwhile);
}

}  // namespace ranks
