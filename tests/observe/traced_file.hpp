// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A trace's file as its events, one a line.
#pragma once

#include <warpwright/observe/trace.hpp>

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace test_support {

struct event {
  std::string line;

  /// The text or number behind "name":
  std::string text(std::string const& name) const {
    std::size_t at = line.find("\"" + name + "\":");
    if (at == std::string::npos) return {};
    at += name.size() + 3;
    if (line[at] == '"') {
      std::size_t end = ++at;
      while (line[end] != '"') end += line[end] == '\\' ? 2U : 1U;
      return line.substr(at, end - at);
    }
    return line.substr(at, line.find_first_of(",}", at) - at);
  }
  double number(std::string const& name) const {
    std::string const digits = text(name);
    return digits.empty() ? -1.0 : std::stod(digits);
  }
  double begin() const { return number("ts"); }
  double end() const { return number("ts") + number("dur"); }
};

class traced_file {
 public:
  explicit traced_file(warpwright::trace& trace) {
    trace.write_chrome(path_.c_str());
    std::ifstream file{path_};
    for (std::string line; std::getline(file, line);) events_.push_back({line});
  }
  traced_file(traced_file const&) = delete;
  traced_file& operator=(traced_file const&) = delete;
  ~traced_file() { ::unlink(path_.c_str()); }

  /// Events of a category and, if given, a name.
  std::vector<event> of(std::string const& category, std::string const& name = {}) const {
    std::vector<event> found;
    for (event const& e : events_) {
      if (e.text("cat") == category && (name.empty() || e.text("name") == name)) found.push_back(e);
    }
    return found;
  }
  /// Whether Python's parser takes the whole file.
  bool is_json() const {
    return std::system(("python3 -c 'import json, sys; json.load(open(sys.argv[1], "
                        "encoding=\"utf-8\"))' " +
                        path_)
                           .c_str()) == 0;
  }

 private:
  std::string path_ = "traced_file_" + std::to_string(::getpid()) + ".json";
  std::vector<event> events_;
};

}  // namespace test_support
