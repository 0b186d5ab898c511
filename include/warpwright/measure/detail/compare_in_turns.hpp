// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The loop of compare(), which does not depend on the types of callables and stopwatch.
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/measure/detail/take_samples.hpp>
#include <warpwright/measure/detail/turn_ratio.hpp>

#include <cstddef>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

struct turns {
  std::vector<std::vector<double>> samples;  // seconds per call by candidate and turn
  std::vector<std::size_t> calls_per_sample;
  stop_reason reason = stop_reason::out_of_samples;
  double elapsed_seconds = 0.0;
  bool long_enough = false;
};

template <typename Size>
WARPWRIGHT_NOINLINE void check_candidates(Size count, Size first, Size second,
                                          source_location where) {
  Size const larger = first > second ? first : second;
  if (larger < count) return;
  throw_invalid_argument(text{"comparison: candidate "} + larger + " of " + count +
                             "; they are numbered from 0 in the order of the arguments",
                         where);
}

// Options is measure_options: a template, so that a file which only includes the header does not
// compile it.
template <typename Options>
class turn_taker {
 public:
  turn_taker(std::size_t candidates, function_ref<double(std::size_t, std::size_t)> time_calls,
             Options const& options)
      : candidates_{candidates},
        time_calls_{time_calls},
        options_{options},
        time_{options.clock()} {}

  WARPWRIGHT_COLD turns run() {
    reserve();
    bool const warm = warm_up();
    double const start = time_.elapsed();
    if (warm) take_turns(start);
    result_.elapsed_seconds = time_.elapsed();
    return static_cast<turns&&>(result_);
  }

 private:
  WARPWRIGHT_COLD void reserve() {
    for (std::size_t i = 0; i < candidates_; ++i) {
      result_.samples.emplace_back();
      result_.samples.back().reserve(options_.max_samples());
      result_.calls_per_sample.push_back(1);
    }
    turn_.resize(candidates_);
    analyze_.reserve(options_.max_samples());
  }

  bool interrupted() {
    if (!options_.stop_when()()) return false;
    result_.reason = stop_reason::interrupted;
    return true;
  }

  double occupy(std::size_t candidate, std::size_t repeats) {
    double const seconds = time_calls_(candidate, repeats);
    time_.add(seconds);
    return seconds;
  }

  // Returns false if interrupted.
  WARPWRIGHT_COLD bool warm_up() {
    double const limit = 0.25 * options_.max_seconds();
    for (std::size_t c = 0; c < candidates_; ++c) {
      if (interrupted()) return false;
      double one_call = occupy(c, 1);
      for (std::size_t i = 1; i < options_.warmup_calls() && time_.elapsed() < limit; ++i) {
        if (interrupted()) return false;
        one_call = occupy(c, 1);
      }
      auto const occupy_calls = [&](std::size_t repeats) { return occupy(c, repeats); };
      result_.calls_per_sample[c] =
          calibrate_repeats(occupy_calls, time_, one_call, options_.sample_seconds(), limit);
    }
    // A turn whose times are discarded: clocks and caches are then those of the turns to come.
    return take_turn();
  }

  // Takes a turn into turn_; returns false if interrupted.
  WARPWRIGHT_COLD bool take_turn() {
    for (double& seconds : turn_) seconds = 0.0;
    for (std::size_t i = 0; i < 2 * candidates_; ++i) {
      if (interrupted()) return false;
      std::size_t const c = i < candidates_ ? i : 2 * candidates_ - 1 - i;
      std::size_t const calls = result_.calls_per_sample[c];
      turn_[c] += 0.5 * occupy(c, calls) / static_cast<double>(calls);
    }
    return true;
  }

  WARPWRIGHT_COLD void take_turns(double start) {
    std::size_t next = options_.min_samples();
    while (take_turn()) {
      for (std::size_t c = 0; c < candidates_; ++c) result_.samples[c].push_back(turn_[c]);
      std::size_t const count = result_.samples[0].size();
      double const elapsed = time_.elapsed();
      bool const last = count >= options_.max_samples();
      bool const late = count >= turn_ratio::fewest_turns && elapsed >= options_.max_seconds();
      result_.reason = late ? stop_reason::out_of_time : stop_reason::out_of_samples;
      result_.long_enough = elapsed - start >= options_.min_seconds();
      bool const enough = count >= options_.min_samples() && result_.long_enough;
      if (enough && (count >= next || last || late)) {
        next = next_analysis(count);
        if (precise()) {
          result_.reason = stop_reason::precision_reached;
          return;
        }
      }
      if (last || late) return;
    }
  }

  WARPWRIGHT_COLD bool precise() {
    for (std::size_t c = 1; c < candidates_; ++c) {
      turn_ratio const r = analyze_(result_.samples[c], result_.samples[0], options_.precision());
      if (r.stability != sample_stability::settled ||
          r.half_width() > options_.precision() * r.median * (1.0 + 1e-9)) {
        return false;
      }
    }
    return true;
  }

  std::size_t candidates_;
  function_ref<double(std::size_t, std::size_t)> time_calls_;
  Options options_;
  measuring_time time_;
  turns result_;
  array<double> turn_;  // seconds per call by candidate, of the turn being taken
  turn_ratio_analyzer<double> analyze_;
};

template <typename Options>
WARPWRIGHT_COLD_ENTRY turns
compare_in_turns(std::size_t candidates, function_ref<double(std::size_t, std::size_t)> time_calls,
                 Options const& options) {
  return turn_taker<Options>{candidates, time_calls, options}.run();
}

}  // namespace detail

WARPWRIGHT_END
