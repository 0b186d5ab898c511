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

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/device.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/tuning_store.hpp>

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
  stored_tuner(batch_tuner tuner, tuning_store store, std::string tag,
               device_id device = current_device(),
               source_location where = source_location::current());
  /// As above, with the version of the driver itself, or another key of your own.
  /// @param key  with a tag; its kind, objective and cap are replaced
  /// @throws std::invalid_argument for an empty tag
  stored_tuner(batch_tuner tuner, tuning_store store, tuning_key key,
               source_location where = source_location::current());

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
    return find_or_tune(
        [&](batch_tuner const& tuner) { return tuner.tune(stream, workload, memory, where); },
        detail::memory_traits::of<std::remove_reference_t<Memory>>(), where);
  }
  /// Tunes with another clock than CUDA events; see batch_tuner::tune_with().
  template <typename Stopwatch, typename Workload, typename Memory>
  tune_result tune_with(Stopwatch& stopwatch, stream_ref stream, Workload&& workload,
                        Memory&& memory, source_location where = source_location::current()) const {
    return find_or_tune(
        [&](batch_tuner const& tuner) {
          return tuner.tune_with(stopwatch, stream, workload, memory, where);
        },
        detail::memory_traits::of<std::remove_reference_t<Memory>>(), where);
  }

  /// @return the key of its record in the store
  /// @throws std::invalid_argument for settings out of range
  [[nodiscard]] tuning_key key(source_location where = source_location::current()) const;

 private:
  using run_function = detail::function_ref<tune_result(batch_tuner const&)>;

  [[nodiscard]] tuning_key key_for(detail::search_settings const& s) const;
  tune_result find_or_tune(run_function run, detail::memory_traits memory,
                           source_location where) const;
  // Runs the stored choice and its neighbours. Sets the result, with its source, if the choice
  // holds; otherwise returns why it does not.
  std::string check_again(run_function run, detail::search_settings const& s,
                          tune_result const& stored, tune_result& result) const;
  [[nodiscard]] batch_tuner tuner_of_check(detail::search_settings const& s,
                                           tune_result const& stored) const;

  batch_tuner tuner_;
  tuning_store store_;
  tuning_key key_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/store/stored_tuner_definitions.hpp>
#endif
