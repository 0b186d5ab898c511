// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the best sizes of batch_tuner's search in turns, so that a drift, a throttled clock or
// slow phases affect all of them, until it is shown which are within the tolerance of the best.
#pragma once

#include <warpwright/measure/compare.hpp>
#include <warpwright/tune/detail/search/refinement_definitions.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// The share of the best throughput that is enough, somewhat more than the tolerance says where
// better sizes may not have been run.
WARPWRIGHT_COLD WARPWRIGHT_INLINE double least_share(search_state const& s) {
  double const best = s.score(s.best());
  double const share = 1.0 - s.settings.tolerance;
  if (!(best > 0.0) || !(s.best_possible > best)) return share;
  double const enough = share * s.best_possible / best;
  return enough < 1.0 ? enough : 1.0;
}

class paired_comparison {
 public:
  // @param sizes    usable; the first one is the reference
  // @param seconds  after which it is left undecided
  paired_comparison(search_state& s, std::vector<std::size_t> sizes, double seconds)
      : s_{s}, sizes_{std::move(sizes)}, seconds_{seconds} {
    seconds_per_item_.resize(sizes_.size());
  }

  // Returns false if a size failed: the others' figures are unchanged then.
  WARPWRIGHT_COLD bool run() {
    std::size_t turns = first_turns;
    double const until = s_.elapsed() + seconds_;
    for (int block = 0; block < most_blocks; ++block) {
      double const planned = block == 0 ? s_.left() : until - s_.elapsed();
      std::size_t const affordable = turns_in(planned < s_.left() ? planned : s_.left());
      if (affordable < 3 || !s_.has_time()) break;
      if (!take_turns(turns < affordable ? turns : affordable)) return false;
      if (!undecided()) break;
      if (block > 0) turns *= 2;
    }
    if (seconds_per_item_[0].size() >= 3) update();
    return true;
  }

 private:
  static constexpr std::size_t first_turns = 6;
  static constexpr int most_blocks = 4;

  [[nodiscard]] WARPWRIGHT_COLD std::size_t turns_in(double seconds) const {
    double turn = 0.0;
    for (std::size_t const batch : sizes_) {
      double const sample = s_.settings.sampling.sample_seconds();
      double const one = s_.find(batch)->row.seconds_per_batch;
      turn += 2.0 * (one > sample ? one : sample);
    }
    // Two more turns for the warm-up.
    double const turns = turn > 0.0 ? seconds / turn - 2.0 : 1e6;
    return turns < 1.0 ? 0 : turns < 1e6 ? static_cast<std::size_t>(turns) : 1000000;
  }

  WARPWRIGHT_COLD bool take_turns(std::size_t turns) {
    bool failed = false;
    auto const stop = [&] { return failed || s_.settings.stop() || !s_.has_time(); };
    auto const time_calls = [&](std::size_t i, std::size_t repeats) {
      std::size_t const batch = sizes_[i];
      if (failed) return 0.0;
      bool const other = !s_.is_prepared(batch);
      if (other && !s_.prepare(batch)) {
        failed = true;
        return 0.0;
      }
      if (other && s_.hooks.prepares) s_.run(batch, 1);
      double const seconds = s_.run(batch, repeats);
      failed = !s_.read_memory(batch);
      return seconds;
    };
    std::vector<std::vector<double>> samples;
    s_.report(sizes_[0]);
    bool const ran = s_.attempt([&] {
      samples = compare_in_turns(sizes_.size(), time_calls,
                                 s_.settings.sampling.warmup_calls(1)
                                     .min_samples(turns)
                                     .max_samples(turns)
                                     .precision(0.0)
                                     .max_seconds(s_.left())
                                     .clock(s_.settings.clock)
                                     .stop_when(stop))
                    .samples;
    });
    if (!ran || failed) return false;
    for (std::size_t t = 0; t < samples[0].size(); ++t) {
      bool positive = true;
      for (auto const& of_size : samples) positive = positive && of_size[t] > 0.0;
      if (!positive) continue;  // a clock too coarse for these calls
      for (std::size_t i = 0; i < sizes_.size(); ++i) {
        seconds_per_item_[i].push_back(samples[i][t] / static_cast<double>(sizes_[i]));
      }
    }
    return true;
  }

  // Of the rate of a size to that of another, logarithms: turn by turn, so that what both have in
  // common cancels.
  [[nodiscard]] WARPWRIGHT_COLD turn_ratio ratio(std::size_t i, std::size_t k) const {
    return ratio_of_turns(seconds_per_item_[k], seconds_per_item_[i], 0.0);
  }

  [[nodiscard]] WARPWRIGHT_COLD std::size_t fastest() const {
    std::size_t best = 0;
    double highest = 0.0;
    for (std::size_t i = 1; i < sizes_.size(); ++i) {
      double const over_first = ratio(i, 0).log_mean;
      if (!(over_first > highest)) continue;
      highest = over_first;
      best = i;
    }
    return best;
  }

  [[nodiscard]] WARPWRIGHT_COLD bool undecided() const {
    std::size_t const best = fastest();
    double const least = std::log(least_share(s_));
    double const much_better = 0.5 * s_.settings.tolerance;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (i == best) continue;
      turn_ratio const r = ratio(i, best);
      if (r.log_mean + r.log_half_width > much_better && r.log_half_width > 0.5 * much_better)
        return true;
      bool const smaller = sizes_[i] < sizes_[best];
      if (smaller && r.log_mean >= least && r.log_mean - r.log_half_width < least) return true;
    }
    return false;
  }

  // All figures stay relative to the reference's, so that they can be compared with other sizes'.
  WARPWRIGHT_COLD void update() {
    std::size_t const best = fastest();
    tune_row const first = s_.find(sizes_[0])->row;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      tune_row& row = s_.at(sizes_[i]).row;
      turn_ratio const over_first = ratio(i, 0);
      row.items_per_second = first.items_per_second * std::exp(over_first.log_mean);
      row.seconds_per_batch = static_cast<double>(row.batch) / row.items_per_second;
      // A product's errors add up as squares.
      row.relative_error = std::hypot(first.relative_error, over_first.log_half_width);
      row.compared_error = i == best ? 0.0 : ratio(i, best).log_half_width;
      row.samples = 2 * seconds_per_item_[i].size();
      row.interleaved = true;
    }
  }

  search_state& s_;
  std::vector<std::size_t> sizes_;
  double seconds_;
  std::vector<std::vector<double>> seconds_per_item_;  // by size and turn
};

// The smallest size that is shown to be within the tolerance of the best; 0: none is usable. A size
// that is to be kept needs not be shown to be, but must seem so.
// @param slowest  the longest time of a batch that is acceptable
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t pick(search_state const& s,
                                                   double slowest = HUGE_VAL) {
  auto const acceptable = [&](candidate const& c) {
    return usable(c) && c.row.latency_median_seconds <= slowest;
  };
  double best = -1.0;
  for (candidate const& c : s.candidates) {
    if (acceptable(c) && s.score(c.row) > best) best = s.score(c.row);
  }
  if (best < 0.0) return 0;
  double const share = least_share(s);
  if (s.settings.keep != 0) {
    candidate const* const kept = s.find(s.settings.keep);
    bool const good =
        kept != nullptr && acceptable(*kept) && s.score(kept->row) >= best * share * (1.0 - 1e-9);
    return good ? s.settings.keep : 0;
  }
  for (candidate const& c : s.candidates) {
    if (!acceptable(c)) continue;
    double const value = s.score(c.row);
    double const error = value < best && s.for_throughput() ? error_of(c.row) : 0.0;
    if (value * (1.0 - error) >= best * share * (1.0 - 1e-9)) return c.row.batch;
  }
  return 0;
}

// The best size, and of those near it that have not been compared the smallest three and the
// largest.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::vector<std::size_t> finalists(search_state const& s) {
  constexpr std::size_t most_small = 3;
  std::size_t const best = s.best();
  std::vector<std::size_t> list;
  if (best == 0) return list;
  list.push_back(best);
  std::size_t above = 0;
  std::size_t largest = 0;
  double next = 0.0;
  tune_row const& top = s.find(best)->row;
  double const error_of_best = top.interleaved ? 0.0 : top.relative_error;
  for (candidate const& c : s.candidates) {
    if (!usable(c) || c.row.batch == best || c.row.interleaved) continue;
    double const error = c.row.relative_error + error_of_best;
    if (s.score(c.row) < s.score(best) * (least_share(s) - error)) continue;
    if (c.row.batch > best) {
      if (above == 0) above = c.row.batch;
      largest = c.row.batch;
      continue;
    }
    double const batch = static_cast<double>(c.row.batch);
    if (list.size() > most_small || batch < next) continue;
    list.push_back(c.row.batch);
    next = 1.1 * batch;
  }
  if (above != 0 && above != largest) list.push_back(above);
  if (largest != 0) list.push_back(largest);
  return list;
}

// Compares finalists until the choice is one that was compared.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void compare_finalists(search_state& s, refiner& refine) {
  if (!s.for_throughput()) return;
  double const searched = s.elapsed();
  for (int round = 0; round < 3 && s.has_time(); ++round) {
    std::size_t const choice = pick(s);
    if (round > 0 && choice != 0 && s.find(choice)->row.interleaved) break;
    std::vector<std::size_t> const list = finalists(s);
    if (list.size() < 2) break;
    if (!paired_comparison{s, list, searched}.run()) continue;  // without the size that failed
    refine.set_best_possible();
  }
  std::size_t const best = s.best();
  std::size_t const choice = pick(s);
  if (choice == 0 || choice == best) return;
  tune_row const& row = s.find(choice)->row;
  s.say("in turns: " + string_builder(choice) + " has " +
        format_percent(s.score(choice) / s.score(best)) + " (+- " + error_text(error_of(row)) +
        ") of the throughput of " + string_builder(best));
}

}  // namespace detail

WARPWRIGHT_END
