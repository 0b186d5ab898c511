// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What observe_check.py says about a file.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace test_support {

#if defined(WARPWRIGHT_PYTHON3)
inline bool check_with_python(char const* what, std::string const& path, std::string& output) {
  std::string const command = "'" WARPWRIGHT_PYTHON3 "' -B '" WARPWRIGHT_OBSERVE_CHECK "' " +
                              std::string{what} + " '" + path + "' 2>&1";
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  output.clear();
  char part[4096];
  for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, pipe)) != 0;)
    output.append(part, n);
  return pclose(pipe) == 0;
}
#endif

}  // namespace test_support
