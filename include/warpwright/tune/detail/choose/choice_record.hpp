// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A choice as a record of a tuning_store: its key has the kind "choice", the chooser's tag and the
// shape as objective; its fields are
//
//   choice=tiles  second=rows  reason=…  name.0=rows  state.0=compared  median.0=1.2e-05 …
#pragma once

#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/measure/choose.hpp>
#include <warpwright/tune/detail/choose/choice_table.hpp>
#include <warpwright/tune/detail/store/tuning_record.hpp>

#include <cstddef>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

// The fastest of the candidates beside the chosen one that were compared; no_candidate: none.
WARPWRIGHT_COLD inline std::size_t second_best(choice const& made) {
  std::size_t second = no_candidate;
  for (std::size_t i = 0; i < made.candidates.size(); ++i) {
    auto const& c = made.candidates[i];
    if (i == made.index || c.state != candidate_state::compared) continue;
    if (second == no_candidate || c.median_seconds < made.candidates[second].median_seconds) {
      second = i;
    }
  }
  return second;
}

WARPWRIGHT_COLD inline tuning_record record_of(choice const& made) {
  constexpr std::size_t longest_reason = 200;
  tuning_record record;
  record.latency_median_seconds = made.candidates[made.index].median_seconds;
  auto const add = [&record](char const* name, std::string const& value) {
    record.fields.emplace_back();
    record.fields.back().name = name;
    record.fields.back().value = value;
  };
  add("choice", made.name);
  std::size_t const second = second_best(made);
  if (second != no_candidate) add("second", made.candidates[second].name);
  add("fastest", made.shown_fastest ? "shown" : "not shown");
  add("reason", made.reason);
  for (std::size_t i = 0; i < made.candidates.size(); ++i) {
    auto const& c = made.candidates[i];
    add((text{"name."} + i).c_str(), c.name);
    add((text{"state."} + i).c_str(), to_string(c.state));
    std::string median;
    append_number(median, c.median_seconds);
    add((text{"median."} + i).c_str(), median);
    if (!c.reason.empty()) {
      add((text{"reason."} + i).c_str(), std::string{c.reason, 0, longest_reason});
    }
  }
  return record;
}

WARPWRIGHT_COLD inline bool read_state(std::string const& text, candidate_state& state) {
  for (candidate_state const s :
       {candidate_state::not_timed, candidate_state::compared, candidate_state::far_slower,
        candidate_state::failed, candidate_state::wrong}) {
    if (text.compare(to_string(s)) != 0) continue;
    state = s;
    return true;
  }
  return false;
}

WARPWRIGHT_COLD inline bool read_candidate(tuning_record const& record, std::size_t i,
                                           candidate_figures& figures) {
  auto const field = [&record, i](char const* name) {
    return record.field((text{name} + i).c_str());
  };
  std::string const* const state = field("state.");
  std::string const* const median = field("median.");
  if (state == nullptr || median == nullptr || !read_state(*state, figures.state) ||
      !read_number({median->data(), median->data() + median->size()}, figures.median_seconds)) {
    return false;
  }
  std::string const* const reason = field("reason.");
  if (reason != nullptr) figures.reason = *reason;
  return true;
}

// Reads a stored choice for the candidates of these names, which may be in another order.
//
// @param second  gets the index of the second best; no_candidate: none that is still there
// @return false if there are candidates that the record does not know, or the chosen one is not
//   among them, or the record is not one of a choice: they must be measured then
WARPWRIGHT_COLD inline bool read_choice(tuning_record const& record, char const* const* names,
                                        std::size_t count, choice& made, std::size_t& second) {
  std::string const* const chosen = record.field("choice");
  std::string const* const next = record.field("second");
  std::string const* const reason = record.field("reason");
  std::string const* const fastest = record.field("fastest");
  if (chosen == nullptr || reason == nullptr || fastest == nullptr) return false;
  made = choice{};
  made.index = no_candidate;
  second = no_candidate;
  for (std::size_t i = 0; i < count; ++i) {
    made.candidates.emplace_back();
    candidate_figures& figures = made.candidates.back();
    figures.name = names[i];
    bool known = false;
    for (std::size_t k = 0; !known; ++k) {
      std::string const* const name = record.field((text{"name."} + k).c_str());
      if (name == nullptr) return false;
      known = *name == figures.name;
      if (known && !read_candidate(record, k, figures)) return false;
    }
    if (*chosen == figures.name) made.index = i;
    if (next != nullptr && *next == figures.name) second = i;
  }
  if (made.index == no_candidate || second == made.index) return false;
  made.name = *chosen;
  made.reason = *reason;
  made.shown_fastest = fastest->compare("shown") == 0;
  double const least = made.candidates[made.index].median_seconds;
  for (candidate_figures& c : made.candidates) {
    if (least > 0.0) c.to_chosen.median = c.median_seconds / least;
  }
  return true;
}

}  // namespace detail

WARPWRIGHT_END
