// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs a program with a time limit and captures its output.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace test_support {

/// A temporary directory, removed by the destructor.
class scratch_directory {
 public:
  scratch_directory() {
    char const* const base = std::getenv("TMPDIR");
    path_ = std::string{base != nullptr && *base != '\0' ? base : "/tmp"} + "/warpwright-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr)
      throw std::runtime_error{"no scratch directory: " + path_};
  }
  ~scratch_directory() {
    for (std::string const& name : files_) static_cast<void>(unlink(name.c_str()));
    static_cast<void>(rmdir(path_.c_str()));
  }
  scratch_directory(scratch_directory const&) = delete;
  scratch_directory& operator=(scratch_directory const&) = delete;

  /// @return the path of a file in it, which need not exist
  std::string file(std::string const& name) {
    files_.push_back(path_ + '/' + name);
    return files_.back();
  }
  /// Writes a file in it. @return its path
  std::string write(std::string const& name, std::string const& content) {
    std::string const path = file(name);
    std::ofstream{path, std::ios::binary} << content;
    return path;
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

inline std::string read_file(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
}

/// How a program ended.
struct outcome {
  bool timed_out = false;
  int signal = 0;  ///< the signal that ended it; 0: it exited
  int exit_code = -1;
  double seconds = 0.0;
  std::string out;
  std::string error;

  /// All output, for INFO.
  [[nodiscard]] std::string text() const {
    return (timed_out     ? std::string{"timed out"}
            : signal != 0 ? "signal " + std::to_string(signal)
                          : "exit code " + std::to_string(exit_code)) +
           " after " + std::to_string(seconds) + " s\nstdout:\n" + out + "\nstderr:\n" + error;
  }
};

/// Runs programs concurrently, and waits for them one by one.
class process {
 public:
  /// @param name         for the files of its output, one at a time of each name
  /// @param environment  "NAME=value", in addition to this process's
  process(scratch_directory& scratch, std::string const& name,
          std::vector<std::string> const& command, std::vector<std::string> const& environment)
      : out_{scratch.file(name + ".out")}, error_{scratch.file(name + ".err")}, begin_{now()} {
    std::vector<char*> arguments;
    for (std::string const& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    child_ = fork();
    if (child_ < 0) throw std::runtime_error{"fork failed"};
    if (child_ == 0) {
      int const out = open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      int const error = open(error_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (out < 0 || error < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0) _exit(126);
      for (std::string const& each : environment) putenv(const_cast<char*>(each.c_str()));
      execv(arguments[0], arguments.data());
      _exit(127);
    }
  }
  process(process&& other) noexcept
      : out_{std::move(other.out_)},
        error_{std::move(other.error_)},
        begin_{other.begin_},
        child_{other.child_} {
    other.child_ = -1;
  }
  process& operator=(process&&) = delete;
  ~process() {
    if (child_ > 0) {
      static_cast<void>(kill(child_, SIGKILL));
      static_cast<void>(waitpid(child_, nullptr, 0));
    }
  }

  /// Waits for its end, and kills it `limit_seconds` after its start.
  outcome wait(double limit_seconds) {
    outcome end;
    int status = 0;
    pid_t found = 0;
    while ((found = waitpid(child_, &status, WNOHANG)) == 0) {
      if (now() - begin_ > limit_seconds) {
        end.timed_out = true;
        static_cast<void>(kill(child_, SIGKILL));
        found = waitpid(child_, &status, 0);
        break;
      }
      timespec const pause{0, 2000000};
      static_cast<void>(nanosleep(&pause, nullptr));
    }
    if (found == child_) {
      if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
      if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    }
    child_ = -1;
    end.seconds = now() - begin_;
    end.out = read_file(out_);
    end.error = read_file(error_);
    return end;
  }

 private:
  static double now() {
    timespec time{};
    static_cast<void>(clock_gettime(CLOCK_MONOTONIC, &time));
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  std::string out_;
  std::string error_;
  double begin_;
  pid_t child_ = -1;
};

/// Runs one program to its end.
inline outcome run_program(scratch_directory& scratch, std::vector<std::string> const& command,
                           std::vector<std::string> const& environment = {},
                           double limit_seconds = 120.0) {
  return process{scratch, "program", command, environment}.wait(limit_seconds);
}

/// Runs one program on a terminal, which changes nothing of what it prints.
/// @return with all output, of stdout and stderr, in `out`
inline outcome run_on_terminal(std::vector<std::string> const& command,
                               double limit_seconds = 120.0) {
  struct descriptor {
    int number;
    ~descriptor() { static_cast<void>(close(number)); }
  };
  descriptor const terminal{posix_openpt(O_RDWR | O_NOCTTY)};
  if (terminal.number < 0 || grantpt(terminal.number) != 0 || unlockpt(terminal.number) != 0) {
    throw std::runtime_error{"no terminal"};
  }
  descriptor const program_side{open(ptsname(terminal.number), O_RDWR | O_NOCTTY)};
  termios mode{};
  if (program_side.number < 0 || tcgetattr(program_side.number, &mode) != 0) {
    throw std::runtime_error{"no terminal"};
  }
  cfmakeraw(&mode);
  static_cast<void>(tcsetattr(program_side.number, TCSANOW, &mode));

  std::vector<char*> arguments;
  for (std::string const& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  pid_t const child = fork();
  if (child < 0) throw std::runtime_error{"fork failed"};
  if (child == 0) {
    for (int number = 0; number <= 2; ++number) {
      if (dup2(program_side.number, number) < 0) _exit(126);
    }
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  // Behind all that the program has printed: the output is whole once this is read.
  std::string const end_mark = "\x01the program has ended\x01";
  outcome end;
  bool ended = false;
  double waited = 0.0;
  while (end.out.find(end_mark) == std::string::npos) {
    int status = 0;
    if (!ended && waited > limit_seconds) {
      end.timed_out = true;
      static_cast<void>(kill(child, SIGKILL));
    }
    if (!ended && waitpid(child, &status, WNOHANG) == child) {
      ended = true;
      if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
      if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
      if (write(program_side.number, end_mark.data(), end_mark.size()) !=
          static_cast<ssize_t>(end_mark.size())) {
        throw std::runtime_error{"the terminal cannot be written"};
      }
    }
    pollfd ready{terminal.number, POLLIN, 0};
    if (poll(&ready, 1, 10) == 0) {
      waited += 0.01;
      continue;
    }
    char buffer[4096];
    ssize_t const count = read(terminal.number, buffer, sizeof buffer);
    if (count < 0 && errno != EINTR) throw std::runtime_error{"the terminal cannot be read"};
    if (count > 0) end.out.append(buffer, static_cast<std::size_t>(count));
  }
  end.out.erase(end.out.find(end_mark));
  return end;
}

}  // namespace test_support
