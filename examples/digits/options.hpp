// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The command line.
#pragma once

#include "paths.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

#ifndef DIGITS_DATA
#define DIGITS_DATA "digits.csv"
#endif

namespace digits {

/// The options of the command line.
struct options {
  bool help = false;
  bool quick = false;
  bool compare = true;  ///< each part with the plain CUDA way
  std::string data = DIGITS_DATA;
  std::string report = "report.html";
  std::uint64_t seed = 1;
  int epochs = 40;
  double accuracy_floor = 0.96;
  std::size_t memory_budget_bytes = std::size_t{8} << 20U;
  double latency_limit_ms = 0.0;
  std::size_t tune_max = 8192;
  std::string tuning_store;  ///< empty: none
};

/// The text of --help.
inline constexpr char const* usage =
    R"(Trains a small classifier on handwritten digits, tunes its inference batch and serves it.

  --data PATH            digits to read (1,797 lines of 64 pixels and a label)
  --report PATH          page to write (report.html)
  --seed N               of the split, the weights and the training (1)
  --epochs N             passes over the training images, 1 to 1000 (40)
  --accuracy-floor X     fail below this accuracy on the held-out fifth, 0 to 1 (0.96)
  --memory-budget SIZE   the most memory a batch may take, as 8MiB (8MiB)
  --latency-limit TIME   the most that 99 % of all batches may take, as 20ms or 50us
                         (20ms on the host runtime, 1ms on a GPU)
  --tune-max N           largest batch to try, 1 to 65536 (8192)
  --tuning-store FILE    keep the tuned batch in this file, and tune only if it is not there (none)
  --quick                a short run for tests: 1 epoch, batches to 64, no accuracy floor, the
                         median in place of the p99 under the latency limit, and no --compare
  --compare              compare each part with the plain CUDA way, and diagnose the service before
                         and after, with traces in REPORT.before.json and REPORT.after.json (on;
                         off with --quick)
  --help                 this text
)";

namespace detail {

inline double number(std::string const& flag, std::string const& text, std::string& unit) {
  char const* const begin = text.c_str();
  char* end = nullptr;
  double value = 0.0;
  if (!text.empty() && text[0] >= '0' && text[0] <= '9') value = std::strtod(begin, &end);
  if (end == nullptr || end == begin || !(value <= 1e15)) {
    throw usage_error{flag + " needs a number, not \"" + shown(text) + '"'};
  }
  unit = end;
  return value;
}

inline std::uint64_t integer(std::string const& flag, std::string const& text, std::uint64_t low,
                             std::uint64_t high) {
  std::string const range = flag + " needs an integer of " + std::to_string(low) + " to " +
                            std::to_string(high) + ", not \"" + shown(text) + '"';
  if (text.empty() || text.size() > 19) throw usage_error{range};
  std::uint64_t value = 0;
  for (char const c : text) {
    if (c < '0' || c > '9') throw usage_error{range};
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (value < low || value > high) throw usage_error{range};
  return value;
}

inline std::size_t byte_size(std::string const& flag, std::string const& text) {
  std::string unit;
  double value = number(flag, text, unit);
  if (unit == "KiB") {
    value *= 1024.0;
  } else if (unit == "MiB") {
    value *= 1048576.0;
  } else if (unit == "GiB") {
    value *= 1073741824.0;
  } else if (!unit.empty() && unit != "B") {
    throw usage_error{flag + " needs a size such as 8MiB, not \"" + shown(text) + '"'};
  }
  if (!(value >= 1.0) || value > 1e15) {
    throw usage_error{flag + " needs a size of 1 byte or more, not \"" + shown(text) + '"'};
  }
  return static_cast<std::size_t>(value);
}

inline double time_ms(std::string const& flag, std::string const& text) {
  std::string unit;
  double value = number(flag, text, unit);
  if (unit == "us") {
    value /= 1e3;
  } else if (unit == "s") {
    value *= 1e3;
  } else if (unit != "ms") {
    throw usage_error{flag + " needs a time with a unit, such as 20ms or 50us, not \"" +
                      shown(text) + '"'};
  }
  if (!(value > 0.0)) throw usage_error{flag + " needs a time above 0, not \"" + shown(text) + '"'};
  return value;
}

inline double fraction(std::string const& flag, std::string const& text) {
  std::string unit;
  double const value = number(flag, text, unit);
  if (!unit.empty() || value > 1.0) {
    throw usage_error{flag + " needs a number of 0 to 1, not \"" + shown(text) + '"'};
  }
  return value;
}

}  // namespace detail

/// Parses the command line.
/// @throws usage_error  naming the flag and the value
inline options parse_options(int argc, char const* const* argv) {
  options parsed;
  // The defaults of --quick, which other options override.
  bool epochs_said = false;
  bool tune_said = false;
  bool floor_said = false;
  bool compare_said = false;
  for (int i = 1; i < argc; ++i) {
    std::string const flag{argv[i]};
    if (flag == "--help") {
      parsed.help = true;
      continue;
    }
    if (flag == "--quick") {
      parsed.quick = true;
      continue;
    }
    if (flag == "--compare") {
      compare_said = true;
      continue;
    }
    bool const known = flag == "--data" || flag == "--report" || flag == "--seed" ||
                       flag == "--epochs" || flag == "--accuracy-floor" ||
                       flag == "--memory-budget" || flag == "--latency-limit" ||
                       flag == "--tune-max" || flag == "--tuning-store";
    if (!known) throw usage_error{"unknown argument \"" + detail::shown(flag) + "\"; try --help"};
    if (i + 1 == argc) throw usage_error{flag + " needs a value; try --help"};
    std::string const value{argv[++i]};
    if (flag == "--data") {
      parsed.data = value;
    } else if (flag == "--report") {
      parsed.report = value;
    } else if (flag == "--seed") {
      parsed.seed = detail::integer(flag, value, 0, 1000000000000000000ULL);
    } else if (flag == "--epochs") {
      parsed.epochs = static_cast<int>(detail::integer(flag, value, 1, 1000));
      epochs_said = true;
    } else if (flag == "--accuracy-floor") {
      parsed.accuracy_floor = detail::fraction(flag, value);
      floor_said = true;
    } else if (flag == "--memory-budget") {
      parsed.memory_budget_bytes = detail::byte_size(flag, value);
    } else if (flag == "--latency-limit") {
      parsed.latency_limit_ms = detail::time_ms(flag, value);
    } else if (flag == "--tuning-store") {
      parsed.tuning_store = value;
      if (value.empty() || value.back() == '/') {
        throw usage_error{"--tuning-store needs the path of a file, not \"" + detail::shown(value) +
                          '"'};
      }
    } else {
      parsed.tune_max = static_cast<std::size_t>(detail::integer(flag, value, 1, 65536));
      tune_said = true;
    }
  }
  if (parsed.help) return parsed;
  detail::check_path("--data", parsed.data);
  detail::check_path("--report", parsed.report);
  if (!parsed.tuning_store.empty()) detail::check_path("--tuning-store", parsed.tuning_store);
  check_distinct(parsed.data, parsed.report, parsed.tuning_store);
  if (parsed.quick) {
    if (!epochs_said) parsed.epochs = 1;
    if (!tune_said) parsed.tune_max = 64;
    if (!floor_said) parsed.accuracy_floor = 0.0;
    parsed.compare = compare_said;
  }
  return parsed;
}

}  // namespace digits
