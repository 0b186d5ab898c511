// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/kernel_label.hpp>

#include <cxxabi.h>
#include <cstdlib>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_INLINE std::string demangled(std::string const& name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && plain != nullptr ? std::string{plain} : name;
  std::free(plain);
  return result;
}

WARPWRIGHT_INLINE std::string kernel_label(std::string const& mangled) {
  std::string const full = demangled(mangled);
  std::string label;
  int depth = 0;  // of template arguments
  for (std::size_t i = 0; i < full.size(); ++i) {
    char const c = full[i];
    if (c == ':' && i + 1 < full.size() && full[i + 1] == ':') {
      // Removes the qualifier in front: an identifier, "(anonymous namespace)", or a name with its
      // template arguments.
      int open = 0;
      while (!label.empty()) {
        char const last = label.back();
        if (last == ')' || last == '>') ++open;
        bool const opens = last == '(' || last == '<';
        if (open == 0 && (opens || last == ' ' || last == ',' || last == '*' || last == '&')) break;
        if (opens) --open;
        label.pop_back();
      }
      ++i;
      continue;
    }
    if (c == '<') ++depth;
    if (c == '>') --depth;
    bool const anonymous = c == '(' && full.compare(i, 11, "(anonymous ") == 0;
    if (c == '(' && depth == 0 && !anonymous) break;  // the parameters
    if (anonymous) {
      std::size_t const end = full.find(')', i);
      if (end == std::string::npos) break;
      label.append(full, i, end - i + 1);
      i = end;
      continue;
    }
    if (c == ' ' && depth == 0) {
      label.clear();  // what was read is the return type
      continue;
    }
    if (c == ' ' && i + 1 < full.size() && full[i + 1] == '>') continue;
    label += c;
  }
  return label.empty() ? full : label;
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
