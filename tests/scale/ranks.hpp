// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a test, as processes: only they use the runtime. On the host runtime they are children
// of the test; CUDA does not outlive a fork(), so that there each is this program, run anew for the
// one test case, in which it comes to the one call of run() and ends there.
#pragma once

#include "support/catch.hpp"

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
  [[nodiscard]] bool has(char const* part) const { return text.find(part) != std::string::npos; }
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

/// A folder of its own for each test, removed at the end.
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
  [[nodiscard]] std::string operator/(char const* file) const { return path_ + "/" + file; }

 private:
  std::string path_;
  pid_t owner_;
};

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
  ::alarm(static_cast<unsigned>(patient(120.0)));  // no test may hang
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
  ::_exit(0);
}

/// Calls `function(rank)` in a process for each rank, and `meanwhile(pids)` here.
/// @return nothing in a process that is to be a rank of a later call
template <class F, class Meanwhile>
std::vector<result> run(int count, F function, Meanwhile meanwhile) {
  static int calls = 0;
  ++calls;
  char const* const given = std::getenv("WARPWRIGHT_TEST_RANK");
  if (given != nullptr) {
    if (std::atoi(std::getenv("WARPWRIGHT_TEST_CALL")) != calls) return {};
    be_rank(std::atoi(given), std::atoi(std::getenv("WARPWRIGHT_TEST_PIPE")), function);
  }
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
template <class F>
std::vector<result> run(int count, F function) {
  return run(count, function, [](auto const&) {});
}

}  // namespace ranks
