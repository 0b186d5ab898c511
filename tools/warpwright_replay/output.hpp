// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the program writes: lost output is an error, and no file that is read is written.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace replay {

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

/// @return whether both paths name one file, by any spelling or link
inline bool same_file(std::string const& a, std::string const& b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0 &&
         of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

}  // namespace replay
