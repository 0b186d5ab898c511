// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A strict check of a page's markup: every element closed in order, every attribute quoted.
#pragma once

#include <string>
#include <vector>

namespace test_support {

/// @return the error in the page, or an empty string
inline std::string malformed(std::string const& page) {
  std::vector<std::string> open;
  std::size_t at = 0;
  if (page.rfind("<!DOCTYPE html>", 0) == 0) at = 15;
  while (at < page.size()) {
    char const c = page[at];
    if (c == '&') {
      std::size_t const end = page.find(';', at);
      if (end == std::string::npos || end - at > 6) return "a bare & at " + std::to_string(at);
      at = end + 1;
      continue;
    }
    if (c == '>') return "a bare > at " + std::to_string(at);
    if (c != '<') {
      ++at;
      continue;
    }
    std::size_t const end = page.find('>', at);
    if (end == std::string::npos) return "an open tag at " + std::to_string(at);
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end + 1;
    if (!tag.empty() && tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "unexpected <" + tag + '>';
      open.pop_back();
      continue;
    }
    bool const closed = !tag.empty() && tag.back() == '/';
    if (closed) tag.pop_back();
    std::string const name = tag.substr(0, tag.find(' '));
    if (name.empty()) return "a tag without a name";
    // name="value" pairs, separated by one space each
    std::size_t p = name.size();
    while (p < tag.size()) {
      std::size_t const equals = tag.find("=\"", p);
      std::size_t const quote = equals == std::string::npos ? equals : tag.find('"', equals + 2);
      if (tag[p] != ' ' || quote == std::string::npos) return "bad attributes in <" + tag + '>';
      p = quote + 1;
    }
    if (closed) continue;
    open.push_back(name);
    if (name == "style") {  // its contents are not markup
      at = page.find("</style>", at);
      if (at == std::string::npos) return "<style> is not closed";
    }
  }
  return open.empty() ? std::string{} : "<" + open.back() + "> is not closed";
}

}  // namespace test_support
