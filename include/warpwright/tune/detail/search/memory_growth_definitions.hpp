// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which sizes batch_tuner may run under a memory budget, and how fast it grows them until the model
// of the memory knows.
#pragma once

#include <warpwright/tune/detail/search/search_state.hpp>

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

}  // namespace detail

WARPWRIGHT_END
