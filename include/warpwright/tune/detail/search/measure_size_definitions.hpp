// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs one size of batch_tuner's search: its memory, a few single calls, its throughput. Which
// sizes may run under a memory budget, and how fast they grow until the model of the memory knows.
#pragma once

#include <warpwright/tune/detail/search/search_state.hpp>

#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

// Whether a size may run. What the model knows to be over the budget never does.
//
// A capped pool or a preparation refuses what is too much, so that the likely memory decides, and
// where the model does not know nothing but the step. Otherwise the pessimistic prediction decides,
// and for the third size the likely memory; the second one alone may be over the budget.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool may_run(search_state const& s, std::size_t batch) {
  if (!s.settings.has_budget || s.model.points() == 0) return true;
  double const budget = static_cast<double>(s.settings.budget_bytes);
  double const likely = s.model.estimate(batch);
  std::size_t const largest = s.model.largest_measured();
  bool const knows = s.model.knows(batch);
  if (s.hooks.guarded) {
    return likely <= budget || (!knows && batch <= 2 * largest + s.settings.multiple);
  }
  if (s.model.predict(batch) <= budget) return true;
  if (knows) return false;
  // One size tells nothing about the next one.
  bool const small_step = batch <= largest + s.settings.multiple;
  return small_step && s.model.points() < 3 && (s.model.points() == 1 || likely <= 0.97 * budget);
}

// Rejects a size whose memory is over the budget before it runs.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool memory_allows(search_state& s, std::size_t batch) {
  if (may_run(s, batch)) return true;
  double const bytes = s.hooks.guarded ? s.model.estimate(batch) : s.model.predict(batch);
  bool const known = s.model.knows(batch);
  tune_row& row = s.at(batch).row;
  row.memory_bytes = static_cast<std::size_t>(bytes < 1e18 ? bytes : 1e18);
  row.memory_predicted = true;
  row.status = tune_status::over_budget;
  row.note = s.needs(known ? "predicted " : "may need ", bytes);
  return false;
}

// The size after one that has run: twice as large, or less where the memory of that is not known
// and could be over the budget.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t next_size(search_state const& s, std::size_t batch) {
  std::size_t const multiple = s.settings.multiple;
  std::size_t next = batch > s.settings.last / 2 ? s.settings.last : s.round(2 * batch);
  if (!s.settings.has_budget || s.model.points() == 0) return next;
  double const budget = static_cast<double>(s.settings.budget_bytes);
  while (next > batch + multiple && !s.model.knows(next) && s.model.predict(next) > budget) {
    std::size_t const nearer = s.round(batch + (next - batch) / 2);
    if (nearer <= batch) return batch + multiple;
    next = nearer;
  }
  return next;
}

// The largest size that is known to fit the budget; 0: none is known.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t largest_fitting(search_state const& s) {
  if (!s.settings.has_budget) return 0;
  std::size_t items = s.model.largest_within(s.settings.budget_bytes);
  // Without the margin, where none is needed.
  std::size_t high = s.hooks.guarded ? 2 * s.model.largest_measured() : 0;
  while (items < high) {
    std::size_t const middle = high - (high - items) / 2;
    bool const fits = s.model.knows(middle) &&
                      s.model.estimate(middle) <= static_cast<double>(s.settings.budget_bytes);
    (fits ? items : high) = fits ? middle : middle - 1;
  }
  return items < s.settings.first ? 0 : s.round(items);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void set_latencies(search_state& s, std::size_t batch,
                                                     std::vector<double> const& latencies,
                                                     std::size_t over) {
  sample_summary const summary = summarize(latencies);
  tune_row& row = s.at(batch).row;
  row.latency_median_seconds = summary.median_seconds;
  row.latency_p99_seconds = summary.p99_seconds;
  row.latency_samples = summary.count;
  row.latency_over = over;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE string_builder latency_note(search_state const& s,
                                                              std::size_t calls, std::size_t over) {
  return string_builder(over) + " of " + string_builder(calls) + " calls over " +
         format_seconds(s.settings.objective.latency_limit_seconds());
}

// Whether most calls of a size are over the limit of the latency, or all where it is of the
// fastest.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool is_too_slow(search_state const& s, std::size_t batch) {
  tuning_objective const& objective = s.settings.objective;
  candidate const& c = *s.find(batch);
  double const seconds =
      objective.latency_quantile() < 0.5 ? c.fastest_call : c.row.latency_median_seconds;
  return objective.latency_limited() && seconds > objective.latency_limit_seconds();
}

// A few single calls on an idle device. Rejects a size of which most are over the limit; whether
// one keeps it takes more calls than are worth it for every size.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void screen_latency(search_state& s, std::size_t batch) {
  tuning_objective const& objective = s.settings.objective;
  double const limit = objective.latency_limited() ? objective.latency_limit_seconds() : HUGE_VAL;
  std::vector<double> latencies;
  std::size_t over = 0;
  double spent = 0.0;
  double fastest = HUGE_VAL;
  for (std::size_t i = 0; i < s.settings.latency_calls; ++i) {
    if (i >= 5 && (fastest > limit || spent >= s.settings.sampling.max_seconds())) break;
    if (i >= 1 && !s.has_time(fastest)) break;
    double const seconds = s.run(batch, 1);
    latencies.push_back(seconds);
    spent += seconds;
    if (seconds < fastest) fastest = seconds;
    if (seconds > limit) ++over;
  }
  s.at(batch).fastest_call = fastest;
  set_latencies(s, batch, latencies, over);
  if (is_too_slow(s, batch)) {
    s.fail(batch, tune_status::over_latency,
           latency_note(s, latencies.size(), over) + ", their median is " +
               format_seconds(s.find(batch)->row.latency_median_seconds));
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void set_throughput(search_state& s, std::size_t batch,
                                                      std::vector<double>& samples) {
  robust_mean const m = robust_mean::of(samples);
  double mean = 0.0;
  double squares = 0.0;
  double const n = static_cast<double>(samples.size());
  for (double const seconds : samples) mean += seconds / n;
  for (double const seconds : samples) squares += (seconds - mean) * (seconds - mean) / n;
  s.at(batch).spread = mean > 0.0 ? std::sqrt(squares) / mean : 0.0;
  tune_row& row = s.at(batch).row;
  row.samples = samples.size();
  row.seconds_per_batch = m.mean;
  row.relative_error = m.mean > 0.0 ? m.half_width / m.mean : 0.0;
  double const typical = 2.0 * s.typical_spread(s.at(batch).repeats) / std::sqrt(n);
  if (typical > row.relative_error) row.relative_error = typical;
  row.items_per_second = m.mean > 0.0 ? static_cast<double>(batch) / m.mean : 0.0;
  row.slowdown = 1.0;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void sample_throughput(search_state& s, std::size_t batch,
                                                         measure_options const& sampling) {
  double const left = s.left();
  double const seconds = sampling.max_seconds() < left ? sampling.max_seconds() : left;
  std::size_t runs = 0;
  auto const time_calls = [&](std::size_t repeats) {
    ++runs;
    return s.run(batch, repeats);
  };
  // After the first sample the time may be over, however few there are.
  auto const stop = [&] { return s.settings.stop() || (runs > 1 && s.left() <= 0.0); };
  measurement m = take_samples(
      time_calls, sampling.max_seconds(seconds).clock(s.settings.clock).stop_when(stop));
  if (m.samples.empty()) {
    s.stopped_early = true;
    return;
  }
  s.at(batch).repeats = m.calls_per_sample;
  set_throughput(s, batch, m.samples);
}

// From one update of the counter to another, since it changes only every 20 to 100 ms.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void sample_energy(search_state& s, std::size_t batch) {
  constexpr double window = 0.5;
  constexpr double longest_wait = 1.0;  // for an update
  auto const& joules = s.settings.objective.joules();
  double begin = joules();
  double end = begin;
  bool begun = false;
  double seconds = 0.0;
  std::size_t calls = 0;
  std::size_t counted = 0;  // calls up to the last update
  while (s.has_time() && seconds < longest_wait) {
    std::size_t const repeats = s.at(batch).repeats;
    double const sample = s.run(batch, repeats);
    if (!(sample > 0.0)) break;
    seconds += sample;
    calls += repeats;
    double const now = joules();
    if (now == end) continue;
    end = now;
    if (begun) {
      counted = calls;
      if (seconds >= window) break;
    } else {
      begun = true;
      begin = now;
      seconds = 0.0;
      calls = 0;
    }
  }
  if (!begun && seconds >= longest_wait) {
    throw std::invalid_argument{
        "throughput_per_joule: the counter of energy did not change in 1 s of the workload; pass "
        "one of the device that runs it, such as energy_counter"};
  }
  if (counted == 0) return;
  s.at(batch).row.joules_per_item =
      (end - begin) / (static_cast<double>(counted) * static_cast<double>(batch));
}

// How much slower the device is than it was at first: 1, unless other work or a clock rate that
// fell makes it so. Another size, whose time is known, is run for three samples, all of which must
// differ: the largest of those that take no longer than a sample.
WARPWRIGHT_COLD WARPWRIGHT_INLINE double slowdown(search_state& s, std::size_t other_than) {
  candidate const* reference = nullptr;
  for (candidate const& c : s.candidates) {
    if (!usable(c) || c.row.batch == other_than || !(c.row.seconds_per_batch > 0.0)) continue;
    bool const is_short = c.row.seconds_per_batch <= s.settings.sampling.sample_seconds();
    if (reference == nullptr || is_short) reference = &c;
  }
  if (reference == nullptr) return 1.0;
  std::size_t const batch = reference->row.batch;
  std::size_t const repeats = reference->repeats;
  double const expected = reference->row.seconds_per_batch;
  double noise = reference->spread;
  noise += reference->row.interleaved ? 0.0 : reference->row.relative_error;
  if (noise < 0.03) noise = 0.03;
  if (!s.has_time(4.0 * expected * static_cast<double>(repeats))) return 1.0;
  std::vector<double> factors;
  s.attempt(batch, s.hooks.prepares, [&] {
    while (factors.size() < 3) {
      factors.push_back(s.run(batch, repeats) / static_cast<double>(repeats) / expected);
    }
  });
  if (!s.is_ok(batch) || factors.size() < 3) return 1.0;
  sort(factors.data(), 3);
  bool const differs = factors[0] > 1.0 + noise || factors[2] < 1.0 - noise;
  return differs && factors[1] > 0.0 ? factors[1] : 1.0;
}

// Divides a size's time by the slowdown.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void allow_for_slowdown(search_state& s, std::size_t batch,
                                                          double factor) {
  tune_row& row = s.at(batch).row;
  row.slowdown = factor;
  row.seconds_per_batch /= factor;
  row.items_per_second *= factor;
}

// A size that the objective cannot judge is no candidate.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_score(search_state& s, std::size_t batch) {
  double const score = s.score(batch);
  if (score > 0.0 && score < HUGE_VAL) return;
  tuning_goal const goal = s.settings.objective.goal();
  double const joules = s.find(batch)->row.joules_per_item;
  string_builder problem = "the latency is 0 s";
  if (goal == tuning_goal::score) problem = "the score is " + format_number("%g", score);
  if (goal == tuning_goal::energy) {
    problem = joules == 0.0 ? string_builder{"the energy was not measured in the time left"}
                            : "the energy of an item is " + format_number("%g", joules) + " J";
  }
  s.fail(batch, tune_status::failed, problem + "; it must be above 0 and finite");
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void run_size(search_state& s, std::size_t batch) {
  s.report(batch);
  s.attempt([&] {
    s.hooks.trim();
    if (!s.prepare(batch)) return;
    s.run(batch, 1);  // libraries load code and choose algorithms in their first call
    if (!s.read_memory(batch)) return;
    screen_latency(s, batch);
    if (!s.read_memory(batch)) return;
    sample_throughput(s, batch, s.settings.sampling);
    if (s.settings.objective.joules()) sample_energy(s, batch);
    s.read_memory(batch);
  });
  if (s.is_ok(batch) && !s.for_throughput()) check_score(s, batch);
}

// Runs a size until a time.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void run_until(search_state& s, std::size_t batch, double until) {
  s.attempt([&] {
    s.prepare(batch);  // also one that has failed
    while (s.elapsed() < until && s.has_time(s.expected_seconds(batch))) {
      if (!(s.run(batch, 1) > 0.0)) break;
    }
    s.read_memory(batch);
  });
}

// Waits until a disturbance is over, for at most a second and a twentieth of the time in all.
// Returns the slowdown that remains.
WARPWRIGHT_COLD WARPWRIGHT_INLINE double outlast_disturbance(search_state& s, std::size_t batch,
                                                             bool& disturbed) {
  constexpr double strong = 1.4;
  double const most_seconds =
      0.05 * s.settings.max_seconds < 1.0 ? 0.05 * s.settings.max_seconds : 1.0;
  double factor = slowdown(s, batch);
  disturbed = factor > strong && s.waited < most_seconds;
  while (factor > strong && s.waited < most_seconds && s.has_time()) {
    double const before = s.elapsed();
    factor = slowdown(s, batch);
    if (s.elapsed() <= before) break;  // a clock that stands still
    s.waited += s.elapsed() - before;
  }
  return factor;
}

// Runs a size by a function, and once more after a disturbance. Returns whether it is usable.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool run_undisturbed(search_state& s, std::size_t batch,
                                                       function_ref<void()> run) {
  run();
  if (!s.is_ok(batch)) return false;
  bool disturbed = false;
  double factor = outlast_disturbance(s, batch, disturbed);
  if (disturbed && s.is_ok(batch) && s.has_time(10.0 * s.expected_seconds(batch))) {
    run();
    if (s.is_ok(batch)) factor = slowdown(s, batch);
  }
  if (s.is_ok(batch) && factor != 1.0) allow_for_slowdown(s, batch, factor);
  return s.is_ok(batch);
}

// Runs a size, which is in the table. Returns whether it is usable.
WARPWRIGHT_INLINE bool measure_size(search_state& s, std::size_t batch) {
  return run_undisturbed(s, batch, [&] { run_size(s, batch); });
}

// Tries a failed size again, from nothing but its memory and the count of its failures.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool retry_size(search_state& s, std::size_t batch) {
  tune_row fresh;
  tune_row& row = s.at(batch).row;
  fresh.batch = batch;
  fresh.failures = row.failures;
  fresh.memory_bytes = row.memory_bytes;
  row = fresh;
  if (!memory_allows(s, batch)) return false;
  return measure_size(s, batch);
}

// Runs a size unless that has been done, or its memory is known to be too much. Returns whether the
// size is usable.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool evaluate(search_state& s, std::size_t batch) {
  candidate const* const known = s.find(batch);
  if (known != nullptr) {
    bool const only_predicted =
        known->row.status == tune_status::over_budget && known->row.memory_predicted;
    if (!only_predicted) return s.is_ok(batch);
    // The model may know more by now.
    s.remove(batch);
  }
  if (!s.settings.allows(batch)) return false;
  s.at(batch);
  return memory_allows(s, batch) && measure_size(s, batch);
}

// Measures the throughput of a usable size again. Returns whether it is still usable.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool measure_again(search_state& s, std::size_t batch) {
  return run_undisturbed(s, batch, [&] {
    s.report(batch);
    s.attempt(batch, true, [&] { sample_throughput(s, batch, s.settings.sampling); });
  });
}

}  // namespace detail

WARPWRIGHT_END
