// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The search of batch_tuner: its steps in their order. It does not depend on the types of workload,
// memory and stopwatch, so it is compiled once, and tests run it with a simulated clock.
//
//   measure_size      which sizes may run under the memory budget; runs one
//   bracketing        doubles the size
//   wave_search       finds steps of the time
//   refinement        sizes between the doubled ones
//   paired_comparison compares the best ones in turns
//   latency_check     shows that a size keeps the limit of the latency
//   final_choice      the choice is checked, runs for a while, and is replaced if it fails
#pragma once

#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/detail/search/explain_choice_definitions.hpp>
#include <warpwright/tune/detail/search/final_choice_definitions.hpp>

#include <stdexcept>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_memory_argument(memory_traits memory, bool has_budget,
                                                             source_location where) {
  if (!has_budget || memory.peak || memory.exact) return;
  constexpr char const* remedy =
      "pass tune() a tuning_pool from which the workload allocates (tune/tuning_pool.hpp), an "
      "object with reset() and peak_bytes(), or a preparation, std::size_t(std::size_t batch), "
      "that returns the exact bytes";
  if (memory.current) {
    throw_invalid_argument(
        text{"batch_tuner: memory_budget() with a probe of the memory in use: what the workload "
             "frees before it returns would not be seen, and the budget not kept; "} +
            remedy,
        where);
  }
  throw_invalid_argument(
      text{"batch_tuner: memory_budget() needs a memory argument that tells the peak; "} + remedy,
      where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_search_settings(search_settings const& s,
                                                             source_location where) {
  auto const fail = [where](text const& problem) {
    throw_invalid_argument(text{"batch_tuner: "} + problem, where);
  };
  if (s.first < 1 || s.last < s.first) {
    fail(text{"range("} + s.first + ", " + s.last +
         ") is empty; the first size must be at least 1, and the last not below the first");
  }
  if (s.last > std::size_t{1} << 40) {
    fail(text{"range("} + s.first + ", " + s.last + "); the last size must be at most 2^40");
  }
  if (s.wave > std::size_t{1} << 40) {
    fail(text{"wave("} + s.wave + "); it must be at most 2^40");
  }
  if (s.multiple < 1) fail("multiple_of(0); it must be at least 1, which allows every size");
  std::size_t const down = s.last / s.multiple * s.multiple;
  if (down < s.first) {
    fail(text{"no multiple of "} + s.multiple + " lies in range(" + s.first + ", " + s.last + ")");
  }
  for (std::size_t i = 0; i < s.preferred_count; ++i) {
    std::size_t const batch = s.preferred[i];
    if (batch < s.first || batch > s.last || batch % s.multiple != 0) {
      fail(text{"a preferred size of "} + batch + "; it must be a multiple of " + s.multiple +
           " from " + s.first + " to " + s.last);
    }
  }
  if (s.has_budget && s.budget_bytes == 0) {
    fail("memory_budget(0); leave it out for no budget");
  }
  tuning_objective const& o = s.objective;
  if (o.latency_limited() && !(o.latency_limit_seconds() > 0.0)) {
    fail(text{"a latency limit of "} + o.latency_limit_seconds() + " seconds; it must be above 0");
  }
  if (!(o.latency_quantile() >= 0.01 && o.latency_quantile() <= 0.99999)) {
    fail(text{"a latency quantile of "} + o.latency_quantile() +
         "; it must be from 0.01 to 0.99999: 0.99 for the 99th percentile");
  }
  if (!(s.latency_confidence >= 0.5 && s.latency_confidence <= 0.999999)) {
    fail(text{"a latency_confidence of "} + s.latency_confidence +
         "; it must be from 0.5 to 0.999999: 0.995 for an error of at most 0.5 % in each run");
  }
  if (!(s.tolerance >= 0.0 && s.tolerance < 1.0)) {
    fail(text{"a tolerance of "} + s.tolerance + "; it must be from 0 to below 1");
  }
  if (!(s.resolution >= 0.0)) {
    fail(text{"a resolution of "} + s.resolution + "; it must be 0 or more");
  }
  if (!(s.max_seconds >= 0.0)) {
    fail(text{"max_seconds of "} + s.max_seconds + "; it must be 0 or more");
  }
  if (!(s.soak_seconds >= 0.0)) {
    fail(text{"a soak of "} + s.soak_seconds + " seconds; it must be 0 or more");
  }
  if (s.latency_calls < 1) fail("latency_calls(0); at least 1 call is needed");
  check_measure_options(s.sampling, where);
}

class batch_search {
 public:
  batch_search(search_settings const& settings, search_hooks const& hooks) : s_{settings, hooks} {}

  WARPWRIGHT_COLD tune_result run() {
    others_wait_ = static_cast<bool>(s_.settings.agree);
    try {
      return search();
    } catch (...) {
      tell_others();
      throw;
    }
  }

 private:
  WARPWRIGHT_COLD tune_result search() {
    bool const limited = s_.settings.objective.latency_limited();
    // Half of the time is for the calls that show a limit, if there is one.
    s_.set_deadline(limited ? 0.4 : 0.6);
    bracket(s_);
    s_.enter(tuning_phase::refinement);
    refiner refine{s_};
    if (!s_.settings.only_preferred) refine.find_best();
    refine.find_smallest();
    s_.set_deadline(limited ? 0.5 : 0.9);
    s_.enter(tuning_phase::comparison);
    compare_finalists(s_, refine);
    s_.set_deadline(1.0);
    std::size_t const choice = agree(choose(s_.settings.last));
    s_.enter(tuning_phase::soak);
    return finish(choice);
  }

  // Other devices or ranks would wait for ever for one whose tune ends by an exception.
  WARPWRIGHT_COLD void tell_others() noexcept {
    if (!others_wait_) return;
    try {
      static_cast<void>(s_.settings.agree(0));
    } catch (...) {  // the first exception is the reason
    }
  }

  WARPWRIGHT_COLD std::size_t ask_others(std::size_t choice) {
    others_wait_ = false;
    std::size_t const least = s_.settings.agree(choice);
    if (least > choice) {
      throw std::invalid_argument{(text{"batch_tuner: the function of agree() has returned "} +
                                   least + " for " + choice +
                                   "; it must return the least of what all devices or ranks pass")
                                      .c_str()};
    }
    others_wait_ = least != 0;
    return least;
  }

  WARPWRIGHT_COLD std::size_t choose(std::size_t at_most) {
    return at_most == 0 ? 0 : final_choice{s_}.run(at_most);
  }

  // The smallest choice of several devices or ranks, which each of them has checked. All call the
  // user's function equally often: until it returns the same size twice.
  WARPWRIGHT_COLD std::size_t agree(std::size_t choice) {
    if (!s_.settings.agree) return choice;
    std::size_t agreed = ask_others(choice);
    while (agreed != 0) {
      if (agreed < choice) choice = choose(s_.round(agreed) <= agreed ? s_.round(agreed) : 0);
      std::size_t const next = ask_others(choice);
      if (next == agreed) break;
      agreed = next;
    }
    others_wait_ = false;
    if (agreed == 0) {
      s_.say("no size works on all devices or ranks");
    } else {
      s_.say("agreed with other devices or ranks on batch " + string_builder(agreed));
    }
    return agreed == choice ? agreed : 0;
  }

  WARPWRIGHT_COLD tune_result finish(std::size_t choice) {
    tune_result r;
    r.objective = s_.settings.objective;
    r.memory_budget_bytes = s_.settings.has_budget ? s_.settings.budget_bytes : 0;
    r.tolerance = s_.settings.tolerance;
    r.memory = s_.model;
    r.wave_items = s_.wave;
    r.elapsed_seconds = s_.elapsed();
    r.times = s_.times;
    r.stopped_early = s_.stopped_early;
    r.steps = std::move(s_.steps);
    for (candidate& c : s_.candidates) {
      // Sizes that were left out when the time was over have no figures.
      if (c.row.status == tune_status::ok && c.row.samples == 0) continue;
      r.rows.push_back(std::move(c.row));
    }
    r.chosen_index = r.rows.size();
    for (std::size_t i = 0; i < r.rows.size(); ++i) {
      if (r.rows[i].batch == choice) r.chosen_index = i;
    }
    r.explanation = explain_choice(r, s_.settings);
    return r;
  }

  search_state s_;
  bool others_wait_ = false;  // for this one to call the user's function
};

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE detail::search_settings batch_tuner::validated(
    detail::search_settings settings, source_location where) {
  detail::check_search_settings(settings, where);
  // Both ends become multiples; the first size is rounded up.
  settings.last = settings.last / settings.multiple * settings.multiple;
  settings.first = ((settings.first - 1) / settings.multiple + 1) * settings.multiple;
  return settings;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE tune_result batch_tuner::finish(
    detail::search_settings const& settings, detail::search_hooks const& hooks, stream_ref stream) {
  tune_result result;
  try {
    result = detail::batch_search{settings, hooks}.run();
  } catch (...) {
    // The enqueued work must finish before unwinding destroys the memory that it uses.
    detail::discard(cudaStreamSynchronize(stream));
    static_cast<void>(cudaGetLastError());
    throw;
  }
  if (result.chosen_index >= result.rows.size()) throw no_feasible_batch{std::move(result)};
  return result;
}

WARPWRIGHT_END
