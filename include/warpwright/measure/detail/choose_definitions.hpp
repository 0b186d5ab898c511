// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The steps of choose(), which do not depend on the types of candidates and stopwatch:
// - each candidate runs once, and its result is checked;
// - single calls, in turns, show which ones are slower by far;
// - the others are compared in turns.
// A candidate that fails in any step is left out, and the step is done again without it.
#pragma once

#include <warpwright/core/detail/error/exception_kind.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/measure/choose.hpp>
#include <warpwright/measure/detail/compare_definitions.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_string(candidate_state state) {
  constexpr char const* names[] = {"not timed", "compared", "far slower", "failed", "wrong result"};
  return detail::enum_name(names, state);
}

WARPWRIGHT_INLINE char const* to_string(choice_source source) {
  constexpr char const* names[] = {"measured", "stored, and checked again", "stored",
                                   "not measured"};
  return detail::enum_name(names, source);
}

WARPWRIGHT_INLINE std::string to_text(choice const& made) {
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

namespace detail {

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void check_choose_arguments(char const* const* names,
                                                                  std::size_t count,
                                                                  choose_options const& options,
                                                                  source_location where) {
  check_measure_options(options.sampling(), where);
  if (!(options.far_slower() > 1.0)) {  // also for a NaN
    throw_invalid_argument(
        text{"choose_options: far_slower is "} + options.far_slower() +
            "; it must be above 1: 4 leaves out what takes more than 4 times as long",
        where);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (names[i] == nullptr || *names[i] == '\0') {
      throw_invalid_argument(text{"choose: candidate "} + i +
                                 " has no name; give each a name of its own, by which a "
                                 "tuning_store knows it",
                             where);
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (std::strcmp(names[i], names[k]) != 0) continue;
      throw_invalid_argument(text{"choose: candidates "} + k + " and " + i + " are both named '" +
                                 names[i] + "'; give each a name of its own",
                             where);
    }
  }
}

class fastest_search {
 public:
  explicit fastest_search(candidate_search const& s)
      : access_{s.access}, options_{s.options}, where_{s.where} {}

  WARPWRIGHT_COLD choice all() {
    begin();
    for (std::size_t i = 0; i < access_.count; ++i) try_out(i);
    if (!search()) throw_none_usable();
    return std::move(result_);
  }

  WARPWRIGHT_COLD bool confirm(std::size_t winner, std::size_t second, choice& stored) {
    begin();
    try_out(winner);
    if (usable_.empty()) return false;
    if (second != none) try_out(second);
    if (!search()) return false;
    stored.elapsed_seconds = result_.elapsed_seconds;
    stored.interrupted = result_.interrupted;
    if (result_.interrupted) {
      stored.source = choice_source::not_measured;
      stored.reason = "stored for other versions; the check was interrupted";
      return true;
    }
    // By position in usable_ the winner is 0, the second best 1.
    if (usable_.front() != winner || (usable_.size() > 1 && is_faster(1, 0))) return false;
    if (usable_.size() > 1) set_figures(0);
    stored.source = choice_source::checked;
    stored.shown_fastest = result_.shown_fastest;
    for (std::size_t const i : {winner, second}) {
      if (i != none) stored.candidates[i] = std::move(result_.candidates[i]);
    }
    stored.reason = second == none || usable_.size() < 2
                        ? std::string{"it works as before"}
                        : (string_builder{"not shown to be slower than '"} + access_.names[second] +
                           "', the second best before")
                              .str();
    return true;
  }

 private:
  static constexpr std::size_t none = candidate_search::none;

  WARPWRIGHT_COLD void begin() {
    check_pending("a call before the choice", where_);
    start_ = options_.sampling().clock().now();
    result_.source = choice_source::measured;
    for (std::size_t i = 0; i < access_.count; ++i) {
      result_.candidates.emplace_back();
      result_.candidates.back().name = access_.names[i];
    }
  }

  WARPWRIGHT_COLD void leave_out(std::size_t i, candidate_state state, std::string reason) {
    result_.candidates[i].state = state;
    result_.candidates[i].reason = std::move(reason);
    std::size_t kept = 0;
    for (std::size_t const other : usable_) {
      if (other != i) usable_[kept++] = other;
    }
    while (usable_.size() > kept) usable_.pop_back();
  }

  // Calls `f`; if it throws what leaves a candidate out, does so and returns false.
  //
  // Returns after the handler, so that the exception and the memory that it may hold are destroyed.
  template <typename F>
  WARPWRIGHT_COLD bool survives(std::size_t const& candidate, F&& f) {
    try {
      f();
      return true;
    } catch (...) {
      std::exception_ptr const error = std::current_exception();
      exception_kind const kind = kind_of(error);
      bool const expected =
          kind == exception_kind::out_of_memory || kind == exception_kind::invalid_argument;
      if (candidate == none || kind == exception_kind::device_lost ||
          !(expected || access_.leave_out(error)))
        throw;
      leave_out(candidate, candidate_state::failed, text_of(error));
    }
    static_cast<void>(cudaGetLastError());
    return false;
  }

  WARPWRIGHT_COLD void try_out(std::size_t i) {
    access_.reset();
    if (!survives(i, [&] { access_.run(i); })) return;
    if (access_.is_right()) {
      usable_.push_back(i);
    } else {
      leave_out(i, candidate_state::wrong, "its result did not pass the check");
    }
  }

  // Returns false if no candidate is left.
  WARPWRIGHT_COLD bool search() {
    if (usable_.size() > 1 && time_single_calls()) compare();
    if (usable_.empty()) return false;
    decide();
    std::uint64_t const end = options_.sampling().clock().now();
    result_.elapsed_seconds = 1e-9 * static_cast<double>(end - start_);
    return true;
  }

  bool interrupted() {
    if (options_.sampling().stop_when()()) result_.interrupted = true;
    return result_.interrupted;
  }

  // Leaves out what is slower by far, and longer than a sample: comparing shorter calls takes no
  // more time than a sample, and single ones vary much. Returns false if interrupted, or if no
  // candidate is left.
  WARPWRIGHT_COLD bool time_single_calls() {
    single_.clear();
    while (single_.size() < access_.count) single_.push_back(HUGE_VAL);
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < access_.count; ++i) {
        if (!is_usable(i)) continue;
        if (interrupted()) return false;
        double seconds = 0.0;
        if (survives(i, [&] { seconds = access_.time(i, 1); }) && seconds < single_[i]) {
          single_[i] = seconds;
        }
      }
    }
    if (usable_.empty()) return false;
    std::size_t best = usable_[0];
    for (std::size_t const i : usable_) {
      if (single_[i] < single_[best]) best = i;
    }
    for (std::size_t i = 0; i < access_.count; ++i) {
      if (!is_usable(i) || !(single_[i] > options_.sampling().sample_seconds()) ||
          !(single_[i] > options_.far_slower() * single_[best])) {
        continue;
      }
      leave_out(i, candidate_state::far_slower,
                (string_builder{"a call took "} + format_seconds(single_[i]) + ", " +
                 format_number("%.3g times as long as '", single_[i] / single_[best]) +
                 access_.names[best] + "'")
                    .str());
      result_.candidates[i].median_seconds = single_[i];
    }
    return true;
  }

  // So that there is time for the warm-up and turns that show a difference, however long the calls
  // are.
  WARPWRIGHT_COLD measure_options sampling() const {
    measure_options given = options_.sampling();
    // The flush before each call takes several times as long as a short call.
    if (options_.is_cold()) given = given.sample_seconds(0.125 * given.sample_seconds());
    double turn = 0.0;
    for (std::size_t const i : usable_) {
      turn += 2.0 * (single_[i] > given.sample_seconds() ? single_[i] : given.sample_seconds());
    }
    double const least = 2.0 * static_cast<double>(turn_ratio::fewest_turns) * turn;
    return given.max_seconds() < least ? given.max_seconds(least) : given;
  }

  WARPWRIGHT_COLD void compare() {
    while (usable_.size() > 1) {
      std::size_t running = none;
      auto const time_calls = [&](std::size_t candidate, std::size_t repeats) {
        running = usable_[candidate];
        double const seconds = access_.time(running, repeats);
        running = none;
        return seconds;
      };
      comparison_ = comparison{};
      if (!survives(running, [&] {
            comparison_ = compare_in_turns(usable_.size(), time_calls, sampling());
          })) {
        continue;
      }
      result_.interrupted = comparison_.reason == stop_reason::interrupted;
      summarize_candidates(comparison_, where_);
      ratios_.clear();
      for (std::size_t i = 0; i < usable_.size(); ++i) {
        for (std::size_t k = 0; k < usable_.size(); ++k) {
          ratios_.push_back(comparison_.ratio(i, k, where_));
        }
      }
      return;
    }
  }

  [[nodiscard]] WARPWRIGHT_COLD bool is_usable(std::size_t candidate) const {
    for (std::size_t const i : usable_) {
      if (i == candidate) return true;
    }
    return false;
  }

  // By position in usable_.
  [[nodiscard]] time_ratio const& ratio(std::size_t first, std::size_t second) const {
    return ratios_[first * usable_.size() + second];
  }

  // By position in usable_.
  [[nodiscard]] WARPWRIGHT_COLD bool is_faster(std::size_t first, std::size_t second) const {
    return first != second && ratio(first, second).verdict() == difference::faster;
  }

  // Of those than which no other is shown to be faster the one with the best median; by position in
  // usable_. After an interruption with too few turns to show anything the first.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t winner() const {
    std::size_t const least_turns = result_.interrupted ? turn_ratio::fewest_turns : 1;
    if (comparison_.samples[0].size() < least_turns) return 0;
    auto const best = [&](bool beaten_too) {
      std::size_t least = none;
      for (std::size_t i = 0; i < usable_.size(); ++i) {
        bool beaten = false;
        for (std::size_t k = 0; k < usable_.size() && !beaten; ++k) beaten = is_faster(k, i);
        if (beaten && !beaten_too) continue;
        double const median = comparison_.summaries[i].median_seconds;
        if (least == none || median < comparison_.summaries[least].median_seconds) least = i;
      }
      return least;
    };
    std::size_t const unbeaten = best(false);
    return unbeaten != none ? unbeaten : best(true);  // each is slower than another, in a circle
  }

  // @param chosen  by position in usable_
  WARPWRIGHT_COLD void set_figures(std::size_t chosen) {
    for (std::size_t i = 0; i < usable_.size(); ++i) {
      candidate_figures& figures = result_.candidates[usable_[i]];
      figures.median_seconds = comparison_.summaries[i].median_seconds;
      if (comparison_.samples[i].empty()) continue;
      figures.state = candidate_state::compared;
      figures.to_chosen = ratio(i, chosen);
    }
  }

  WARPWRIGHT_COLD void decide() {
    bool const compared = comparison_.samples.size() == usable_.size() && usable_.size() > 1;
    std::size_t const won = compared ? winner() : 0;
    result_.index = usable_[won];
    result_.name = access_.names[result_.index];
    if (usable_.size() == 1) {
      result_.reason = access_.count == 1 ? "the only one" : "the only one that is left";
      return;
    }
    string_builder equal;
    if (compared) set_figures(won);
    for (std::size_t i = 0; i < usable_.size() && compared; ++i) {
      if (i == won || is_faster(won, i)) continue;
      equal += string_builder{equal.empty() ? "'" : ", '"} + access_.names[usable_[i]] + "'";
    }
    result_.shown_fastest = compared && equal.empty();
    if (result_.shown_fastest) {
      result_.reason = "shown to be the fastest";
    } else if (result_.interrupted) {
      result_.reason = "the measurement was interrupted, and nothing faster was shown before";
    } else {
      result_.reason =
          (string_builder{"no difference shown to "} + equal + "; the best median of them").str();
    }
  }

  [[noreturn]] WARPWRIGHT_COLD void throw_none_usable() const {
    string_builder all{text{where_.file(), where_.line()}.c_str()};
    all += ": choose: none of the candidates can be used";
    for (candidate_figures const& c : result_.candidates) {
      all += string_builder{"; '"} + c.name + "': " + c.reason;
    }
    throw std::runtime_error{all.str()};
  }

  candidate_access access_;
  choose_options options_;
  source_location where_;
  choice result_;
  std::uint64_t start_ = 0;    // of the clock, nanoseconds
  array<std::size_t> usable_;  // in the order of preference
  array<double> single_;       // the faster of two single calls, by candidate
  comparison comparison_;      // by position in usable_
  array<time_ratio> ratios_;   // of each to each
};

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE choice candidate_search::all() const {
  return fastest_search{*this}.all();
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE bool candidate_search::confirm(std::size_t winner,
                                                                       std::size_t second,
                                                                       choice& stored) const {
  return fastest_search{*this}.confirm(winner, second, stored);
}

}  // namespace detail

WARPWRIGHT_END
