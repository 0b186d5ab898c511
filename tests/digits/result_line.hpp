// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Parses the last line of the demo's output strictly.
#pragma once

#include <cstdio>
#include <string>

namespace test_support {

struct result_fields {
  std::string runtime;
  std::string device;
  double accuracy = -1.0;
  unsigned long batch = 0;
  double items_per_s = -1.0;
  double p99_ms = -1.0;
  double graph_speedup = -1.0;
  std::string tuning;
  std::string report;
};

/// @return the error in the line, or an empty string
inline std::string parse_result(std::string const& line, result_fields& fields) {
  char runtime[16] = {};
  char device[128] = {};
  char tuning[16] = {};
  char report[1024] = {};
  char more = '\0';
  int const read =
      std::sscanf(line.c_str(),
                  "RESULT runtime=%15s device=\"%127[^\"]\" accuracy=%lf batch=%lu items_per_s=%lf "
                  "p99_ms=%lf graph_speedup=%lf tuning=%15s report=%1023[^\n]%c",
                  runtime, device, &fields.accuracy, &fields.batch, &fields.items_per_s,
                  &fields.p99_ms, &fields.graph_speedup, tuning, report, &more);
  if (read != 9) return "read " + std::to_string(read) + " of 9 fields of: " + line;
  fields.runtime = runtime;
  fields.device = device;
  fields.tuning = tuning;
  fields.report = report;
  if (fields.runtime != "host" && fields.runtime != "cuda") return "runtime is " + fields.runtime;
  if (!(fields.accuracy >= 0.0 && fields.accuracy <= 1.0)) return "accuracy is not of 0 to 1";
  if (fields.batch == 0) return "batch is 0";
  if (!(fields.items_per_s > 0.0)) return "items_per_s is not above 0";
  if (!(fields.p99_ms > 0.0)) return "p99_ms is not above 0";
  if (fields.tuning != "tuned" && fields.tuning != "stored" && fields.tuning != "checked_again") {
    return "tuning is " + fields.tuning;
  }
  if (!(fields.graph_speedup > 0.0)) return "graph_speedup is not above 0";
  return {};
}

/// @return the last line of a text, without its newline
inline std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t const newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

}  // namespace test_support
