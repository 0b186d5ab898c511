// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch tuner that looks into a tuning_store first, so that only the first start of a service
// tunes:
//
//   ww::stored_tuner const tuner{ww::batch_tuner{}.range(1, 8192),
//                                ww::tuning_store{"/var/lib/app/tuning.txt"}, "resnet50-v3"};
//   auto const best = tuner.tune(stream, workload, memory);
//   std::printf("batch %zu (%s)\n", best.chosen().batch, to_string(best.source));
#pragma once

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/device.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/detail/store/tune_record.hpp>
#include <warpwright/tune/tuning_store.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// A batch_tuner whose results are kept in a tuning_store.
///
/// **Change the tag when the workload changes**: a stored result is used without running anything,
/// so that nothing else would notice.
///
/// What tune() does depends on what the store has for the tag, the device and its memory, the
/// objective with its limits, the memory budget, the range, multiple, only() and the tolerance:
/// - *stored by the same driver, runtime and library*: that is the result, and the workload is not
///   run. Its rows are the sizes that worked; it has no steps, times and memory model;
/// - *stored by others*: up to three sizes are run again, the chosen one and those stored next to
///   it, under all limits, the test of the latency and the soak included. If the choice is within
///   the tolerance of the best of them, and its throughput and memory are within 10 % of what is
///   stored, it is the result. Otherwise all is tuned anew. The check has half of max_seconds(), a
///   tune after it all of it. It does not look for a larger size that a change of less than 10 %
///   would allow, such as less memory an item. With a probe of peaks, a budget and no cap, all is
///   tuned anew: nothing would stop a size that needs more memory now;
/// - *nothing*: a whole tune.
///
/// What was run is stored; records of other drivers stay, as other machines may share the file. Not
/// stored are a tune that stop_when() ended, and one without a choice.
///
/// A store that cannot be read or written does not fail a tune: the result's `warnings` say so.
/// Processes that start at once may each tune; the last one's record stays. A score or a reader of
/// energy of your own, and settings of how the tuner searches, are not compared: change the tag
/// with them. With batch_tuner::agree() a stored result is used if all ranks have the same one;
/// otherwise all ranks tune anew.
///
/// A value. **Threads:** any number of tunes of one object at once, as batch_tuner.
class stored_tuner {
 public:
  /// @param tuner   with its settings; a copy is taken
  /// @param store   where results are kept; a copy is taken
  /// @param tag     the workload's name, with a version that you change with its code or model
  /// @param device  where it runs
  /// @throws std::invalid_argument for an empty tag or a device that does not exist
  /// @throws cuda_error            when a query of the device fails
  ///
  /// **Capture:** not legal during a capture of global mode by the calling thread. **Cost:** that
  /// of tuning_key::of_device(); does not touch the file.
  template <typename Key = tuning_key>
  stored_tuner(batch_tuner tuner, tuning_store store, std::string tag,
               device_id device = current_device(),
               source_location where = source_location::current())
      : stored_tuner{std::move(tuner), std::move(store),
                     key_of(std::move(tag), Key::of_device(device, where)), where} {}
  /// As above, with the version of the driver itself, or another key of your own.
  /// @param key  with a tag; its kind, objective and cap are replaced
  /// @throws std::invalid_argument for an empty tag
  stored_tuner(batch_tuner tuner, tuning_store store, tuning_key key,
               source_location where = source_location::current())
      : tuner_{std::move(tuner)}, store_{std::move(store)}, key_{std::move(key)} {
    if (key_.tag.empty()) {
      detail::throw_invalid_argument(
          "stored_tuner: the tag is empty; name the workload, as another one's result would be "
          "found",
          where);
    }
  }

  /// Tunes without measuring memory; see the overload below.
  template <typename Workload>
  tune_result tune(stream_ref stream, Workload&& workload,
                   source_location where = source_location::current()) const {
    return tune(stream, workload, no_memory_probe{}, where);
  }
  /// Finds the stored result, checks it, or tunes.
  ///
  /// @pre the stream's device is the one that was given
  /// @return as batch_tuner::tune(), with its `source`
  /// @throws whatever batch_tuner::tune() throws; settings are checked also if nothing is run
  /// The parameters are those of batch_tuner::tune().
  ///
  /// **Stream:** ordered on `stream`; blocks, unless nothing is run. **Capture:** not legal.
  /// **Cost:** for a stored result of the same versions one read of the file, no CUDA call.
  template <typename Workload, typename Memory>
  tune_result tune(stream_ref stream, Workload&& workload, Memory&& memory,
                   source_location where = source_location::current()) const {
    auto const run = [&](batch_tuner const& tuner) {
      return tuner.tune(stream, workload, memory, where);
    };
    return find_or_tune<std::remove_reference_t<Memory>>(run, where);
  }
  /// Tunes with another clock than CUDA events; see batch_tuner::tune_with().
  template <typename Stopwatch, typename Workload, typename Memory>
  tune_result tune_with(Stopwatch& stopwatch, stream_ref stream, Workload&& workload,
                        Memory&& memory, source_location where = source_location::current()) const {
    auto const run = [&](batch_tuner const& tuner) {
      return tuner.tune_with(stopwatch, stream, workload, memory, where);
    };
    return find_or_tune<std::remove_reference_t<Memory>>(run, where);
  }

  /// @return the key of its record in the store
  /// @throws std::invalid_argument for settings out of range
  template <typename Key = tuning_key>
  [[nodiscard]] Key key(source_location where = source_location::current()) const {
    return key_for<Key>(batch_tuner::validated(tuner_.settings_, where));
  }

 private:
  // How far throughput and memory may be from the stored ones.
  static constexpr double most_change = 0.1;

  // A template as the others, which a file that only includes the header does not compile.
  template <typename Key>
  static Key key_of(std::string tag, Key key) {
    key.tag = std::move(tag);
    return key;
  }

  template <typename Key, typename Settings>
  [[nodiscard]] Key key_for(Settings const& s) const {
    Key key = key_;
    key.kind = "batch";
    key.objective = detail::objective_text(s);
    key.memory_cap_bytes = s.has_budget ? s.budget_bytes : 0;
    return key;
  }

  template <typename Memory, typename Run>
  WARPWRIGHT_COLD_ENTRY tune_result find_or_tune(Run const& run, source_location where) const {
    detail::search_settings const s = batch_tuner::validated(tuner_.settings_, where);
    detail::check_memory_argument<Memory>(s.has_budget, where);
    std::uint64_t const begin = s.clock.now();
    tuning_key const key = key_for<tuning_key>(s);
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
    if (s.agree) found.match = agreed(s, found.match, stored);
    if (found.match == tuning_match::exact) {
      stored.source = tune_source::stored;
      stored.explanation = "stored on " + found.record.date + ": " + stored.explanation;
      stored.warnings = std::move(found.warnings);
      stored.elapsed_seconds = 1e-9 * static_cast<double>(s.clock.now() - begin);
      return stored;
    }
    // A probe of peaks would not stop a size that needs more memory now.
    using kind = detail::memory_kind<Memory>;
    bool const safe = !s.has_budget || kind::is_capped || kind::is_exact;
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
    if (!s.stop()) put(key, s, result);
    return result;
  }

  // A rank that tunes calls the user's function, which waits for the others: so all use what is
  // stored, or none.
  template <typename Settings>
  static tuning_match agreed(Settings const& s, tuning_match match, tune_result const& stored) {
    std::size_t const mine = match == tuning_match::exact ? stored.chosen().batch : 0;
    std::size_t const least = s.agree(mine);
    bool const same = least != 0 && s.agree(least == mine ? mine : 0) != 0;
    return same ? tuning_match::exact : tuning_match::none;
  }

  // Runs the stored choice and its neighbours. Sets the result, with its source, if the choice
  // holds; otherwise returns why it does not.
  template <typename Run, typename Settings>
  std::string check_again(Run const& run, Settings const& s, tune_result const& stored,
                          tune_result& result) const {
    tune_row const& before = stored.chosen();
    detail::string_builder const what =
        "the stored choice of " + detail::string_builder{before.batch} + " was not kept: ";
    tune_result now;
    try {
      now = run(tuner_of_check(s, stored));
    } catch (no_feasible_batch const& failed) {
      return (what + reason(failed.result(), before.batch)).str();
    }
    tune_row const& row = now.chosen();
    if (changed(row.items_per_second, before.items_per_second)) {
      return (what + detail::format_rate(row.items_per_second) + " items/s instead of " +
              detail::format_rate(before.items_per_second))
          .str();
    }
    auto const bytes = static_cast<double>(row.memory_bytes);
    auto const bytes_before = static_cast<double>(before.memory_bytes);
    if (bytes > 0.0 && bytes_before > 0.0 && changed(bytes, bytes_before)) {
      return (what + detail::format_bytes(bytes) + " instead of " +
              detail::format_bytes(bytes_before))
          .str();
    }
    result = std::move(now);
    result.source = tune_source::checked_again;
    return {};
  }

  template <typename Real>
  static bool changed(Real now, Real before) {
    return !(std::fabs(now - before) <= most_change * before);
  }

  template <typename Result>
  static detail::string_builder reason(Result const& failed, std::size_t batch) {
    for (tune_row const& row : failed.rows) {
      if (row.batch != batch || row.status == tune_status::ok) continue;
      return detail::string_builder{to_string(row.status)} + (row.note.empty() ? "" : ", ") +
             row.note;
    }
    return "another of the sizes next to it is better, or there was no time to tell";
  }

  template <typename Settings>
  [[nodiscard]] batch_tuner tuner_of_check(Settings const& s, tune_result const& stored) const {
    batch_tuner check = tuner_;
    Settings& c = check.settings_;
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

  template <typename Settings>
  void put(tuning_key const& key, Settings const& s, tune_result& result) const {
    tuning_record record = detail::record_of_tune<tuning_record>(result, s);
    record.key = key;
    tuning_put_result const done = store_.try_put(record);
    if (!done.stored) result.warnings.push_back(done.problem);
  }

  batch_tuner tuner_;
  tuning_store store_;
  tuning_key key_;
};

WARPWRIGHT_END
