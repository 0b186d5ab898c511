// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of choose() and chooser: which implementation of an operation, and why.
#pragma once

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/measure/compare.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// What became of a candidate.
enum class candidate_state {
  not_timed,   ///< usable as far as known; there was nothing to compare it with, or no measurement
  compared,    ///< timed in turns with the others
  far_slower,  ///< left out: single calls took several times as long as another candidate's
  failed,      ///< left out: it threw an exception
  wrong,       ///< left out: the check of its results returned false
};

/// The state in words.
inline char const* to_string(candidate_state state) {
  switch (state) {
    case candidate_state::not_timed:
      return "not timed";
    case candidate_state::compared:
      return "compared";
    case candidate_state::far_slower:
      return "far slower";
    case candidate_state::failed:
      return "failed";
    case candidate_state::wrong:
      return "wrong result";
  }
  return "unknown";
}

/// Where a choice comes from.
enum class choice_source {
  measured,      ///< measured by this process
  checked,       ///< stored with another driver or runtime, and measured against the second best
  stored,        ///< read from the tuning_store; nothing was run
  not_measured,  ///< nothing may be measured now: a stored choice that fits less well, or the first
};

/// The source in words.
inline char const* to_string(choice_source source) {
  switch (source) {
    case choice_source::measured:
      return "measured";
    case choice_source::checked:
      return "stored, and checked again";
    case choice_source::stored:
      return "stored";
    case choice_source::not_measured:
      return "not measured";
  }
  return "unknown";
}

/// The figures of one candidate.
struct candidate_figures {
  std::string name;
  candidate_state state = candidate_state::not_timed;
  double median_seconds = 0.0;  ///< per call; far_slower: of its faster call; 0: not known
  /// Its time / the chosen one's; low and high are 0 where it was not compared by this process.
  time_ratio to_chosen;
  std::string reason;  ///< why it was left out; empty: it was not
};

/// Which of several implementations to use, and why.
struct choice {
  std::size_t index = 0;  ///< the chosen candidate's, in the order given
  std::string name;       ///< and its name
  choice_source source = choice_source::not_measured;
  bool shown_fastest = false;  ///< whether it is shown to be faster than all others that are usable
  std::string reason;          ///< why it was chosen, in words
  std::vector<candidate_figures> candidates;  ///< all of them, in the order given
  std::vector<std::string> warnings;          ///< what the tuning_store could not read or write
  bool interrupted = false;                   ///< whether a stop predicate ended the measurement
  double elapsed_seconds = 0.0;               ///< of the measurement; 0: nothing was measured
};

/// Formats a choice as a table for a terminal: a line for each candidate, then the reason.
/// @return text that ends in a newline
/// **Threads:** safe.
template <typename String = std::string>
[[nodiscard]] String to_text(choice const& made) {
  using detail::string_builder;
  std::size_t width = 0;
  for (auto const& c : made.candidates) width = c.name.size() > width ? c.name.size() : width;
  string_builder all;
  for (std::size_t i = 0; i < made.candidates.size(); ++i) {
    auto const& c = made.candidates[i];
    all += i == made.index ? "* " : "  ";
    all += string_builder{c.name} + string_builder{std::string(width - c.name.size() + 2, ' ')};
    if (!c.reason.empty()) {
      all += string_builder{"left out: "} + c.reason;
    } else if (c.median_seconds > 0.0) {
      all += detail::format_seconds(c.median_seconds);
      if (i != made.index && c.to_chosen.high > 0.0 && c.to_chosen.high < HUGE_VAL) {
        // Not with a comma in the format, which would be taken for a locale's separator.
        all += string_builder{", "} +
               detail::format_number("%.4g times as long", c.to_chosen.median) +
               detail::format_number(" (%.4g to ", c.to_chosen.low) +
               detail::format_number("%.4g)", c.to_chosen.high);
      }
    } else {
      all += to_string(c.state);
    }
    all += '\n';
  }
  all += string_builder{made.name} + " (" + to_string(made.source) + "): " + made.reason + '\n';
  for (std::string const& warning : made.warnings) {
    all += string_builder{"warning: "} + warning + '\n';
  }
  return all.str();
}

WARPWRIGHT_END
