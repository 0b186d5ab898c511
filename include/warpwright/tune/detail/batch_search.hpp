// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The search of batch_tuner, apart from the types of workload, probe and stopwatch, so that it is
// compiled once and tested on a simulated clock.
#pragma once

#include <warpwright/tune/detail/memory_fit.hpp>
#include <warpwright/tune/detail/search_settings.hpp>

#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

// Hooks is search_hooks. A template, as are the functions that it needs, so that a file which only
// includes the tuner does not pay for compiling the search.
template <typename Hooks>
class batch_search {
 public:
  batch_search(search_settings const& settings, Hooks const& hooks)
      : settings_{settings}, hooks_{hooks} {}

  tune_result run() {
    bracket();
    refine_edge();
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
    std::vector<double> duel_samples;
    std::size_t repeats = 1;
  };

  bool in_time() {
    if (spent_ < settings_.max_seconds) return true;
    time_ran_out_ = true;
    return false;
  }

  // The nearest size of the lattice not above `batch`; first and last lie on it.
  std::size_t on_lattice(std::size_t batch) const {
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

  bool good(candidate const& c) const { return c.row.status == tune_status::ok; }

  double timed(candidate const& c, std::size_t repeats) {
    double const seconds = hooks_.timed(c.row.batch, repeats);
    spent_ += seconds;
    return seconds;
  }

  // Candidates are kept in ascending order; an index holds until the next visit.
  std::size_t index_at_or_above(std::size_t batch) const {
    std::size_t i = 0;
    while (i < candidates_.size() && candidates_[i].row.batch < batch) ++i;
    return i;
  }

  // Looks at a size, unless it was looked at before, and says whether it is good.
  bool visit(std::size_t batch) {
    std::size_t const i = index_at_or_above(batch);
    if (i < candidates_.size() && candidates_[i].row.batch == batch) return good(candidates_[i]);
    candidate c;
    c.row.batch = batch;
    if (!refuse_by_prediction(c)) {
      std::string note;
      if (ran_out_of_memory([&] { try_size(c); }, note)) {
        drop_measurements(c);
        c.row.status = tune_status::out_of_memory;
        c.row.note = note;
        hooks_.recover();
      }
    }
    bool const result = good(c);
    candidates_.insert(candidates_.begin() + static_cast<std::ptrdiff_t>(i), std::move(c));
    return result;
  }

  bool refuse_by_prediction(candidate& c) const {
    if (!settings_.has_budget || points_.size() < 2) return false;
    double const bytes = predict_memory(model_, c.row.batch);
    if (bytes <= static_cast<double>(settings_.budget_bytes)) return false;
    refuse(c, static_cast<std::size_t>(bytes), true);
    return true;
  }

  void refuse(candidate& c, std::size_t bytes, bool predicted) const {
    c.row.memory_bytes = bytes;
    c.row.memory_predicted = predicted;
    c.row.status = tune_status::over_budget;
    c.row.note = (predicted ? "predicted " : "needs ") + format_bytes(static_cast<double>(bytes)) +
                 " of " + format_bytes(static_cast<double>(settings_.budget_bytes));
  }

  static void drop_measurements(candidate& c) {
    std::size_t const batch = c.row.batch;
    c = candidate{};
    c.row.batch = batch;
  }

  void try_size(candidate& c) {
    std::size_t bytes = 0;
    bool const known_before = hooks_.prepare(c.row.batch, bytes);
    if (known_before && over_budget(bytes)) {
      refuse(c, bytes, false);
      return;
    }
    std::size_t dropped = 0;
    hooks_.read_memory(dropped);  // a probe that counts since its last reading starts here
    timed(c, 1);
    bool const known = known_before || hooks_.read_memory(bytes);
    if (known) note_memory(c, bytes);
    largest_run_ = c.row.batch > largest_run_ ? c.row.batch : largest_run_;
    if (c.row.status != tune_status::ok) return;

    measurement const m =
        take_samples([&](std::size_t repeats) { return timed(c, repeats); }, settings_.sampling);
    c.repeats = m.calls_per_sample;
    set_throughput(c, m.summary);
    sample_latency(c, settings_.latency_calls);
    judge_latency(c);
  }

  bool over_budget(std::size_t bytes) const {
    return settings_.has_budget && bytes > settings_.budget_bytes;
  }

  // Enters a reading. Below a size that ran before, a probe may still show that one's high water:
  // then the model's figure is the better one.
  void note_memory(candidate& c, std::size_t bytes) {
    if (c.row.batch < largest_run_ && bytes >= largest_run_bytes_ && points_.size() >= 2) {
      c.row.memory_bytes = static_cast<std::size_t>(predict_memory(model_, c.row.batch));
      c.row.memory_predicted = true;
      return;
    }
    c.row.memory_bytes = bytes;
    if (c.row.batch > largest_run_) largest_run_bytes_ = bytes;
    points_.push_back(memory_point{c.row.batch, bytes});
    model_ = fit_memory(points_);
    if (over_budget(bytes)) refuse(c, bytes, false);
  }

  static void set_throughput(candidate& c, sample_summary const& s) {
    c.row.seconds_per_batch = s.median_seconds;
    c.row.deviation_seconds = s.deviation_seconds;
    c.row.samples = s.count;
    c.row.items_per_second =
        s.median_seconds > 0.0 ? static_cast<double>(c.row.batch) / s.median_seconds : 0.0;
  }

  // Batches one at a time, the device idle before each: what a caller waits for.
  void sample_latency(candidate& c, std::size_t calls) {
    double used = 0.0;
    for (std::size_t i = 0; i < calls; ++i) {
      // Ten at least, so that a slow workload has a tail at all.
      if (i >= 10 && used >= settings_.sampling.max_seconds()) break;
      c.latencies.push_back(timed(c, 1));
      used += c.latencies.back();
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

  void judge_latency(candidate& c) {
    // The machine may have been disturbed for a while: what is over the limit must be so twice.
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

  // Doubles until a limit, the end of the range, or no more gain.
  void bracket() {
    double best = 0.0;
    std::size_t flat = 0;
    std::size_t batch = settings_.first;
    while (visit(batch)) {
      double const rate = candidates_.back().row.items_per_second;
      flat = rate > best * (1.0 + settings_.tolerance) ? 0 : flat + 1;
      if (rate > best) best = rate;
      bool const is_flat = settings_.flat_doublings > 0 && flat >= settings_.flat_doublings;
      if (batch == settings_.last || is_flat || !in_time()) return;
      batch = next_size(batch);
    }
  }

  std::size_t next_size(std::size_t batch) const {
    // With one size measured there is no line yet. If twice its memory is over the budget, a small
    // step finds the slope; doubling blindly could run what cannot fit.
    if (settings_.has_budget && points_.size() == 1 &&
        points_[0].bytes > settings_.budget_bytes / 2) {
      std::size_t const step = batch / 8 + settings_.multiple;
      std::size_t const near = on_lattice(batch + step);
      return near > batch ? near : settings_.last;
    }
    return batch > settings_.last / 2 ? settings_.last : on_lattice(2 * batch);
  }

  std::size_t best_index() const {
    std::size_t best = none;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (good(candidates_[i]) && (best == none || candidates_[i].row.items_per_second >
                                                       candidates_[best].row.items_per_second)) {
        best = i;
      }
    }
    return best;
  }

  bool near_best(candidate const& c, double best) const {
    return c.row.items_per_second >= best * (1.0 - settings_.tolerance);
  }

  // Between the largest good size and the smallest bad one above it.
  void refine_edge() {
    std::size_t good_size = 0;
    std::size_t bad_size = 0;
    for (candidate const& c : candidates_) {
      if (good(c)) {
        good_size = c.row.batch;
        bad_size = 0;
      } else if (bad_size == 0) {
        bad_size = c.row.batch;
      }
    }
    if (good_size == 0 || bad_size == 0) return;
    std::size_t const best = best_index();
    double const rate = candidates_[best].row.items_per_second;
    if (!near_best(candidates_[index_at_or_above(good_size)], rate)) return;  // past the peak
    std::size_t predicted = largest_predicted_to_fit();
    while (bad_size - good_size > resolution_at(good_size) && in_time()) {
      std::size_t middle = on_lattice(good_size + (bad_size - good_size) / 2);
      if (predicted > good_size && predicted < bad_size) middle = predicted;
      predicted = 0;
      if (middle <= good_size || middle >= bad_size) return;
      (visit(middle) ? good_size : bad_size) = middle;
    }
  }

  std::size_t largest_predicted_to_fit() const {
    if (!settings_.has_budget || points_.size() < 2 || !(model_.bytes_per_item > 0.0)) return 0;
    double const room =
        static_cast<double>(settings_.budget_bytes) - model_.base_bytes - model_.margin_bytes;
    double const items = room / model_.bytes_per_item;
    if (!(items >= static_cast<double>(settings_.first))) return 0;
    if (items >= static_cast<double>(settings_.last)) return settings_.last;
    return on_lattice(static_cast<std::size_t>(items));
  }

  // Halves the gaps on both sides of the best size while that finds a better one, or a fall that is
  // too deep for noise: the peak may then lie in front of it.
  void refine_peak() {
    constexpr double fall = 0.95;
    for (bool go_on = true; go_on;) {
      go_on = false;
      std::size_t const i = best_index();
      if (i == none) return;
      std::size_t const batch = candidates_[i].row.batch;
      std::size_t const below = i > 0 ? candidates_[i - 1].row.batch : batch;
      std::size_t const above = i + 1 < candidates_.size() && good(candidates_[i + 1])
                                    ? candidates_[i + 1].row.batch
                                    : batch;
      for (std::size_t const other : {below, above}) {
        std::size_t const gap = other > batch ? other - batch : batch - other;
        if (gap <= resolution_at(batch) || !in_time()) continue;
        std::size_t const middle = on_lattice((other + batch) / 2);
        if (middle == batch || middle == other) continue;
        visit(middle);
        std::size_t const best = best_index();
        go_on = go_on || candidates_[best].row.batch != batch ||
                candidates_[index_at_or_above(middle)].row.items_per_second <
                    fall * candidates_[best].row.items_per_second;
      }
    }
  }

  // Bisects for the smallest size that is still near the best.
  void refine_knee() {
    std::size_t const best = best_index();
    if (best == none) return;
    double const rate = candidates_[best].row.items_per_second;
    std::size_t i = 0;
    while (!good(candidates_[i]) || !near_best(candidates_[i], rate)) ++i;
    if (i == 0) return;
    std::size_t near = candidates_[i].row.batch;
    std::size_t far = candidates_[i - 1].row.batch;
    while (near - far > resolution_at(far) && in_time()) {
      std::size_t const middle = on_lattice(far + (near - far) / 2);
      if (middle <= far || middle >= near) return;
      bool const is_near = visit(middle) && near_best(candidates_[index_at_or_above(middle)], rate);
      (is_near ? near : far) = middle;
    }
  }

  // The sizes that the choice is between: the best, the smallest near it, the one below that, and
  // two more above it. Those are a fifth apart: noise of half a percent moves the place where a
  // saturating curve comes near its best by about that.
  array<std::size_t> finalists() const {
    array<std::size_t> list;
    std::size_t const best = best_index();
    if (best == none) return list;
    double const rate = candidates_[best].row.items_per_second;
    std::size_t before = none;
    std::size_t taken = 0;
    double next = 0.0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (!good(candidates_[i])) continue;
      double const batch = static_cast<double>(candidates_[i].row.batch);
      bool const take = near_best(candidates_[i], rate) && taken < 3 && batch >= next;
      if (take && taken == 0 && before != none) list.push_back(before);
      if (take || i == best) list.push_back(i);
      if (take) {
        ++taken;
        next = 1.2 * batch;
      }
      before = i;
    }
    return list;
  }

  // Duels until the choice stands: where small sizes lost, others move up that have not been
  // compared yet, and the gap below the winner is searched with the better figures. Returns the
  // index of the choice.
  std::size_t choose() {
    std::size_t chosen = duel();
    for (int round = 0; round < 5 && chosen != none && in_time(); ++round) {
      refine_knee();
      if (all_compared(finalists())) break;
      chosen = duel();
    }
    return chosen;
  }

  bool all_compared(array<std::size_t> const& list) const {
    for (std::size_t const i : list) {
      if (!candidates_[i].row.duelled) return list.size() == 1;
    }
    return true;
  }

  // Measures the finalists in turns, there and back (A B C C B A), so that a drift of the clocks
  // hits all of them alike. Returns the index of the winner.
  std::size_t duel() {
    for (;;) {
      array<std::size_t> const list = finalists();
      if (list.empty()) return none;
      for (std::size_t const i : list) candidates_[i].duel_samples.clear();
      for (std::size_t round = 0; round < settings_.duel_rounds && list.size() > 1; ++round) {
        if (round > 0 && !in_time()) break;
        for (std::size_t k = 0; k < list.size(); ++k) {
          duel_turn(candidates_[list[round % 2 == 0 ? k : list.size() - 1 - k]]);
        }
      }
      bool lost_one = false;
      for (std::size_t const i : list) lost_one = !settle(candidates_[i]) || lost_one;
      if (!lost_one) return winner(list);  // else others move up
    }
  }

  // The smallest size near the best, of all that ever duelled.
  std::size_t winner(array<std::size_t> const& list) const {
    if (list.size() == 1) return list[0];
    double best = 0.0;
    for (candidate const& c : candidates_) {
      if (c.row.duelled && good(c) && c.row.items_per_second > best) best = c.row.items_per_second;
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      candidate const& c = candidates_[i];
      if (c.row.duelled && good(c) && near_best(c, best)) return i;
    }
    return list.back();
  }

  void duel_turn(candidate& c) {
    if (!good(c)) return;
    std::string note;
    bool const failed = ran_out_of_memory(
        [&] {
          std::size_t bytes = 0;
          hooks_.prepare(c.row.batch, bytes);
          timed(c, 1);
          for (int i = 0; i < 5; ++i) {
            c.duel_samples.push_back(timed(c, c.repeats) / static_cast<double>(c.repeats));
          }
          for (int i = 0; i < 5; ++i) c.latencies.push_back(timed(c, 1));
        },
        note);
    if (failed) give_up(c, note);
  }

  // Takes over what the duel measured; false if the size is no longer good.
  bool settle(candidate& c) {
    if (!good(c)) return false;
    if (c.duel_samples.empty()) return true;
    set_throughput(c, summarize(c.duel_samples));
    c.row.duelled = true;
    sample_summary const s = summarize(c.latencies);
    c.row.latency_median_seconds = s.median_seconds;
    c.row.latency_p99_seconds = s.p99_seconds;
    c.row.latency_samples = s.count;
    if (over_limit(c)) look_again(c);
    return good(c);
  }

  // Another size has been prepared since this one ran last.
  void look_again(candidate& c) {
    std::string note;
    bool const failed = ran_out_of_memory(
        [&] {
          std::size_t bytes = 0;
          hooks_.prepare(c.row.batch, bytes);
          timed(c, 1);
          judge_latency(c);
        },
        note);
    if (failed) give_up(c, note);
  }

  void give_up(candidate& c, std::string const& note) {
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
    r.why = explain_choice(r);
    return r;
  }

  string_builder explain_choice(tune_result const& r) const {
    if (r.chosen_index >= r.rows.size()) {
      string_builder text = "no size from " + string_builder(settings_.first) + " to " +
                            string_builder(settings_.last) + " fits";
      if (!r.rows.empty()) {
        tune_row const& smallest = r.rows.front();
        text += ": the smallest, " + string_builder(smallest.batch) + ", is " +
                to_string(smallest.status);
        if (!smallest.note.empty()) text += " (" + smallest.note + ")";
      }
      return text;
    }
    tune_row const& choice = r.rows[r.chosen_index];
    tune_row const* best = &choice;
    for (tune_row const& row : r.rows) {
      if (row.status == tune_status::ok && row.duelled == choice.duelled &&
          row.items_per_second > best->items_per_second) {
        best = &row;
      }
    }
    string_builder text = "batch " + string_builder(choice.batch) + ": " +
                          format_rate(choice.items_per_second) + " items/s, ";
    if (best == &choice) {
      text += "the best of the sizes tried";
    } else {
      text += "the smallest of the sizes compared in turns that is within " +
              format_percent(settings_.tolerance) + " of the best (batch " +
              string_builder(best->batch) + ": " + format_rate(best->items_per_second) +
              " items/s)";
    }
    if (settings_.objective.latency_limited()) {
      text += "; p99 " + format_seconds(choice.latency_p99_seconds) + " within the limit of " +
              format_seconds(settings_.objective.latency_limit_seconds());
    }
    if (settings_.has_budget && choice.memory_bytes > 0) {
      text += "; memory " + format_bytes(static_cast<double>(choice.memory_bytes)) +
              " of the budget of " + format_bytes(static_cast<double>(settings_.budget_bytes));
    }
    for (tune_row const& row : r.rows) {
      if (row.batch > choice.batch && row.status != tune_status::ok) {
        text += "; the next size above that fails is " + string_builder(row.batch) + ", " +
                to_string(row.status);
        if (row.status != tune_status::out_of_memory) text += " (" + row.note + ")";
        break;
      }
    }
    if (time_ran_out_) text += "; the time for tuning ran out before the search was done";
    return text;
  }

  search_settings settings_;
  Hooks hooks_;
  std::vector<candidate> candidates_;
  array<memory_point> points_;  // (batch, bytes), as measured
  memory_model model_{};
  std::size_t largest_run_ = 0;
  std::size_t largest_run_bytes_ = 0;
  double spent_ = 0.0;
  bool time_ran_out_ = false;
};

}  // namespace detail

WARPWRIGHT_END
