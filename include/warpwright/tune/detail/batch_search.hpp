// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The search of batch_tuner. It does not depend on the types of workload, probe and stopwatch, so
// it is compiled once, and tests run it with a simulated clock.
#pragma once

#include <warpwright/tune/detail/explain_choice.hpp>
#include <warpwright/tune/detail/search_settings.hpp>

#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

// Hooks is search_hooks. This is a template, so that a file which only includes the tuner does not
// compile the search.
template <typename Hooks>
class batch_search {
 public:
  batch_search(search_settings const& settings, Hooks const& hooks)
      : settings_{settings}, hooks_{hooks} {}

  tune_result run() {
    double_until_limit();
    refine_limit();
    refine_peak();
    refine_knee();
    std::size_t const chosen = choose();
    return finish(chosen);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct candidate {
    tune_row row;
    std::vector<double> latencies;
    std::vector<double> comparison_samples;
    std::size_t repeats = 1;
  };

  bool has_time_left() {
    if (spent_ < settings_.max_seconds) return true;
    timed_out_ = true;
    return false;
  }

  // Rounds down to a multiple within the range; both ends of the range are multiples.
  std::size_t round_to_multiple(std::size_t batch) const {
    std::size_t const down = batch / settings_.multiple * settings_.multiple;
    if (down < settings_.first) return settings_.first;
    return down > settings_.last ? settings_.last : down;
  }

  std::size_t resolution_at(std::size_t batch) const {
    double const step = settings_.resolution * static_cast<double>(batch);
    if (step >= static_cast<double>(settings_.last)) return settings_.last;
    auto const whole = static_cast<std::size_t>(step);
    return whole > settings_.multiple ? whole : settings_.multiple;
  }

  bool is_feasible(candidate const& c) const { return c.row.status == tune_status::ok; }

  double time_batches(candidate const& c, std::size_t repeats) {
    double const seconds = hooks_.time_batches(c.row.batch, repeats);
    spent_ += seconds;
    return seconds;
  }

  // Candidates are in ascending order of the batch size; evaluate() invalidates an index.
  std::size_t index_at_or_above(std::size_t batch) const {
    std::size_t i = 0;
    while (i < candidates_.size() && candidates_[i].row.batch < batch) ++i;
    return i;
  }

  // Measures a size unless that has been done. Returns whether the size is feasible.
  bool evaluate(std::size_t batch) {
    std::size_t const i = index_at_or_above(batch);
    if (i < candidates_.size() && candidates_[i].row.batch == batch) {
      return is_feasible(candidates_[i]);
    }
    candidate c;
    c.row.batch = batch;
    if (!reject_by_prediction(c)) {
      std::string note;
      if (ran_out_of_memory([&] { measure_size(c); }, note)) {
        discard_measurements(c);
        c.row.status = tune_status::out_of_memory;
        c.row.note = note;
        hooks_.recover();
      }
    }
    bool const result = is_feasible(c);
    candidates_.insert(candidates_.begin() + static_cast<std::ptrdiff_t>(i), std::move(c));
    return result;
  }

  bool reject_by_prediction(candidate& c) const {
    if (!settings_.has_budget || points_.size() < 2) return false;
    // A pessimistic guess would stop the search before it has the points for a model.
    double const bytes =
        model_.knows(c.row.batch) ? model_.predict(c.row.batch) : model_.estimate(c.row.batch);
    if (bytes <= static_cast<double>(settings_.budget_bytes)) return false;
    reject(c, static_cast<std::size_t>(bytes), true);
    return true;
  }

  void reject(candidate& c, std::size_t bytes, bool predicted) const {
    c.row.memory_bytes = bytes;
    c.row.memory_predicted = predicted;
    c.row.status = tune_status::over_budget;
    c.row.note = (predicted ? "predicted " : "needs ") + format_bytes(static_cast<double>(bytes)) +
                 " of " + format_bytes(static_cast<double>(settings_.budget_bytes));
  }

  static void discard_measurements(candidate& c) {
    std::size_t const batch = c.row.batch;
    c = candidate{};
    c.row.batch = batch;
  }

  void measure_size(candidate& c) {
    std::size_t bytes = 0;
    bool const known_before = hooks_.prepare(c.row.batch, bytes);
    if (known_before && over_budget(bytes)) {
      reject(c, bytes, false);
      return;
    }
    std::size_t ignored = 0;
    hooks_.read_memory(ignored);  // resets a probe that reports the peak since its last reading
    time_batches(c, 1);
    bool const known = known_before || hooks_.read_memory(bytes);
    if (known) record_memory(c, bytes);
    largest_run_ = c.row.batch > largest_run_ ? c.row.batch : largest_run_;
    if (c.row.status != tune_status::ok) return;

    measurement const m = take_samples(
        [&](std::size_t repeats) { return time_batches(c, repeats); }, settings_.sampling);
    c.repeats = m.calls_per_sample;
    set_throughput(c, m.summary);
    sample_latency(c, settings_.latency_calls);
    check_latency_limit(c);
  }

  bool over_budget(std::size_t bytes) const {
    return settings_.has_budget && bytes > settings_.budget_bytes;
  }

  // Records a reading of the memory. After a larger size has run, a probe may still report the
  // larger size's peak; the model's prediction is then more accurate.
  void record_memory(candidate& c, std::size_t bytes) {
    if (c.row.batch < largest_run_ && bytes >= largest_run_bytes_ && points_.size() >= 2) {
      c.row.memory_bytes = static_cast<std::size_t>(model_.estimate(c.row.batch));
      c.row.memory_predicted = true;
      return;
    }
    c.row.memory_bytes = bytes;
    if (c.row.batch > largest_run_) largest_run_bytes_ = bytes;
    points_.push_back(memory_point{c.row.batch, bytes});
    model_ = memory_model::fit(points_);
    if (over_budget(bytes)) reject(c, bytes, false);
  }

  static void set_throughput(candidate& c, sample_summary const& s) {
    c.row.seconds_per_batch = s.median_seconds;
    c.row.deviation_seconds = s.deviation_seconds;
    c.row.samples = s.count;
    c.row.items_per_second =
        s.median_seconds > 0.0 ? static_cast<double>(c.row.batch) / s.median_seconds : 0.0;
  }

  // Runs batches one at a time on an idle device: the latency of a single request.
  void sample_latency(candidate& c, std::size_t calls) {
    double elapsed = 0.0;
    for (std::size_t i = 0; i < calls; ++i) {
      // At least 10 samples, so that a slow workload has a tail as well.
      if (i >= 10 && elapsed >= settings_.sampling.max_seconds()) break;
      c.latencies.push_back(time_batches(c, 1));
      elapsed += c.latencies.back();
    }
    sample_summary const s = summarize(c.latencies);
    c.row.latency_median_seconds = s.median_seconds;
    c.row.latency_p99_seconds = s.p99_seconds;
    c.row.latency_samples = s.count;
  }

  bool over_limit(candidate const& c) const {
    return settings_.objective.latency_limited() &&
           c.row.latency_p99_seconds > settings_.objective.latency_limit_seconds();
  }

  void check_latency_limit(candidate& c) {
    // Sampled twice before the size is rejected: other load may have disturbed the first time.
    if (over_limit(c)) {
      c.latencies.clear();
      sample_latency(c, 2 * settings_.latency_calls);
    }
    if (over_limit(c)) {
      c.row.status = tune_status::over_latency;
      c.row.note = "p99 " + format_seconds(c.row.latency_p99_seconds) + " over " +
                   format_seconds(settings_.objective.latency_limit_seconds());
    }
  }

  // Doubles the size until a limit, the end of the range, or a plateau of the throughput.
  void double_until_limit() {
    double best = 0.0;
    std::size_t flat = 0;
    std::size_t batch = settings_.first;
    while (evaluate(batch)) {
      double const rate = candidates_.back().row.items_per_second;
      flat = rate > best * (1.0 + settings_.tolerance) ? 0 : flat + 1;
      if (rate > best) best = rate;
      bool const is_flat = settings_.flat_doublings > 0 && flat >= settings_.flat_doublings;
      if (batch == settings_.last || is_flat || !has_time_left()) return;
      batch = next_size(batch);
    }
  }

  std::size_t next_size(std::size_t batch) const {
    // One point does not determine the line yet. If twice its memory is over the budget, a small
    // step finds the slope; doubling could run a size that does not fit.
    if (settings_.has_budget && points_.size() == 1 &&
        points_[0].bytes > settings_.budget_bytes / 2) {
      std::size_t const step = batch / 8 + settings_.multiple;
      std::size_t const near = round_to_multiple(batch + step);
      return near > batch ? near : settings_.last;
    }
    return batch > settings_.last / 2 ? settings_.last : round_to_multiple(2 * batch);
  }

  std::size_t best_index() const {
    std::size_t best = none;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (is_feasible(candidates_[i]) &&
          (best == none ||
           candidates_[i].row.items_per_second > candidates_[best].row.items_per_second)) {
        best = i;
      }
    }
    return best;
  }

  bool near_best(candidate const& c, double best) const {
    return c.row.items_per_second >= best * (1.0 - settings_.tolerance);
  }

  // Bisects between the largest feasible size and the smallest infeasible one above it.
  void refine_limit() {
    std::size_t feasible = 0;
    std::size_t infeasible = 0;
    for (candidate const& c : candidates_) {
      if (is_feasible(c)) {
        feasible = c.row.batch;
        infeasible = 0;
      } else if (infeasible == 0) {
        infeasible = c.row.batch;
      }
    }
    if (feasible == 0 || infeasible == 0) return;
    std::size_t const best = best_index();
    double const rate = candidates_[best].row.items_per_second;
    if (!near_best(candidates_[index_at_or_above(feasible)], rate)) return;  // past the peak
    std::size_t predicted = largest_predicted_to_fit();
    while (infeasible - feasible > resolution_at(feasible) && has_time_left()) {
      std::size_t middle = round_to_multiple(feasible + (infeasible - feasible) / 2);
      if (predicted > feasible && predicted < infeasible) middle = predicted;
      predicted = 0;
      if (middle <= feasible || middle >= infeasible) return;
      (evaluate(middle) ? feasible : infeasible) = middle;
    }
  }

  std::size_t largest_predicted_to_fit() const {
    if (!settings_.has_budget) return 0;
    std::size_t const items = model_.largest_within(settings_.budget_bytes);
    return items < settings_.first ? 0 : round_to_multiple(items);
  }

  // Bisects the gaps on both sides of the best size while that finds a better size, or a drop of
  // more than 5 %, which noise does not explain: the peak may then be between the two.
  void refine_peak() {
    constexpr double drop = 0.95;
    for (bool repeat = true; repeat;) {
      repeat = false;
      std::size_t const i = best_index();
      if (i == none) return;
      std::size_t const batch = candidates_[i].row.batch;
      std::size_t const below = i > 0 ? candidates_[i - 1].row.batch : batch;
      std::size_t const above = i + 1 < candidates_.size() && is_feasible(candidates_[i + 1])
                                    ? candidates_[i + 1].row.batch
                                    : batch;
      for (std::size_t const other : {below, above}) {
        std::size_t const gap = other > batch ? other - batch : batch - other;
        if (gap <= resolution_at(batch) || !has_time_left()) continue;
        std::size_t const middle = round_to_multiple((other + batch) / 2);
        if (middle == batch || middle == other) continue;
        evaluate(middle);
        std::size_t const best = best_index();
        repeat = repeat || candidates_[best].row.batch != batch ||
                 candidates_[index_at_or_above(middle)].row.items_per_second <
                     drop * candidates_[best].row.items_per_second;
      }
    }
  }

  // Bisects for the smallest size within tolerance of the best: the knee of the throughput curve.
  void refine_knee() {
    std::size_t const best = best_index();
    if (best == none) return;
    double const rate = candidates_[best].row.items_per_second;
    std::size_t i = 0;
    while (!is_feasible(candidates_[i]) || !near_best(candidates_[i], rate)) ++i;
    if (i == 0) return;
    std::size_t near = candidates_[i].row.batch;
    std::size_t far = candidates_[i - 1].row.batch;
    while (near - far > resolution_at(far) && has_time_left()) {
      std::size_t const middle = round_to_multiple(far + (near - far) / 2);
      if (middle <= far || middle >= near) return;
      bool const is_near =
          evaluate(middle) && near_best(candidates_[index_at_or_above(middle)], rate);
      (is_near ? near : far) = middle;
    }
  }

  // The candidates for the final comparison: the best size, the smallest within tolerance of it,
  // the one below that, and two more above it. The latter are 20 % apart: noise of 0.5 % moves the
  // point where a saturating curve comes within tolerance of its maximum by about that much.
  array<std::size_t> finalists() const {
    array<std::size_t> list;
    std::size_t const best = best_index();
    if (best == none) return list;
    double const rate = candidates_[best].row.items_per_second;
    std::size_t previous = none;
    std::size_t taken = 0;
    double next = 0.0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (!is_feasible(candidates_[i])) continue;
      double const batch = static_cast<double>(candidates_[i].row.batch);
      bool const take = near_best(candidates_[i], rate) && taken < 3 && batch >= next;
      if (take && taken == 0 && previous != none) list.push_back(previous);
      if (take || i == best) list.push_back(i);
      if (take) {
        ++taken;
        next = 1.2 * batch;
      }
      previous = i;
    }
    return list;
  }

  // Compares finalists until the choice is stable. When a small size is rejected, others become
  // finalists, and the gap below the winner is searched again with the more precise figures.
  // Returns the index of the choice.
  std::size_t choose() {
    std::size_t chosen = compare_finalists();
    for (int round = 0; round < 5 && chosen != none && has_time_left(); ++round) {
      refine_knee();
      if (all_compared(finalists())) break;
      chosen = compare_finalists();
    }
    return chosen;
  }

  bool all_compared(array<std::size_t> const& list) const {
    for (std::size_t const i : list) {
      if (!candidates_[i].row.interleaved) return list.size() == 1;
    }
    return true;
  }

  // Measures the finalists interleaved, in the order A B C C B A, so that a drift of the GPU's
  // clock rate affects all of them equally. Returns the index of the winner.
  std::size_t compare_finalists() {
    for (;;) {
      array<std::size_t> const list = finalists();
      if (list.empty()) return none;
      for (std::size_t const i : list) candidates_[i].comparison_samples.clear();
      for (std::size_t round = 0; round < settings_.comparison_rounds && list.size() > 1; ++round) {
        if (round > 0 && !has_time_left()) break;
        for (std::size_t k = 0; k < list.size(); ++k) {
          sample_finalist(candidates_[list[round % 2 == 0 ? k : list.size() - 1 - k]]);
        }
      }
      bool any_rejected = false;
      for (std::size_t const i : list) any_rejected = !update(candidates_[i]) || any_rejected;
      if (!any_rejected) return winner(list);  // else other sizes become finalists
    }
  }

  // The smallest size within tolerance of the best, of all sizes that were compared.
  std::size_t winner(array<std::size_t> const& list) const {
    if (list.size() == 1) return list[0];
    double best = 0.0;
    for (candidate const& c : candidates_) {
      if (c.row.interleaved && is_feasible(c) && c.row.items_per_second > best) {
        best = c.row.items_per_second;
      }
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      candidate const& c = candidates_[i];
      if (c.row.interleaved && is_feasible(c) && near_best(c, best)) return i;
    }
    return list.back();
  }

  void sample_finalist(candidate& c) {
    if (!is_feasible(c)) return;
    std::string note;
    bool const failed = ran_out_of_memory(
        [&] {
          std::size_t bytes = 0;
          hooks_.prepare(c.row.batch, bytes);
          time_batches(c, 1);
          for (int i = 0; i < 5; ++i) {
            c.comparison_samples.push_back(time_batches(c, c.repeats) /
                                           static_cast<double>(c.repeats));
          }
          for (int i = 0; i < 5; ++i) c.latencies.push_back(time_batches(c, 1));
        },
        note);
    if (failed) mark_out_of_memory(c, note);
  }

  // Replaces the figures by those of the comparison; false if the size is not feasible any more.
  bool update(candidate& c) {
    if (!is_feasible(c)) return false;
    if (c.comparison_samples.empty()) return true;
    set_throughput(c, summarize(c.comparison_samples));
    c.row.interleaved = true;
    sample_summary const s = summarize(c.latencies);
    c.row.latency_median_seconds = s.median_seconds;
    c.row.latency_p99_seconds = s.p99_seconds;
    c.row.latency_samples = s.count;
    if (over_limit(c)) measure_latency_again(c);
    return is_feasible(c);
  }

  // Prepares the size again: another one has been prepared since it ran.
  void measure_latency_again(candidate& c) {
    std::string note;
    bool const failed = ran_out_of_memory(
        [&] {
          std::size_t bytes = 0;
          hooks_.prepare(c.row.batch, bytes);
          time_batches(c, 1);
          check_latency_limit(c);
        },
        note);
    if (failed) mark_out_of_memory(c, note);
  }

  void mark_out_of_memory(candidate& c, std::string const& note) {
    c.row.status = tune_status::out_of_memory;
    c.row.note = note;
    hooks_.recover();
  }

  tune_result finish(std::size_t chosen) {
    tune_result r;
    r.objective = settings_.objective;
    r.memory_budget_bytes = settings_.has_budget ? settings_.budget_bytes : 0;
    r.tolerance = settings_.tolerance;
    r.memory = model_;
    r.measured_seconds = spent_;
    r.chosen_index = chosen == none ? candidates_.size() : chosen;
    for (candidate& c : candidates_) r.rows.push_back(std::move(c.row));
    r.explanation = explain_choice(r, settings_, timed_out_);
    return r;
  }

  search_settings settings_;
  Hooks hooks_;
  std::vector<candidate> candidates_;
  std::vector<memory_point> points_;  // (batch, bytes), as measured
  memory_model model_{};
  std::size_t largest_run_ = 0;
  std::size_t largest_run_bytes_ = 0;
  double spent_ = 0.0;
  bool timed_out_ = false;
};

}  // namespace detail

WARPWRIGHT_END
