// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The steps of choose(), which do not depend on the types of candidates and stopwatch:
// - each candidate runs once, and its result is checked;
// - single calls, in turns, show which ones are slower by far;
// - the others are compared in turns.
// A candidate that fails in any step is left out, and the step is done again without it.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/measure/choice.hpp>
#include <warpwright/measure/choose_options.hpp>
#include <warpwright/tune/batch_plan.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

// What a search calls; all of it outlives the search.
struct candidate_access {
  std::size_t count;
  char const* const* names;
  function_ref<void()> reset;                               // destroys an earlier result
  function_ref<void(std::size_t)> run;                      // runs one, and waits for it
  function_ref<bool()> is_right;                            // whether the result is right
  function_ref<double(std::size_t, std::size_t)> time;      // seconds of so many calls of one
  function_ref<bool(std::exception_ptr const&)> leave_out;  // the user's classifier
};

template <typename Options>
WARPWRIGHT_NOINLINE void check_choose_arguments(char const* const* names, std::size_t count,
                                                Options const& options, source_location where) {
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

// Errors of this kind leave no other candidate to use: the device is lost.
WARPWRIGHT_COLD inline bool is_sticky_error(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (cuda_error const& failed) {
    return failed.sticky();
  } catch (...) {
    return false;
  }
}

WARPWRIGHT_COLD inline bool is_invalid_argument(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::invalid_argument const&) {
    return true;
  } catch (...) {
    return false;
  }
}

template <typename String = std::string>
WARPWRIGHT_COLD String text_of(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& known) {
    return known.what();
  } catch (...) {
    return "an exception without a text";
  }
}

// Options is choose_options: a template, also on its result, so that a file which only includes the
// header does not compile it.
template <typename Options, typename Choice = choice>
class candidate_search {
 public:
  candidate_search(candidate_access const& access, Options const& options, source_location where)
      : access_{access}, options_{options}, where_{where} {}

  // Chooses among all candidates.
  WARPWRIGHT_COLD_ENTRY Choice all() {
    begin();
    for (std::size_t i = 0; i < access_.count; ++i) try_out(i);
    if (!search()) throw_none_usable();
    return std::move(result_);
  }

  // Whether a stored choice still holds: the winner works, and is not slower than the second best.
  // Then `stored` gets the new figures. It holds as well where the check was interrupted.
  // @param second  may be candidate_search::none
  WARPWRIGHT_COLD_ENTRY bool confirm(std::size_t winner, std::size_t second, Choice& stored) {
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

  static constexpr std::size_t none = static_cast<std::size_t>(-1);

 private:
  WARPWRIGHT_COLD void begin() {
    check_pending("a call before the choice", where_);
    start_ = options_.sampling().clock().now();
    result_ = Choice{};
    comparison_ = comparison{};
    result_.source = choice_source::measured;
    usable_.clear();
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
      bool const known =
          default_out_of_memory{}(error) || is_invalid_argument(error) || access_.leave_out(error);
      if (candidate == none || !known || is_sticky_error(error)) throw;
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
      turns t;
      if (!survives(running, [&] { t = compare_in_turns(usable_.size(), time_calls, sampling()); }))
        continue;
      comparison_ = comparison{};
      comparison_.samples = std::move(t.samples);
      comparison_.precision = options_.sampling().precision();
      comparison_.long_enough = t.long_enough;
      result_.interrupted = t.reason == stop_reason::interrupted;
      for (std::vector<double> const& samples : comparison_.samples) {
        comparison_.summaries.push_back(summarize(samples, where_));
      }
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
  Options options_;
  source_location where_;
  Choice result_;
  std::uint64_t start_ = 0;    // of the clock, nanoseconds
  array<std::size_t> usable_;  // in the order of preference
  array<double> single_;       // the faster of two single calls, by candidate
  comparison comparison_;      // by position in usable_
  array<time_ratio> ratios_;   // of each to each
};

}  // namespace detail

WARPWRIGHT_END
