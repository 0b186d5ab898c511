// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a test, as processes. The parent must not use the runtime: its children do.
#pragma once

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

/// A folder of its own for each test, removed at the end.
class folder {
 public:
  folder() {
    char name[] = "/tmp/warpwright_ranks_XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    path_ = name;
  }
  ~folder() { static_cast<void>(std::system(("rm -rf " + path_).c_str())); }
  [[nodiscard]] std::string operator/(char const* file) const { return path_ + "/" + file; }

 private:
  std::string path_;
};

/// Calls `function(rank)` in a process for each rank, and `meanwhile(pids)` here.
template <class F, class Meanwhile>
std::vector<result> run(int count, F function, Meanwhile meanwhile) {
  std::vector<result> all(static_cast<std::size_t>(count));
  std::vector<int> pipes;
  std::fflush(nullptr);
  for (int rank = 0; rank < count; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(120);  // no test may hang
      double const begin = now();
      std::string text;
      try {
        text = function(rank);
      } catch (std::exception const& error) {
        text = std::string{"error: "} + error.what();
      }
      text = std::to_string(now() - begin) + " " + text;
      static_cast<void>(::write(ends[1], text.data(), text.size()) == 0);
      ::_exit(0);
    }
    ::close(ends[1]);
    pipes.push_back(ends[0]);
    all[static_cast<std::size_t>(rank)].pid = child;
  }
  std::vector<pid_t> pids;
  for (result const& r : all) pids.push_back(r.pid);
  meanwhile(pids);
  for (std::size_t i = 0; i < all.size(); ++i) {
    char chunk[4096];
    std::string text;
    for (ssize_t n; (n = ::read(pipes[i], chunk, sizeof chunk)) > 0;) {
      text.append(chunk, static_cast<std::size_t>(n));
    }
    ::close(pipes[i]);
    ::waitpid(all[i].pid, &all[i].status, 0);
    std::size_t const space = text.find(' ');
    if (space == std::string::npos) continue;  // it was killed
    all[i].seconds = std::atof(text.c_str());
    all[i].text = text.substr(space + 1);
  }
  return all;
}
template <class F>
std::vector<result> run(int count, F function) {
  return run(count, function, [](std::vector<pid_t> const&) {});
}

}  // namespace ranks
