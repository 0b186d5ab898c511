// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/stored_tuner.hpp>

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/tune/detail/batch_tuner_definitions.hpp>
#include <warpwright/tune/detail/store/tune_record.hpp>

#include <cmath>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

// A rank that tunes calls the user's function, which waits for the others: so all use what is
// stored, or none.
WARPWRIGHT_COLD WARPWRIGHT_INLINE tuning_match agreed(search_settings const& s, tuning_match match,
                                                      tune_result const& stored) {
  std::size_t const mine = match == tuning_match::exact ? stored.chosen().batch : 0;
  std::size_t const least = s.agree(mine);
  bool const same = least != 0 && s.agree(least == mine ? mine : 0) != 0;
  return same ? tuning_match::exact : tuning_match::none;
}

// Throughput and memory may be 10 % from the stored ones.
WARPWRIGHT_INLINE bool changed(double now, double before) {
  return !(std::fabs(now - before) <= 0.1 * before);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE string_builder reason_of_check(tune_result const& failed,
                                                                 std::size_t batch) {
  for (tune_row const& row : failed.rows) {
    if (row.batch != batch || row.status == tune_status::ok) continue;
    return string_builder{to_string(row.status)} + (row.note.empty() ? "" : ", ") + row.note;
  }
  return "another of the sizes next to it is better, or there was no time to tell";
}

WARPWRIGHT_INLINE tuning_key key_of(std::string tag, tuning_key key) {
  key.tag = std::move(tag);
  return key;
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE stored_tuner::stored_tuner(
    batch_tuner tuner, tuning_store store, std::string tag, device_id device, source_location where)
    : stored_tuner{std::move(tuner), std::move(store),
                   detail::key_of(std::move(tag), tuning_key::of_device(device, where)), where} {}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE stored_tuner::stored_tuner(batch_tuner tuner,
                                                                   tuning_store store,
                                                                   tuning_key key,
                                                                   source_location where)
    : tuner_{std::move(tuner)}, store_{std::move(store)}, key_{std::move(key)} {
  if (key_.tag.empty()) {
    detail::throw_invalid_argument(
        "stored_tuner: the tag is empty; name the workload, as another one's result would be "
        "found",
        where);
  }
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_key stored_tuner::key(source_location where) const {
  return key_for(batch_tuner::validated(tuner_.values_, where));
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_key
stored_tuner::key_for(detail::search_settings const& s) const {
  tuning_key key = key_;
  key.kind = "batch";
  key.objective = detail::objective_text(s);
  key.memory_cap_bytes = s.has_budget ? s.budget_bytes : 0;
  return key;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tune_result stored_tuner::find_or_tune(
    run_function run, detail::memory_traits memory, source_location where) const {
  detail::search_settings const s = batch_tuner::validated(tuner_.values_, where);
  detail::check_memory_argument(memory, s.has_budget, where);
  std::uint64_t const begin = s.clock.now();
  tuning_key const key = key_for(s);
  tuning_lookup found = store_.try_find(key, where);
  tune_result stored;
  if (found.match != tuning_match::none) {
    char const* const problem = detail::read_tune(found.record, s, stored);
    if (problem != nullptr) {
      found.match = tuning_match::none;
      found.warnings.push_back((detail::string_builder{store_.path()} + ": the record of '" +
                                key.tag + "' is not used: " + problem)
                                   .str());
    }
  }
  if (s.agree) found.match = detail::agreed(s, found.match, stored);
  if (found.match == tuning_match::exact) {
    stored.source = tune_source::stored;
    stored.explanation = "stored on " + found.record.date + ": " + stored.explanation;
    stored.warnings = std::move(found.warnings);
    stored.elapsed_seconds = 1e-9 * static_cast<double>(s.clock.now() - begin);
    return stored;
  }
  // A probe of peaks would not stop a size that needs more memory now.
  bool const safe = !s.has_budget || memory.capped || memory.exact;
  tune_result result;
  std::string why;
  if (safe && found.match == tuning_match::prior) why = check_again(run, s, stored, result);
  if (result.source == tune_source::checked_again) {
    result.explanation =
        "stored on " + found.record.date + " with driver " + found.record.key.driver_version +
        ", runtime " + found.record.key.runtime_version + " and library " +
        found.record.key.library_version + ", and checked again; " + result.explanation;
  } else {
    result = run(tuner_);
    if (!why.empty()) result.steps.insert(result.steps.begin(), std::move(why));
  }
  result.warnings = std::move(found.warnings);
  result.elapsed_seconds = 1e-9 * static_cast<double>(s.clock.now() - begin);
  if (s.stop()) return result;
  tuning_record record = detail::record_of_tune(result, s);
  record.key = key;
  tuning_put_result done = store_.try_put(record);
  if (!done.stored) result.warnings.push_back(std::move(done.problem));
  return result;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string stored_tuner::check_again(
    run_function run, detail::search_settings const& s, tune_result const& stored,
    tune_result& result) const {
  tune_row const& before = stored.chosen();
  detail::string_builder const what =
      "the stored choice of " + detail::string_builder{before.batch} + " was not kept: ";
  tune_result now;
  try {
    now = run(tuner_of_check(s, stored));
  } catch (no_feasible_batch const& failed) {
    return (what + detail::reason_of_check(failed.result(), before.batch)).str();
  }
  tune_row const& row = now.chosen();
  if (detail::changed(row.items_per_second, before.items_per_second)) {
    return (what + detail::format_rate(row.items_per_second) + " items/s instead of " +
            detail::format_rate(before.items_per_second))
        .str();
  }
  auto const bytes = static_cast<double>(row.memory_bytes);
  auto const bytes_before = static_cast<double>(before.memory_bytes);
  if (bytes > 0.0 && bytes_before > 0.0 && detail::changed(bytes, bytes_before)) {
    return (what + detail::format_bytes(bytes) + " instead of " +
            detail::format_bytes(bytes_before))
        .str();
  }
  result = std::move(now);
  result.source = tune_source::checked_again;
  return {};
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE batch_tuner
stored_tuner::tuner_of_check(detail::search_settings const& s, tune_result const& stored) const {
  batch_tuner check = tuner_;
  detail::search_settings& c = check.values_;
  c.preferred_count = 0;
  c.only_preferred = true;
  c.max_seconds = 0.5 * s.max_seconds;
  c.keep = stored.chosen().batch;
  c.preferred[c.preferred_count++] = c.keep;
  auto const add = [&](tune_row const& row) {
    if (detail::may_choose(row, s)) c.preferred[c.preferred_count++] = row.batch;
  };
  if (stored.chosen_index > 0) add(stored.rows[stored.chosen_index - 1]);
  for (std::size_t i = stored.chosen_index + 1; i < stored.rows.size(); ++i) {
    // A size that was better was not chosen because its latency was not shown to be within the
    // limit.
    double const rate = stored.rows[i].items_per_second * (1.0 - s.tolerance);
    if (s.objective.latency_limited() && rate > stored.chosen().items_per_second) continue;
    add(stored.rows[i]);
    break;
  }
  return check;
}

WARPWRIGHT_END
