// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The standard output: lost output is an error, and long steps show their progress.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace digits {

/// Flushes what was printed.
/// @throws std::runtime_error  if some of it was lost, now or before
inline void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw std::runtime_error{std::string{"the standard output cannot be written: "} +
                             (errno != 0 ? std::strerror(errno) : "an earlier write failed") +
                             "; make room, or write it elsewhere"};
  }
}

/// Opens what is closed of the descriptors 0 to 2 as /dev/null, so that no file that is opened
/// later receives the program's output.
/// @throws std::runtime_error  if the standard output is closed
inline void claim_standard_descriptors() {
  auto const closed = [](int descriptor) {
    return ::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF;
  };
  bool const lost = closed(STDOUT_FILENO);
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    // The lowest number that is free.
    if (closed(descriptor) && ::open("/dev/null", O_RDWR) != descriptor) {
      throw std::runtime_error{"/dev/null cannot be opened in place of a closed descriptor"};
    }
  }
  if (lost) throw std::runtime_error{"the standard output is closed; open it, or use /dev/null"};
}

/// The progress of long steps: one line of a terminal that is rewritten and then cleared; elsewhere
/// a line every ten seconds.
class progress {
 public:
  progress() : terminal_{::isatty(STDOUT_FILENO) == 1} {}
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() { clear(); }

  /// Shows a step.
  void show(std::string const& text) {
    auto const now = std::chrono::steady_clock::now();
    std::chrono::duration<double> const since = now - last_;
    if (since.count() < (terminal_ ? 0.1 : 10.0)) return;
    last_ = now;
    if (terminal_) {
      std::printf("\r%-*.*s", width, width, text.c_str());
      shown_ = true;
    } else {
      std::printf("... %s\n", text.c_str());
    }
    std::fflush(stdout);
  }

  /// Clears the line, before other output and at the end of a step.
  void clear() {
    if (shown_) std::printf("\r%*s\r", width, "");
    shown_ = false;
    last_ = terminal_ ? std::chrono::steady_clock::time_point{} : std::chrono::steady_clock::now();
  }

 private:
  static constexpr int width = 78;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_ =
      terminal_ ? std::chrono::steady_clock::time_point{} : std::chrono::steady_clock::now();
};

}  // namespace digits
