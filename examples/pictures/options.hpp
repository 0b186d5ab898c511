// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace pictures {

inline constexpr char const* usage =
    "usage: pictures FOLDER [--batch N] [--workers N]\n"
    "         the means and standard deviations of the PNG files of a folder, which N threads "
    "decode\n"
    "       pictures --make N FOLDER\n"
    "         writes N pictures of known content, over files of the same names\n";

struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct options {
  std::string folder;
  std::size_t batch = 64;
  unsigned workers = 2;
  std::size_t make = 0;  ///< 0: reads
};

namespace detail {

inline unsigned long number(std::string const& flag, char const* text, unsigned long most) {
  char* end = nullptr;
  errno = 0;
  unsigned long const value = text == nullptr ? 0 : std::strtoul(text, &end, 10);
  if (value == 0 || value > most || *end != '\0' || errno != 0) {
    throw usage_error{flag + " needs a number from 1 to " + std::to_string(most)};
  }
  return value;
}

}  // namespace detail

/// @throws usage_error
inline options parse_options(int argc, char const* const* argv) {
  options parsed;
  for (int i = 1; i < argc; ++i) {
    std::string const flag = argv[i];
    char const* const next = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag == "--batch") {
      parsed.batch = detail::number(flag, next, 65536);
      ++i;
    } else if (flag == "--workers") {
      parsed.workers = static_cast<unsigned>(detail::number(flag, next, 61));
      ++i;
    } else if (flag == "--make") {
      parsed.make = detail::number(flag, next, 9999);
      ++i;
    } else if (parsed.folder.empty() && flag.rfind("--", 0) != 0) {
      parsed.folder = flag;
    } else {
      throw usage_error{"unexpected argument '" + flag + "'"};
    }
  }
  if (parsed.folder.empty()) throw usage_error{"name a folder"};
  return parsed;
}

}  // namespace pictures
