// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Sizes between the doubled ones: the best of all, and the smallest that is nearly as good.
//
// A larger batch takes no less time. So between two sizes the throughput is below that of the
// larger size in the time of the smaller one: a gap in which this is no better than the best so
// far, or whose ends lie on one line with their neighbours, holds nothing better, and the others
// are halved, the most promising first.
#pragma once

#include <warpwright/tune/detail/search/wave_search_definitions.hpp>

WARPWRIGHT_BEGIN

namespace detail {

struct size_gap {
  std::size_t low = 0;  // usable
  std::size_t high = 0;
  double potential = 0.0;  // the most items per second in it
};

class refiner {
 public:
  explicit refiner(search_state& s) : s_{s} {}

  // Finds the best size.
  WARPWRIGHT_COLD void find_best() {
    if (!s_.for_throughput()) {
      climb();
      return;
    }
    steps_.find(s_);
    if (steps_) {
      s_.say("the time grows in steps of " + format_number("%.6g", steps_.items()) + " items");
      steps_.try_ends(s_);
    }
    s_.wave = static_cast<std::size_t>(steps_.items());
    search_gaps();
    if (retry_refused()) search_gaps();
    if (!steps_) look_below_best();
  }

  // Sets what the best size may have been, where sizes were not run that may be better: the
  // tolerance is of that.
  WARPWRIGHT_COLD void set_best_possible() {
    s_.best_possible = 0.0;
    std::size_t const best = s_.best();
    if (best == 0) return;
    double const score = s_.score(best);
    s_.best_possible = score;
    if (!s_.for_throughput() || s_.settings.only_preferred) return;
    double const most = score * (1.0 + 0.5 * s_.settings.tolerance);
    // What is left of the gaps, or the top of a curve between two sizes.
    if (!steps_) {
      double const possible = most_promising(0.0).potential;
      if (possible > score) s_.best_possible = possible < most ? possible : most;
      double const rough = score * (1.0 + roughness_);
      if (rough > s_.best_possible) s_.best_possible = rough < most ? rough : most;
    }
    array<curve_point> const points = curve(s_);
    if (points.size() < 2 || points.back().batch != best) return;
    // The line goes on, up to the end of the range or to the size that fails.
    std::size_t const above = next_in_table(best);
    std::size_t top = above == 0 ? s_.settings.last : above - s_.settings.multiple;
    if (above != 0 && s_.find(above)->row.status == tune_status::over_budget) {
      if (s_.model.estimate(top) > static_cast<double>(s_.settings.budget_bytes)) top = best;
      top += s_.settings.multiple;  // the memory is not known to the item
    }
    double possible = above == 0 ? score : score * (1.0 + 0.1 * s_.settings.tolerance);
    if (top > best) {
      double const seconds = line_at(points[points.size() - 2], points.back(), number(top));
      double const there = seconds > points.back().seconds ? number(top) / seconds : 0.0;
      if (there > possible) possible = there;
    }
    if (possible > score) s_.best_possible = possible < most ? possible : most;
  }

  // Finds the smallest size within the tolerance of the best.
  WARPWRIGHT_COLD void find_smallest() {
    set_best_possible();
    if (s_.settings.only_preferred) return;
    for (int i = 0; i < most_knee_sizes; ++i) {
      std::size_t const batch = smaller_candidate();
      if (batch == 0 || !has_time_for(s_, batch)) return;
      evaluate(s_, batch);
    }
  }

 private:
  static constexpr int most_sizes = 24;
  static constexpr int most_knee_sizes = 12;

  WARPWRIGHT_COLD void search_gaps() {
    for (int i = 0; i < most_sizes; ++i) {
      size_gap const gap = most_promising(s_.settings.resolution);
      if (gap.high == 0) return;
      std::size_t const batch = point_in(gap);
      if (batch == 0) {
        closed_.push_back(gap);
        --i;
        continue;
      }
      if (!has_time_for(s_, batch)) return;
      evaluate(s_, batch);
    }
  }

  // A disturbance may have refused sizes that are fast enough: those that took far longer than in
  // proportion to the best one are tried again, in ascending order, until one is still too slow.
  // Returns whether any works now.
  WARPWRIGHT_COLD bool retry_refused() {
    std::size_t const best = s_.best();
    if (best == 0 || !s_.settings.objective.latency_limited()) return false;
    double const one = s_.find(best)->row.latency_median_seconds / number(best);
    std::vector<std::size_t> doubtful;
    for (candidate const& c : s_.candidates) {
      bool const refused = c.row.status == tune_status::over_latency && c.row.failures == 1;
      if (c.row.batch > best && refused &&
          c.row.latency_median_seconds > 1.4 * one * number(c.row.batch)) {
        doubtful.push_back(c.row.batch);
      }
    }
    if (doubtful.empty()) return false;
    bool disturbed = false;
    outlast_disturbance(s_, 0, disturbed);
    bool any = false;
    for (std::size_t const batch : doubtful) {
      if (!has_time_for(s_, batch) || !retry_size(s_, batch)) break;
      any = true;
    }
    return any;
  }

  // Steps that are small beside a fixed time do not show between doubled sizes, yet the best one
  // may be the first of a step: sizes a little below it tell, and then the end of the step below.
  // Where none of them is better, but times are not on a line, other sizes may be better by as
  // much.
  WARPWRIGHT_COLD void look_below_best() {
    std::size_t const best = s_.best();
    // A coarse search does not ask for it.
    if (best == 0 || s_.settings.resolution > 0.5 * s_.settings.tolerance) return;
    array<curve_point> const points = curve(s_);
    std::size_t at = points.size();
    while (at > 0 && points[at - 1].batch != best) --at;
    for (double const share : {0.985, 0.96, 0.91}) {
      std::size_t const batch = s_.round(share * number(best));
      if (batch >= best || s_.find(batch) != nullptr || !has_time_for(s_, batch)) continue;
      if (!evaluate(s_, batch)) continue;
      double const noise = error_of(s_.find(batch)->row) + error_of(s_.find(best)->row);
      double const gain = 0.1 * s_.settings.tolerance + noise;
      if (s_.score(batch) >= s_.score(best) * (1.0 + gain)) {
        end_of_step(s_, batch, best);
        return;
      }
      if (at < 2) continue;
      double const line = line_at(points[at - 2], points[at - 1], number(batch));
      double const off = std::fabs(s_.find(batch)->row.seconds_per_batch / line - 1.0) - noise;
      if (off > roughness_) roughness_ = off;
    }
  }

  [[nodiscard]] static double number(std::size_t batch) { return static_cast<double>(batch); }

  [[nodiscard]] WARPWRIGHT_COLD bool is_closed(std::size_t low, std::size_t high) const {
    for (size_gap const& g : closed_) {
      if (g.low == low && g.high == high) return true;
    }
    return high - low <= s_.settings.multiple;
  }

  // The smallest size in the table above `batch`; 0: none.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t next_in_table(std::size_t batch) const {
    for (candidate const& c : s_.candidates) {
      if (c.row.batch > batch) return c.row.batch;
    }
    return 0;
  }

  // The gap that may hold the best size; its high is 0 if none is worth a run.
  // @param gain  the least gain that is worth one, as a fraction
  [[nodiscard]] WARPWRIGHT_COLD size_gap most_promising(double gain) const {
    array<curve_point> const points = curve(s_);
    std::size_t const best = s_.best();
    size_gap most;
    if (best == 0) return most;
    double const worthwhile = s_.score(best) * (1.0 + gain);
    for (std::size_t i = 0; i < points.size(); ++i) {
      std::size_t const low = points[i].batch;
      std::size_t const high = next_in_table(low);
      if (high == 0 || is_closed(low, high)) continue;
      double const top = number(high - s_.settings.multiple);
      double potential = top / points[i].seconds;
      bool const up_to_usable = i + 1 < points.size() && points[i + 1].batch == high;
      double const at_step = steps_ ? best_end(low, high) : 0.0;
      if (at_step > 0.0) {
        if (at_step < potential) potential = at_step;
      } else if (is_smooth(points, i)) {
        if (up_to_usable) {
          if (low != best && high != best) continue;
          if (number(high) <= 1.6 * number(low)) potential = top_of_lines(points, i);
        } else {
          // Up to a size that fails: the line goes on.
          double const seconds = line_at(points[i - 1], points[i], top);
          if (seconds > points[i].seconds) potential = top / seconds;
        }
      }
      if (potential > worthwhile && potential > most.potential) most = {low, high, potential};
    }
    return most;
  }

  // The throughput to expect of the last step that ends in a gap; 0: not known.
  [[nodiscard]] double best_end(std::size_t low, std::size_t high) const {
    std::size_t const k = steps_.last_before(s_, high);
    return k >= 1 && steps_.end(s_, k) > low ? steps_.rate(s_, k) : 0.0;
  }

  // The highest throughput between two points of a convex curve: where the lines through the two
  // points below and the two above meet.
  [[nodiscard]] WARPWRIGHT_COLD static double top_of_lines(array<curve_point> const& points,
                                                           std::size_t i) {
    if (i == 0 || i + 2 >= points.size()) return 0.0;
    curve_point const& p = points[i];
    curve_point const& q = points[i + 1];
    double const x = number(p.batch);
    double const left = (p.seconds - points[i - 1].seconds) / (x - number(points[i - 1].batch));
    double const right =
        (points[i + 2].seconds - q.seconds) / (number(points[i + 2].batch) - number(q.batch));
    if (!(right > left)) return 0.0;
    double const meet =
        (p.seconds - left * x - q.seconds + right * number(q.batch)) / (right - left);
    if (!(meet > x && meet < number(q.batch))) return 0.0;
    double const seconds = p.seconds + left * (meet - x);
    return seconds > 0.0 ? meet / seconds : 0.0;
  }

  [[nodiscard]] bool is_smooth(array<curve_point> const& points, std::size_t i) const {
    if (i == 0) return false;
    return is_on_line(points, i) && (i + 1 == points.size() || is_on_line(points, i + 1));
  }

  // The size to run in a gap; 0: none is left.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t point_in(size_gap const& gap) const {
    candidate const* const high = s_.find(gap.high);
    bool const works = usable(*high);
    std::size_t batch = s_.round(gap.low + (gap.high - gap.low) / 2);
    if (!works && high->row.status == tune_status::over_budget) {
      std::size_t const fits = largest_fitting(s_);
      if (fits > gap.low && fits < gap.high) {
        batch = fits;
      } else if (s_.model.knows(gap.low + s_.settings.multiple)) {
        return 0;  // the rest is predicted to be over the budget
      }
    }
    if (steps_) {
      // Only the ends of steps; the last one below a usable size, the middle one below another.
      std::size_t const from = steps_.first_after(s_, gap.low);
      std::size_t const to = steps_.last_before(s_, gap.high);
      if (from > to) return 0;
      batch = steps_.end(s_, works ? to : from + (to - from + 1) / 2);
    }
    return batch > gap.low && batch < gap.high ? batch : 0;
  }

  // A size below all that are within the tolerance of the best, but that may be so as well; 0:
  // none.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t smaller_candidate() const {
    std::size_t const best = s_.best();
    if (best == 0) return 0;
    // A little more where there is noise, so that it can be shown.
    double const noise = 0.5 * error_of(s_.find(best)->row);
    double const third = s_.settings.tolerance / 3.0;
    double const enough =
        s_.best_possible * (1.0 - s_.settings.tolerance) * (1.0 + (noise < third ? noise : third));
    std::size_t high = best;
    for (candidate const& c : s_.candidates) {
      if (usable(c) && s_.score(c.row) >= enough) {
        high = c.row.batch;
        break;
      }
    }
    if (!s_.for_throughput()) return 0;
    array<curve_point> const points = curve(s_);
    for (std::size_t i = 0; i + 1 < points.size() && high > points[i].batch; ++i) {
      std::size_t const low = points[i].batch;
      std::size_t const above = next_in_table(low);
      if (points[i + 1].batch != above || is_closed(low, above)) continue;
      // Smaller sizes of the gap would have to be faster than its low end.
      double const least = enough * points[i].seconds;
      if (least >= number(above)) continue;
      std::size_t from = static_cast<std::size_t>(least);
      if (from < low) from = low;
      double const width = number(above - from) / number(above);
      if (!steps_ && width <= knee_width * s_.settings.resolution) continue;
      std::size_t batch = s_.round(from + (above - from) / 2);
      if (steps_) {
        batch = steps_.end(s_, steps_.first_after(s_, from));
      } else if (is_smooth(points, i)) {
        batch = s_.round_up(crossing(points[i], points[i + 1], enough));
      }
      if (batch > low && batch < above) return batch;
    }
    return 0;
  }

  // Where the line between two points reaches a throughput.
  [[nodiscard]] WARPWRIGHT_COLD static double crossing(curve_point const& p, curve_point const& q,
                                                       double rate) {
    double const slope = (q.seconds - p.seconds) / (number(q.batch) - number(p.batch));
    double const fixed = p.seconds - slope * number(p.batch);
    double const share = 1.0 - slope * rate;
    double const batch = share > 0.0 ? rate * fixed / share : number(q.batch);
    return batch * (1.0 - 1e-12);
  }

  // For other goals than throughput: halves the gaps beside the best size while that helps.
  WARPWRIGHT_COLD void climb() {
    for (int i = 0; i < 10; ++i) {
      std::size_t const best = s_.best();
      if (best == 0) return;
      std::size_t below = 0;
      for (candidate const& c : s_.candidates) {
        if (best > c.row.batch) below = c.row.batch;
      }
      bool better = false;
      for (std::size_t const other : {below, next_in_table(best)}) {
        if (other == 0) continue;
        std::size_t const middle =
            s_.round(best < other ? best + (other - best) / 2 : other + (best - other) / 2);
        double const gap = std::fabs(number(other) / number(best) - 1.0);
        if (middle == best || middle == other || gap < 0.1 || s_.find(middle) != nullptr) continue;
        if (!has_time_for(s_, middle)) return;
        evaluate(s_, middle);
        better = better || s_.best() == middle;
      }
      if (!better) return;
    }
  }

  // How close to the smallest size the search goes, in resolutions.
  static constexpr double knee_width = 10.0;

  search_state& s_;
  time_steps steps_;
  array<size_gap> closed_;
  double roughness_ = 0.0;  // how far times near the best size are from a line, beyond noise
};

}  // namespace detail

WARPWRIGHT_END
