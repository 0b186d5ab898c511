// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the program prints of paths, and that it writes no file that it reads.
#pragma once

#include <sys/stat.h>

#include <stdexcept>
#include <string>

namespace digits {

/// An invalid command line.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

// A control character in an argument could end a line of the output and begin another.
inline bool is_control(char c) {
  auto const code = static_cast<unsigned char>(c);
  return code < 0x20U || code == 0x7fU;
}

/// An argument for a message: control characters are masked.
inline std::string shown(std::string text) {
  for (char& c : text) {
    if (is_control(c)) c = '?';
  }
  return text;
}

/// @throws usage_error  for an empty path, or one that would not be printed as it is
inline void check_path(char const* flag, std::string const& path) {
  if (path.empty()) throw usage_error{std::string{flag} + " needs a path"};
  if (shown(path) != path) {
    throw usage_error{std::string{flag} + " needs a path without control characters, not \"" +
                      shown(path) + '"'};
  }
}

}  // namespace detail

/// @return whether both paths name one file, by any spelling or link; a path alone if there is none
inline bool same_file(std::string const& a, std::string const& b) {
  if (a == b) return true;
  struct stat of_a {};
  struct stat of_b {};
  return ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0 &&
         of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/// @return where the trace of a service is written, beside the report
inline std::string trace_path(std::string const& report, char const* which) {
  return report + "." + which + ".json";
}

/// @throws usage_error  if two of the files are one, for each is written over or read
/// @param store  empty: none
inline void check_distinct(std::string const& data, std::string const& report,
                           std::string const& store) {
  auto const check = [](char const* flag, std::string const& written, char const* other_flag,
                        std::string const& other) {
    if (!written.empty() && !other.empty() && same_file(written, other)) {
      throw usage_error{std::string{flag} + " would overwrite the file of " + other_flag + ", \"" +
                        other + "\"; name another file"};
    }
  };
  check("--report", report, "--data", data);
  check("--tuning-store", store, "--data", data);
  check("--report", report, "--tuning-store", store);
  for (char const* const which : {"before", "after"}) {
    check("the trace beside --report", trace_path(report, which), "--data", data);
    check("the trace beside --report", trace_path(report, which), "--tuning-store", store);
  }
}

}  // namespace digits
