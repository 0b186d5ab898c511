// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs of this program in processes of their own, and their files.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace processes {

/// A folder that is removed at the end.
class folder {
 public:
  folder() : path_{(std::filesystem::temp_directory_path() / "digits_train_XXXXXX").string()} {
    if (::mkdtemp(&path_[0]) == nullptr) throw std::runtime_error{"no folder for the runs"};
  }
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  folder(folder const&) = delete;
  folder& operator=(folder const&) = delete;
  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  std::string path_;
};

inline std::string read(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
inline void write(std::string const& path, std::string const& text) { std::ofstream{path} << text; }

/// @return the file of the newest checkpoint that is whole; empty: none
inline std::string newest(std::string const& run) {
  std::string manifest;
  std::string file;
  std::error_code missing;
  for (auto const& entry : std::filesystem::directory_iterator{run, missing}) {
    std::string const path = entry.path().string();
    if (entry.path().extension() == ".manifest" && path > manifest) manifest = path;
    if (entry.path().extension() == ".safetensors" && path > file) file = path;
  }
  return manifest.empty() ? std::string{} : file;
}

/// Starts this program.
/// @param environment  "NAME=value"
inline pid_t start(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
  std::fflush(nullptr);
  pid_t const child = ::fork();
  if (child < 0) throw std::runtime_error{std::string{"fork: "} + std::strerror(errno)};
  if (child != 0) return child;
  for (std::string& variable : environment) static_cast<void>(::putenv(&variable[0]));
  char self[] = "/proc/self/exe";
  std::vector<char*> all{self};
  for (std::string& a : arguments) all.push_back(&a[0]);
  all.push_back(nullptr);
  ::execv(self, all.data());
  ::_exit(127);
}
inline bool is_running(pid_t child) {
  siginfo_t information{};
  static_cast<void>(
      ::waitid(P_PID, static_cast<id_t>(child), &information, WEXITED | WNOHANG | WNOWAIT));
  return information.si_pid == 0;
}
/// @return as waitpid()
inline int wait(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error{"waitpid failed"};
  return status;
}

inline void expect_success(int status) {
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error{"a run failed"};
}
/// SIGKILL ends a run at once, another signal makes it end well.
inline void expect_end_by(int status, int signal) {
  if (signal != SIGKILL) {
    expect_success(status);
  } else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
    throw std::runtime_error{"a run was not killed"};
  }
}

}  // namespace processes
