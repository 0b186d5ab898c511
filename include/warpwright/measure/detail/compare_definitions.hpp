// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/measure/compare.hpp>
#include <warpwright/measure/detail/measure_definitions.hpp>
#include <warpwright/measure/detail/turn_ratio_definitions.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_string(difference d) {
  constexpr char const* names[] = {"no difference shown", "faster", "slower"};
  return detail::enum_name(names, d);
}

WARPWRIGHT_INLINE std::string to_text(time_ratio const& ratio) {
  difference const d = ratio.verdict();
  bool const inverse = d == difference::faster;
  detail::string_builder all{to_string(d)};
  if (ratio.high < HUGE_VAL) {
    // Near 1 two digits would round a difference away.
    bool const close = ratio.median > 0.95 && ratio.median < 1.05;
    all += detail::format_number(close ? ": %.3fx" : ": %.2fx",
                                 inverse ? 1.0 / ratio.median : ratio.median) +
           detail::format_number(close ? " (%.3f to " : " (%.2f to ",
                                 inverse ? 1.0 / ratio.high : ratio.low) +
           detail::format_number(close ? "%.3f)" : "%.2f)", inverse ? 1.0 / ratio.low : ratio.high);
  }
  if (ratio.stability == sample_stability::too_few_samples) {
    all += ", few turns";
  } else if (!ratio.converged()) {
    all += ", unsteady";
  }
  return all.str();
}

WARPWRIGHT_INLINE time_ratio comparison::ratio(std::size_t first, std::size_t second,
                                               source_location where) const {
  std::size_t const larger = first > second ? first : second;
  if (larger >= samples.size()) {
    detail::throw_invalid_argument(detail::text{"comparison: candidate "} + larger + " of " +
                                       samples.size() +
                                       "; they are numbered from 0 in the order of the arguments",
                                   where);
  }
  detail::turn_ratio const t = detail::ratio_of_turns(samples[first], samples[second], precision);
  return {t.median, t.low, t.high, long_enough ? t.stability : sample_stability::too_few_samples};
}

WARPWRIGHT_INLINE difference comparison::verdict(std::size_t first, std::size_t second,
                                                 source_location where) const {
  return ratio(first, second, where).verdict();
}

WARPWRIGHT_INLINE std::size_t comparison::fastest() const {
  std::size_t best = none;
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    if (best == none || summaries[i].median_seconds < summaries[best].median_seconds) best = i;
  }
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    if (i != best && verdict(best, i) != difference::faster) return none;
  }
  return best;
}

namespace detail {

class turn_taker {
 public:
  turn_taker(std::size_t candidates, function_ref<double(std::size_t, std::size_t)> time_calls,
             measure_options const& options)
      : candidates_{candidates},
        time_calls_{time_calls},
        options_{options},
        time_{options.clock()} {}

  WARPWRIGHT_COLD comparison run() {
    reserve();
    bool const warm = warm_up();
    double const start = time_.elapsed();
    if (warm) take_turns(start);
    result_.elapsed_seconds = time_.elapsed();
    return static_cast<comparison&&>(result_);
  }

 private:
  WARPWRIGHT_COLD void reserve() {
    result_.precision = options_.precision();
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
    for (std::size_t c = 0; c < candidates_; ++c) {
      auto const occupy_calls = [&](std::size_t repeats) { return occupy(c, repeats); };
      result_.calls_per_sample[c] = detail::warm_up(occupy_calls, options_, time_);
      if (result_.calls_per_sample[c] != 0) continue;
      result_.reason = stop_reason::interrupted;
      return false;
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
      if (r.stability != sample_stability::converged ||
          r.half_width() > options_.precision() * r.median * (1.0 + 1e-9)) {
        return false;
      }
    }
    return true;
  }

  std::size_t candidates_;
  function_ref<double(std::size_t, std::size_t)> time_calls_;
  measure_options options_;
  measuring_time time_;
  comparison result_;
  array<double> turn_;  // seconds per call by candidate, of the turn being taken
  turn_ratio_analyzer analyze_;
};

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE comparison
compare_in_turns(std::size_t candidates, function_ref<double(std::size_t, std::size_t)> time_calls,
                 measure_options const& options) {
  return turn_taker{candidates, time_calls, options}.run();
}

WARPWRIGHT_INLINE void summarize_candidates(comparison& c, source_location where) {
  for (std::vector<double> const& samples : c.samples) {
    c.summaries.push_back(summarize(samples, where));
  }
}

}  // namespace detail

WARPWRIGHT_END
