// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the steps of batch_tuner's search share: the table of sizes, the time, and how a size is run
// such that its failure does not end the search. Sizes are referred to by their number of items,
// never by a position in the table, which changes.
#pragma once

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/error/exception_kind.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/tune/detail/memory_model.hpp>
#include <warpwright/tune/detail/report/result_text.hpp>
#include <warpwright/tune/detail/search/search_settings.hpp>

#include <utility>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

struct candidate {
  tune_row row;
  std::size_t repeats = 1;    // calls in a sample
  double fastest_call = 0.0;  // of single calls
  double spread = 0.0;        // standard deviation of the samples, relative
  double failed_at = 0.0;     // when it failed last
  bool worked = false;        // before it failed
};

inline bool usable(candidate const& c) noexcept {
  return c.row.status == tune_status::ok && c.row.samples > 0;
}

// How uncertain a size's throughput is where it is compared with others: in turns, less than by
// itself.
inline double error_of(tune_row const& row) noexcept {
  return row.interleaved ? row.compared_error : row.relative_error;
}

class search_state {
 public:
  search_state(search_settings const& s, search_hooks const& h)
      : settings{s}, hooks{h}, clock_{s.clock} {}

  search_settings const& settings;
  search_hooks const& hooks;
  std::vector<candidate> candidates;   // ascending
  std::vector<memory_point> readings;  // that the model is fitted to
  memory_model model{};
  std::vector<std::string> steps;
  tune_times times{};
  std::size_t wave = 0;
  double waited = 0.0;         // for the end of disturbances, seconds
  double best_possible = 0.0;  // score of sizes that were not run, where it may be higher
  bool stopped_early = false;

  // How long another process may have the memory, or make the device slow.
  static constexpr double disturbed_seconds = 0.5;

  // -- The table --

  [[nodiscard]] candidate* find(std::size_t batch) {
    std::size_t const i = position(batch);
    return i < candidates.size() && candidates[i].row.batch == batch ? &candidates[i] : nullptr;
  }
  [[nodiscard]] candidate const* find(std::size_t batch) const {
    return const_cast<search_state*>(this)->find(batch);
  }
  // Adds a size unless it is there. References to other candidates become invalid.
  WARPWRIGHT_COLD candidate& at(std::size_t batch) {
    std::size_t const i = position(batch);
    if (i == candidates.size() || candidates[i].row.batch != batch) {
      candidate c;
      c.row.batch = batch;
      candidates.insert(candidates.begin() + static_cast<std::ptrdiff_t>(i), std::move(c));
    }
    return candidates[i];
  }
  void remove(std::size_t batch) {
    std::size_t const i = position(batch);
    candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i));
  }
  [[nodiscard]] bool is_ok(std::size_t batch) const {
    candidate const* const c = find(batch);
    return c != nullptr && usable(*c);
  }
  // The best usable size; 0: none.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t best() const {
    std::size_t batch = 0;
    double highest = 0.0;
    for (candidate const& c : candidates) {
      if (!usable(c)) continue;
      double const value = score(c.row);
      if (batch != 0 && !(value > highest)) continue;
      batch = c.row.batch;
      highest = value;
    }
    return batch;
  }
  [[nodiscard]] double score(std::size_t batch) const { return score(find(batch)->row); }
  [[nodiscard]] WARPWRIGHT_COLD double score(tune_row const& row) const {
    switch (settings.objective.goal()) {
      case tuning_goal::throughput:
        break;
      case tuning_goal::latency:
        return row.latency_median_seconds > 0.0 ? 1.0 / row.latency_median_seconds : 0.0;
      case tuning_goal::energy:
        return row.joules_per_item > 0.0 ? 1.0 / row.joules_per_item : 0.0;
      case tuning_goal::score:
        return settings.objective.score()(row);
    }
    return row.items_per_second;
  }
  // The standard deviation of a sample of so many calls, relative, as all sizes together tell:
  // seven samples of one size may be equal by chance.
  [[nodiscard]] WARPWRIGHT_COLD double typical_spread(std::size_t repeats) const {
    std::vector<double> of_calls;
    for (candidate const& c : candidates) {
      if (usable(c)) of_calls.push_back(c.spread * std::sqrt(static_cast<double>(c.repeats)));
    }
    if (of_calls.empty()) return 0.0;
    sort(of_calls.data(), of_calls.size());
    return of_calls[of_calls.size() / 2] / std::sqrt(static_cast<double>(repeats));
  }
  [[nodiscard]] bool for_throughput() const {
    return settings.objective.goal() == tuning_goal::throughput;
  }

  // Rounds down to a multiple within the range; both ends of the range are multiples.
  [[nodiscard]] std::size_t round(std::size_t batch) const {
    std::size_t const down = batch / settings.multiple * settings.multiple;
    if (down < settings.first) return settings.first;
    return down > settings.last ? settings.last : down;
  }
  [[nodiscard]] std::size_t round(double batch) const {
    if (!(batch < static_cast<double>(settings.last))) return settings.last;
    return round(batch > 0.0 ? static_cast<std::size_t>(batch) : std::size_t{0});
  }

  // Rounds up, within the range.
  [[nodiscard]] std::size_t round_up(double batch) const {
    std::size_t const down = round(batch);
    return static_cast<double>(down) < batch && down < settings.last ? down + settings.multiple
                                                                     : down;
  }

  void say(string_builder const& text) { steps.push_back(text.str()); }

  // -- Time --

  [[nodiscard]] double elapsed() const { return clock_.elapsed(); }
  // The share of the time that the steps up to now may use.
  void set_deadline(double share) { deadline_ = share * settings.max_seconds; }
  [[nodiscard]] double left() const {
    double const seconds = deadline_ - elapsed();
    return seconds > 0.0 ? seconds : 0.0;
  }
  // Whether there is time for a step that takes so many seconds.
  [[nodiscard]] WARPWRIGHT_COLD bool has_time(double seconds = 0.0) {
    if (settings.stop()) {
      stopped_early = true;
      return false;
    }
    if (elapsed() < deadline_ && elapsed() + seconds <= deadline_) return true;
    stopped_early = true;
    return false;
  }
  WARPWRIGHT_COLD void enter(tuning_phase phase) {
    double const now = elapsed();
    double* const all[] = {&times.bracketing, &times.refinement, &times.comparison, &times.latency,
                           &times.soak};
    *all[static_cast<int>(phase_)] += now - entered_;
    entered_ = now;
    phase_ = phase;
  }
  // The time of one batch of a size that may not have run, from the sizes next to it.
  [[nodiscard]] WARPWRIGHT_COLD double expected_seconds(std::size_t batch) const {
    double seconds = 0.0;
    for (candidate const& c : candidates) {
      double const known = c.row.seconds_per_batch > 0.0 ? c.row.seconds_per_batch : c.fastest_call;
      if (!(known > 0.0)) continue;
      double const ratio = static_cast<double>(batch) / static_cast<double>(c.row.batch);
      if (c.row.batch <= batch) {
        seconds = known * ratio;
      } else {
        return seconds > 0.0 && seconds < known ? seconds : known;
      }
    }
    return seconds;
  }

  WARPWRIGHT_COLD void report(std::size_t batch) const {
    if (!settings.progress) return;
    tuning_progress p;
    p.phase = phase_;
    p.batch = batch;
    p.best_batch = best();
    if (p.best_batch != 0) p.best_items_per_second = find(p.best_batch)->row.items_per_second;
    p.sizes = candidates.size();
    p.elapsed_seconds = elapsed();
    p.max_seconds = settings.max_seconds;
    settings.progress(p);
  }

  // -- Running --

  // Runs `body`, which calls the workload for sizes through run() and prepare(). Returns false if
  // it failed, with the status of the size that ran last. An exception that is no failure of a size
  // leaves this function. The handler is left before anything else runs, so that the memory which
  // an exception or an unwound frame holds is free again.
  WARPWRIGHT_COLD bool attempt(function_ref<void()> body) {
    std::exception_ptr error;
    refused_before_ = hooks.refusals();
    try {
      body();
      return true;
    } catch (...) {
      error = std::current_exception();
    }
    std::string note;
    tune_status const status = classify(error, note);
    error = nullptr;
    hooks.recover();
    hooks.trim();
    prepared_ = 0;
    fail(running_, status, note);
    return false;
  }

  // The same for one size, which is prepared before, and whose memory is read behind `body`.
  // @param first_call  whether it runs once before: libraries load code in their first call
  WARPWRIGHT_COLD bool attempt(std::size_t batch, bool first_call, function_ref<void()> body) {
    return attempt([&] {
      if (!prepare(batch)) return;
      if (first_call) run(batch, 1);
      body();
      read_memory(batch);
    });
  }

  WARPWRIGHT_COLD void fail(std::size_t batch, tune_status status, std::string const& note) {
    tune_row& row = at(batch).row;
    candidate& c = at(batch);
    c.worked = c.worked || usable(c);
    row.status = status;
    row.note = note;
    ++row.failures;
    c.failed_at = elapsed();
  }
  // Whether a failed size is tried again: once, and after half a second once more where memory was
  // short, as another process may have had it.
  [[nodiscard]] WARPWRIGHT_COLD bool may_retry(candidate const& c) const {
    if (c.row.status == tune_status::ok || c.row.status == tune_status::over_budget) return false;
    if (c.row.failures == 1) return true;
    return c.row.status == tune_status::out_of_memory && c.row.failures == 2 &&
           elapsed() - c.failed_at > disturbed_seconds;
  }

  // Makes a size ready to run. Returns false if its memory, which a preparation tells, is over the
  // budget.
  WARPWRIGHT_COLD bool prepare(std::size_t batch) {
    running_ = batch;
    hooks.reset_peak();
    std::size_t bytes = 0;
    bool const exact = hooks.prepare(batch, bytes);
    prepared_ = batch;
    if (exact) record_memory(batch, bytes, true);
    return at(batch).row.status == tune_status::ok;
  }
  [[nodiscard]] bool is_prepared(std::size_t batch) const { return prepared_ == batch; }

  WARPWRIGHT_COLD double run(std::size_t batch, std::size_t repeats) {
    running_ = batch;
    double const seconds = hooks.time_batches(batch, repeats);
    clock_.add(seconds);
    return seconds;
  }

  // -- Memory --

  // Reads the peak since prepare(): of every run, not only of the first. Returns whether the size
  // is within the budget.
  bool read_memory(std::size_t batch) {
    std::size_t bytes = 0;
    if (hooks.read_peak(bytes)) record_memory(batch, bytes);
    return at(batch).row.status == tune_status::ok;
  }

  // A reading is believed, whatever the model says.
  WARPWRIGHT_COLD void record_memory(std::size_t batch, std::size_t bytes, bool exact = false) {
    tune_row& row = at(batch).row;
    if (bytes > row.memory_bytes) row.memory_bytes = bytes;
    if (settings.has_budget && bytes > settings.budget_bytes &&
        row.status != tune_status::over_budget) {
      fail(batch, tune_status::over_budget, needs("needs ", static_cast<double>(bytes)));
    }
    // Before a size has run to the end, its reading may grow.
    bool const complete = exact || row.samples > 0 || row.status == tune_status::over_budget;
    if (complete && tells_more(batch, row.memory_bytes)) {
      add_reading(batch, row.memory_bytes);
      model = memory_model::fit(readings);
    }
  }
  [[nodiscard]] WARPWRIGHT_COLD string_builder needs(char const* verb, double bytes) const {
    return verb + format_bytes(bytes) + ", the budget is " +
           format_bytes(static_cast<double>(settings.budget_bytes));
  }

 private:
  [[nodiscard]] WARPWRIGHT_COLD std::size_t position(std::size_t batch) const {
    std::size_t i = 0;
    while (i < candidates.size() && batch > candidates[i].row.batch) ++i;
    return i;
  }

  // Whether the peak of a size is news to the model.
  [[nodiscard]] WARPWRIGHT_COLD bool tells_more(std::size_t batch, std::size_t peak) const {
    double const bytes = static_cast<double>(peak);
    bool above = bytes > model.predict(batch);
    for (memory_point const& r : readings) {
      if (r.batch != batch) continue;
      if (peak <= r.bytes) return false;
      above = true;
    }
    for (candidate const& c : candidates) {
      // A workload that keeps the memory of its largest batch: not this size's own need.
      double const others = static_cast<double>(c.row.memory_bytes);
      if (above && c.row.batch > batch && std::fabs(others - bytes) < 0.01 * bytes) return false;
    }
    return above || !model.knows(batch) || batch > model.largest_measured() ||
           bytes < 0.97 * model.estimate(batch);
  }
  WARPWRIGHT_COLD void add_reading(std::size_t batch, std::size_t bytes) {
    for (memory_point& r : readings) {
      if (r.batch != batch) continue;
      r.bytes = bytes;
      return;
    }
    // A fit of many points is slow, and the small ones tell the least.
    constexpr std::size_t most_points = 14;
    if (readings.size() >= most_points) readings.erase(readings.begin() + 1);
    readings.push_back(memory_point{batch, bytes});
  }

  // Rethrows what ends the tune.
  WARPWRIGHT_COLD tune_status classify(std::exception_ptr const& error, std::string& note) const {
    exception_kind const kind = kind_of(error);
    if (kind == exception_kind::device_lost) std::rethrow_exception(error);
    note = text_of(error);
    // A library may turn a refusal of the pool or of the device into a status, and that into an
    // exception of its own.
    if (kind == exception_kind::out_of_memory || hooks.refusals() != refused_before_ ||
        hooks.device_is_full() || (settings.is_out_of_memory && settings.is_out_of_memory(error))) {
      return tune_status::out_of_memory;
    }
    if (!settings.reject_exceptions) std::rethrow_exception(error);
    return tune_status::failed;
  }

  measuring_time clock_;
  double deadline_ = 0.0;
  double entered_ = 0.0;
  tuning_phase phase_ = tuning_phase::bracketing;
  std::size_t running_ = 0;
  std::size_t prepared_ = 0;
  std::size_t refused_before_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
