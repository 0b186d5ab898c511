// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The search of batch_tuner: its steps in their order. It does not depend on the types of workload,
// memory and stopwatch, so it is compiled once, and tests run it with a simulated clock.
//
//   memory_growth     which sizes may run under the memory budget
//   measure_size      runs one size
//   bracketing        doubles the size
//   wave_search       finds steps of the time
//   refinement        sizes between the doubled ones
//   paired_comparison compares the best ones in turns
//   latency_check     shows that a size keeps the limit of the latency
//   final_choice      the choice is checked, runs for a while, and is replaced if it fails
#pragma once

#include <warpwright/tune/detail/search/explain_choice_definitions.hpp>
#include <warpwright/tune/detail/search/final_choice_definitions.hpp>

#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

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

WARPWRIGHT_END
