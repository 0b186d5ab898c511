// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The last steps of batch_tuner's search: the choice is shown to keep the limit of the latency,
// runs for a while, and is run again independently; where it fails, a smaller size takes its place.
#pragma once

#include <warpwright/tune/detail/search/latency_check_definitions.hpp>

WARPWRIGHT_BEGIN

namespace detail {

class final_choice {
 public:
  explicit final_choice(search_state& s)
      : s_{s}, limited_{s.settings.objective.latency_limited()}, check_{s} {}

  // Returns the choice; 0: none.
  // @param at_most  items
  WARPWRIGHT_COLD std::size_t run(std::size_t at_most) {
    for (int i = 0; i < most_candidates; ++i) {
      std::size_t batch = next(at_most);
      if (batch == 0) {
        if (!retry_others()) return 0;
        continue;
      }
      if (limited_ && !s_.find(batch)->row.latency_shown) {
        s_.enter(tuning_phase::latency);
        if (!show(batch)) continue;
        if (at_most >= s_.settings.last) batch = halve_gap(try_longer(batch));
      }
      s_.enter(tuning_phase::soak);
      if (batch != soaked_ && !soak(batch)) continue;
      soaked_ = batch;
      // What failed meanwhile has a second chance.
      if (!retried_) outlast_shortage(batch);
      bool const more = s_.is_ok(batch) && retry_others();
      if (!s_.is_ok(batch)) {
        soaked_ = 0;
      } else if (!more || next(at_most) == batch) {
        return batch;
      }
    }
    return 0;
  }

 private:
  static constexpr int most_descents = 4;
  static constexpr int most_candidates = 1000;  // each round fails one, or lowers slowest_

  // Says something about a size, and what its calls were.
  void say(char const* before, std::size_t batch, char const* behind) {
    s_.say(before + string_builder(batch) + behind +
           latency_note(s_, check_.count(), check_.over()));
  }
  // Whether a size is shown to keep the limit beside one that is.
  WARPWRIGHT_COLD bool show_as_well(std::size_t batch) {
    if (run_check(batch, 0.35) != latency_verdict::shown) return false;
    s_.at(batch).row.latency_shown = true;
    say("batch ", batch, " is shown to keep the limit as well: ");
    return true;
  }
  // Whether there is time for another check and confirmation of about so long calls.
  bool has_time_to_check(std::size_t batch) {
    double const calls = 4.2 * static_cast<double>(check_.fewest_calls());
    return calls * s_.find(batch)->row.latency_median_seconds <= 0.7 * s_.left();
  }

  std::size_t next(std::size_t at_most) {
    std::size_t const batch =
        at_most < s_.settings.last ? largest_up_to(at_most) : pick(s_, slowest_);
    return batch == 0 && not_shown_ != 0 ? smaller_than_refused() : batch;
  }

  // Another device or rank has less room: the largest size that it allows.
  WARPWRIGHT_COLD std::size_t largest_up_to(std::size_t at_most) {
    if (s_.find(at_most) == nullptr) evaluate(s_, at_most);
    std::size_t largest = 0;
    for (candidate const& c : s_.candidates) {
      if (usable(c) && c.row.batch <= at_most && c.row.latency_median_seconds <= slowest_) {
        largest = c.row.batch;
      }
    }
    return largest;
  }

  // No size is as fast as it should be, where a part of the time does not depend on the size. Yet
  // smaller ones may keep the limit: a quarter of the smallest that was not shown to, or less. The
  // last try is the smallest of all.
  WARPWRIGHT_COLD std::size_t smaller_than_refused() {
    if (++descents_ > most_descents) return 0;
    std::size_t const wanted = s_.round(not_shown_ / 4);
    if (wanted < not_shown_ && s_.find(wanted) == nullptr && has_time_for(s_, wanted)) {
      evaluate(s_, wanted);
    }
    std::size_t smaller = 0;
    for (candidate const& c : s_.candidates) {
      if (!usable(c) || c.row.batch >= not_shown_) continue;
      if (smaller == 0 || (c.row.batch <= wanted && descents_ < most_descents))
        smaller = c.row.batch;
    }
    return smaller;
  }

  void note_not_shown(std::size_t batch) {
    if (not_shown_ == 0 || batch < not_shown_) not_shown_ = batch;
  }

  // If memory ran out for sizes that had worked, the soak goes on until it may be there again.
  WARPWRIGHT_COLD void outlast_shortage(std::size_t batch) {
    double until = 0.0;
    for (candidate const& c : s_.candidates) {
      bool const short_of_memory = c.row.status == tune_status::out_of_memory && c.worked;
      if (short_of_memory && c.failed_at > until) until = c.failed_at;
    }
    if (until == 0.0) return;
    run_until(s_, batch, until + 1.01 * search_state::disturbed_seconds);
  }

  // Tries sizes again that ran out of memory, once. Returns whether one works now.
  WARPWRIGHT_COLD bool retry_others() {
    if (retried_) return false;
    bool any = false;
    for (candidate const& c : s_.candidates) {
      any = any || (s_.may_retry(c) && c.row.status != tune_status::over_latency);
    }
    if (!any) return false;
    retried_ = true;
    return retry_failed(s_) != 0;
  }

  // Runs the test of a size, and once more if a disturbance has refused it: another size is slow
  // too.
  WARPWRIGHT_COLD latency_verdict run_check(std::size_t batch, double share,
                                            std::size_t at_least = 0, double least_seconds = 0.0) {
    latency_verdict const verdict = check_.run(batch, share, at_least, least_seconds);
    if (verdict != latency_verdict::refused) return verdict;
    bool disturbed = false;
    outlast_disturbance(s_, batch, disturbed);
    if (!disturbed) return verdict;
    tune_row& row = s_.at(batch).row;
    row.status = tune_status::ok;
    row.note.clear();
    row.failures = 0;
    return check_.run(batch, share, at_least, least_seconds);
  }

  // Whether the calls of a size show that it keeps the limit. If not, a smaller one is in the
  // table.
  WARPWRIGHT_COLD bool show(std::size_t batch) {
    s_.report(batch);
    // The check and its confirmation must fit the time that is left.
    double const one = s_.find(batch)->row.latency_median_seconds;
    double const calls = 2.1 * static_cast<double>(check_.fewest_calls());
    if (one * calls > s_.left()) {
      too_slow(batch, 0.95 * s_.left() / calls);
      return false;
    }
    switch (run_check(batch, 0.35)) {
      case latency_verdict::shown:
        s_.at(batch).row.latency_shown = true;
        room_ = check_.room();
        say("batch ", batch, " is shown to keep the limit: ");
        return true;
      case latency_verdict::refused:
        say("batch ", batch, " is not shown to keep the limit: ");
        refused_ = batch > refused_ ? batch : refused_;
        note_not_shown(batch);
        try_shorter(batch, check_.share_to_try());
        return false;
      case latency_verdict::out_of_time:
        too_slow(batch, 0.5 * one);
        return false;
      case latency_verdict::failed:
        break;
    }
    return false;
  }

  WARPWRIGHT_COLD void too_slow(std::size_t batch, double slowest) {
    if (slowest < slowest_) slowest_ = slowest;
    s_.stopped_early = true;
    note_not_shown(batch);
    s_.say(
        "batch " + string_builder(batch) +
        " takes too long for the calls that would show its limit in the time left (max_seconds)");
    double const one = s_.find(batch)->row.latency_median_seconds;
    if (slowest_ > 0.0) try_shorter(batch, 0.98 * slowest_ / one);
  }

  // Puts the largest size into the table that takes a share of another one's time.
  WARPWRIGHT_COLD void try_shorter(std::size_t batch, double share) {
    if (!(share < 1.0)) share = 0.99;
    // Larger sizes take longer still.
    double const most = 1.01 * share * s_.find(batch)->row.latency_median_seconds;
    if (most < slowest_) slowest_ = most;
    double seconds = 0.0;
    for (curve_point const& p : all_times()) {
      if (p.batch == batch) seconds = share * p.seconds;
    }
    std::size_t const smaller = largest_within(seconds, batch);
    if (smaller != 0 && has_time_for(s_, smaller)) evaluate(s_, smaller);
  }

  // The largest size below another one that takes at most so long; 0: none.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t largest_within(double seconds,
                                                           std::size_t below) const {
    array<curve_point> const points = all_times();
    std::size_t largest = 0;
    for (std::size_t i = 0; i < points.size() && below > points[i].batch; ++i) {
      if (points[i].seconds > seconds) break;
      largest = points[i].batch;
      if (i + 1 == points.size() || !(points[i + 1].seconds > points[i].seconds)) continue;
      double const slope = static_cast<double>(points[i + 1].batch - points[i].batch) /
                           (points[i + 1].seconds - points[i].seconds);
      std::size_t const between =
          s_.round(static_cast<double>(largest) + slope * (seconds - points[i].seconds));
      if (between < points[i + 1].batch) largest = between;
    }
    return largest < below ? largest : 0;
  }

  // The times of single calls of all sizes that ran, failed or not, ascending by both.
  [[nodiscard]] WARPWRIGHT_COLD array<curve_point> all_times() const {
    array<curve_point> points;
    for (candidate const& c : s_.candidates) {
      double const seconds = c.row.latency_median_seconds;
      if (!(seconds > 0.0)) continue;
      double const before = points.empty() ? 0.0 : points.back().seconds;
      points.push_back(curve_point{c.row.batch, seconds > before ? seconds : before, 0.0});
    }
    return points;
  }

  // After a refusal the size was reduced by a guess: if its calls leave room, a larger one is
  // tried.
  WARPWRIGHT_COLD std::size_t try_longer(std::size_t batch) {
    if (!(slowest_ < HUGE_VAL)) return batch;
    double const one = s_.find(batch)->row.latency_median_seconds;
    if (!(room_ > 1.0) || !has_time_to_check(batch)) return batch;
    slowest_ = room_ * one;
    std::size_t const larger = largest_within(room_ * one, refused_);
    if (larger <= batch || !evaluate(s_, larger)) return batch;
    bool const worth = s_.score(larger) > s_.score(batch) * (1.0 + 0.2 * s_.settings.tolerance);
    return worth && show_as_well(larger) ? larger : batch;
  }

  // A size between two others: the middle, or where that is not allowed the next larger one that
  // works. 0: none.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t between(std::size_t below, std::size_t above) const {
    std::size_t const middle = s_.round(below + (above - below) / 2);
    if (s_.settings.allows(middle)) return middle > below && middle < above ? middle : 0;
    for (candidate const& c : s_.candidates) {
      if (usable(c) && c.row.batch > below) return above > c.row.batch ? c.row.batch : 0;
    }
    return 0;
  }

  // Halves the gap between a size that is shown to keep the limit and the smallest one above it
  // that is not, while the calls are affordable. Returns the largest size shown.
  WARPWRIGHT_COLD std::size_t halve_gap(std::size_t batch) {
    for (;;) {
      std::size_t above = 0;
      for (candidate const& c : s_.candidates) {
        if (c.row.batch <= batch || c.row.status != tune_status::over_latency) continue;
        above = c.row.batch;
        break;
      }
      // What the size above would gain bounds what is to be gained.
      bool const worth =
          above != 0 && s_.score(above) > s_.score(batch) * (1.0 + s_.settings.tolerance);
      if (!worth) return batch;
      if (!has_time_to_check(batch)) return batch;
      std::size_t const middle = between(batch, above);
      if (middle == 0) return batch;
      if (evaluate(s_, middle) && show_as_well(middle)) {
        batch = middle;
      } else if (s_.find(middle)->row.status != tune_status::over_latency) {
        return batch;
      }
    }
  }

  // The choice runs again, independently of what it was chosen by.
  WARPWRIGHT_COLD bool soak(std::size_t batch) {
    s_.report(batch);
    if (limited_) return confirm(batch);
    std::vector<double> latencies;
    double spent = 0.0;
    s_.attempt([&] {
      s_.hooks.trim();
      if (!s_.prepare(batch)) return;
      if (s_.hooks.prepares) s_.run(batch, 1);
      while (s_.has_time(s_.find(batch)->row.latency_median_seconds) &&
             (latencies.size() < s_.settings.soak_calls || spent < s_.settings.soak_seconds)) {
        latencies.push_back(s_.run(batch, 1));
        spent += latencies.back();
      }
      s_.read_memory(batch);
    });
    if (!s_.is_ok(batch)) {
      s_.say("soak: batch " + string_builder(batch) + " failed, " +
             to_string(s_.find(batch)->row.status));
      return false;
    }
    if (latencies.size() >= 5) set_latencies(s_, batch, latencies, 0);
    s_.say("soak: " + counted(latencies.size(), "call") + " of batch " + string_builder(batch));
    return true;
  }

  WARPWRIGHT_COLD bool confirm(std::size_t batch) {
    tune_row const before = s_.find(batch)->row;
    switch (run_check(batch, 0.6, s_.settings.soak_calls, s_.settings.soak_seconds)) {
      case latency_verdict::shown: {
        tune_row& row = s_.at(batch).row;
        say("confirmed in an independent run of batch ", batch, ": ");
        row.latency_samples += before.latency_samples;
        row.latency_over += before.latency_over;
        if (before.latency_p99_seconds > row.latency_p99_seconds) {
          row.latency_p99_seconds = before.latency_p99_seconds;
        }
        return true;
      }
      case latency_verdict::refused:
        say("batch ", batch, " is not confirmed: ");
        s_.at(batch).row.latency_shown = false;
        note_not_shown(batch);
        try_shorter(batch, check_.share_to_try());
        return false;
      case latency_verdict::out_of_time:
        too_slow(batch, 0.5 * before.latency_median_seconds);
        return false;
      case latency_verdict::failed:
        break;
    }
    return false;
  }

  search_state& s_;
  bool limited_;
  latency_check check_;
  double slowest_ = HUGE_VAL;  // a batch that takes longer cannot be checked in time
  double room_ = 1.0;          // of the size that was shown: how much longer one may take
  std::size_t refused_ = 0;    // the largest size, items
  std::size_t not_shown_ = 0;  // the smallest size that is not shown to keep the limit; 0: none
  int descents_ = 0;
  std::size_t soaked_ = 0;
  bool retried_ = false;
};

}  // namespace detail

WARPWRIGHT_END
