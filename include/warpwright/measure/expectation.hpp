// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A line of a table of expectations, and what its check found; see expect.hpp.
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/core/error.hpp>

#include <stdexcept>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

// From here on a double does not hold each number of bytes.
inline constexpr unsigned long long memory_limit_end = 1ULL << 53U;

}  // namespace detail

/// A kind of figure that can be expected.
enum class expected_figure {
  throughput,  ///< items per second, at least
  latency,     ///< a quantile of the seconds of one call, at most
  memory,      ///< peak bytes, at most
};

/// One line of a table of expectations.
struct expectation {
  std::string name;  ///< of what is expected to be fast
  expected_figure figure = expected_figure::throughput;
  double quantile = 0.0;  ///< of a latency, 0.99 for the 99th percentile; otherwise 0
  double limit = 0.0;     ///< items per second, seconds or bytes
};

/// What the check of an expectation has shown.
enum class finding_state {
  met,         ///< the figure's whole interval is within the limit
  not_shown,   ///< the interval contains the limit: neither
  fell_short,  ///< the whole interval is beyond the limit
  no_figure,   ///< nothing was observed, or too little for this figure
};

/// The state in words.
inline char const* to_string(finding_state state) {
  switch (state) {
    case finding_state::met:
      return "met";
    case finding_state::not_shown:
      return "not shown";
    case finding_state::fell_short:
      return "fell short";
    case finding_state::no_figure:
      return "no figure";
  }
  return "unknown";
}

/// One expectation, and what was observed; in the unit of its limit.
struct finding {
  expectation expected;
  finding_state state = finding_state::no_figure;
  double value = 0.0;  ///< the figure that was observed
  double low = 0.0;    ///< lower end of its interval
  double high = 0.0;   ///< and upper end; infinity: too few samples
  std::string text;    ///< the finding in words, one line
};

/// What expectations::check() found.
struct expectation_report {
  std::vector<finding> findings;  ///< one for each expectation, in the order of the table

  /// @return whether nothing is shown to fall short
  [[nodiscard]] bool ok() const noexcept {
    for (finding const& f : findings) {
      if (f.state == finding_state::fell_short) return false;
    }
    return true;
  }
  /// @return whether there was a figure for every expectation
  [[nodiscard]] bool complete() const noexcept {
    for (finding const& f : findings) {
      if (f.state == finding_state::no_figure) return false;
    }
    return true;
  }
  /// @return a line for each finding; those that fell short are first
  template <typename String = std::string>
  [[nodiscard]] String to_text() const {
    String all;
    for (bool const short_ones : {true, false}) {
      for (finding const& f : findings) {
        if ((f.state == finding_state::fell_short) != short_ones) continue;
        all += to_string(f.state);
        all += ": ";
        all += f.text;
        all += '\n';
      }
    }
    return all;
  }
  /// Throws if anything is shown to fall short.
  /// @throws std::runtime_error with a line for each expectation that fell short
  template <typename Error = std::runtime_error>
  void throw_if_short(source_location where = source_location::current()) const {
    if (ok()) return;
    detail::string_builder all{detail::text{where.file(), where.line()}.c_str()};
    all += ": slower or larger than expected";
    for (finding const& f : findings) {
      if (f.state == finding_state::fell_short) all += detail::string_builder{"\n  "} + f.text;
    }
    throw Error{all.str()};
  }
};

WARPWRIGHT_END
