// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs the fastest of several implementations, found out once for each shape:
//
//   ww::chooser transpose{"transpose-v1", ww::tuning_store{"/var/lib/app/tuning.txt"}};
//   …
//   transpose(stream, {rows, cols}, ww::candidates(ww::candidate("rows", by_rows),
//                                                  ww::candidate("tiles", by_tiles)));
#pragma once

#include <warpwright/core/detail/capture/stream_device.hpp>
#include <warpwright/core/device.hpp>
#include <warpwright/core/shape_key.hpp>
#include <warpwright/measure/choose.hpp>
#include <warpwright/tune/detail/choose/choice_table.hpp>
#include <warpwright/tune/detail/store/choice_record.hpp>
#include <warpwright/tune/tuning_store.hpp>

#include <pthread.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

/// See chooser. Choice is choice, Store is tuning_store: a template, so that a file which only
/// includes the header does not compile it.
template <typename Choice, typename Store = tuning_store>
class basic_chooser {
 public:
  /// A chooser without a store: each process measures anew.
  /// @param tag      the operation's name, not empty
  /// @param options  how to compare
  /// @param device   where the candidates run
  /// @throws std::invalid_argument for an empty tag
  explicit basic_chooser(std::string tag, choose_options const& options = {},
                         device_id device = current_device(),
                         source_location where = source_location::current())
      : options_{options}, device_{device} {
    key_.tag = std::move(tag);
    check_tag(where);
  }
  /// A chooser that keeps its choices in a store.
  /// @param tag      the operation's name, with a version that you change where a candidate's code
  ///   changes: a stored choice holds for the code that was measured
  /// @param store    where choices are kept; a copy is taken
  /// @param options  how to compare
  /// @param device   where the candidates run
  /// @throws std::invalid_argument for an empty tag or a device that does not exist
  /// @throws cuda_error            when a query of the device fails
  /// **Capture:** not legal during a capture of global mode by the calling thread. **Cost:** that
  /// of get_device_info(); does not touch the file.
  basic_chooser(std::string tag, Store store, choose_options const& options = {},
                device_id device = current_device(),
                source_location where = source_location::current())
      : options_{options}, device_{device}, key_{tuning_key::of_device(device, where)} {
    key_.kind = "choice";
    key_.tag = std::move(tag);
    check_tag(where);
    stores_.push_back(std::move(store));
  }
  basic_chooser(basic_chooser const&) = delete;
  basic_chooser& operator=(basic_chooser const&) = delete;

  /// Runs the fastest candidate for a shape; the first call for it finds out which that is.
  ///
  /// **The first call runs every candidate many times**, as choose() does: see there. While the
  /// stream is capturing, nothing is measured: a shape that is not known uses the stored choice, or
  /// else the first candidate, and the next call outside of a capture measures. The result's
  /// `source` tells.
  ///
  /// @pre the stream's device is current, if a candidate makes CUDA calls that need that; it is
  /// made
  ///   current only while candidates are measured
  /// @param stream  passed to the candidate
  /// @param shape   what the speed depends on, such as {rows, cols}
  /// @param set     always the same candidates, with names that do not change; they may refer to
  ///   other buffers in each call
  /// @return the choice for this shape, valid as long as the chooser
  /// @throws std::invalid_argument for another number of candidates than this shape had before, a
  ///   stream of another device than the chooser's while it measures, a candidate that calls this
  ///   chooser while it is measured, and as choose()
  /// @throws whatever choose() throws, when it measures: nothing is kept, and the next call
  ///   measures again; and whatever the candidate throws
  ///
  /// **Stream:** ordered on `stream`; blocks only for a shape that is not known. **Capture:**
  /// legal. **Cost:** for a known shape a hash lookup, without a CUDA call, lock or allocation;
  /// otherwise choose(), and reading and writing the store.
  template <typename... Set>
  Choice const& operator()(stream_ref stream, shape_key const& shape,
                           candidate_set<Set...> const& set,
                           source_location where = source_location::current()) {
    Choice const& made = prepare(stream, shape, set, where);
    set.run(made.index, stream);
    return made;
  }

  /// As operator(), but does not run the chosen candidate: for the shapes that are known when a
  /// service starts.
  template <typename... Set>
  Choice const& prepare(stream_ref stream, shape_key const& shape, candidate_set<Set...> const& set,
                        source_location where = source_location::current()) {
    entry const* const e = table_.find(shape);
    if (e != nullptr && e->final && e->candidates == set.count) return e->value;
    auto const make_stopwatch = [where] { return event_stopwatch{where}; };
    return settle(stream, shape, set, make_stopwatch, where);
  }
  /// As prepare(), with another clock than CUDA events.
  /// @param stopwatch  an event_stopwatch, or an object with the same call operator
  template <typename Stopwatch, typename... Set>
  Choice const& prepare_with(Stopwatch& stopwatch, stream_ref stream, shape_key const& shape,
                             candidate_set<Set...> const& set,
                             source_location where = source_location::current()) {
    entry const* const e = table_.find(shape);
    if (e != nullptr && e->final && e->candidates == set.count) return e->value;
    auto const same_stopwatch = [&stopwatch]() -> Stopwatch& { return stopwatch; };
    return settle(stream, shape, set, same_stopwatch, where);
  }

  /// Forbids or allows measurements: forbid them when a service has started, so that a new shape
  /// does not cost a request the time of a measurement. Such a shape uses the stored choice, or
  /// else the first candidate.
  void allow_measuring(bool allowed) noexcept {
    allowed_.store(allowed, detail::memory_order::relaxed);
  }

  /// @return the choice for a shape; null if there is none yet
  /// **Cost:** a hash lookup.
  [[nodiscard]] Choice const* find(shape_key const& shape) const noexcept {
    entry const* const e = table_.find(shape);
    return e == nullptr ? nullptr : &e->value;
  }
  /// @return the number of shapes for which there is a choice
  [[nodiscard]] std::size_t shapes() const noexcept { return table_.size(); }
  /// @return the tag that was given
  [[nodiscard]] std::string const& tag() const noexcept { return key_.tag; }

 private:
  using entry = typename detail::choice_table<Choice>::entry;

  void check_tag(source_location where) const {
    if (key_.tag.empty()) {
      detail::throw_invalid_argument(
          "chooser: the tag is empty; name the operation, as another one's choice would be found",
          where);
    }
  }

  // Marks the thread that measures.
  struct measuring_scope {
    detail::atomic<pthread_t>& thread;
    explicit measuring_scope(detail::atomic<pthread_t>& measuring) noexcept : thread{measuring} {
      thread.store(pthread_self(), detail::memory_order::relaxed);
    }
    measuring_scope(measuring_scope const&) = delete;
    measuring_scope& operator=(measuring_scope const&) = delete;
    ~measuring_scope() { thread.store(pthread_t{}, detail::memory_order::relaxed); }
  };

  // The choice for a shape that has none, or none that is final.
  template <typename Set, typename MakeStopwatch>
  WARPWRIGHT_COLD Choice const& settle(stream_ref stream, shape_key const& shape, Set const& set,
                                       MakeStopwatch const& make_stopwatch, source_location where) {
    entry const* e = table_.find(shape);
    check_count(e, Set::count, where);
    bool const allowed = allowed_.load(detail::memory_order::relaxed);
    if (!allowed || stream.is_capturing(where)) {
      if (e != nullptr) return e->value;
      Choice made = guess(shape, set, !allowed, where);
      bool const final = made.source == choice_source::stored;
      return table_.insert(shape, std::move(made), final).value;
    }
    if (measuring_.load(detail::memory_order::relaxed) == pthread_self()) {
      detail::throw_invalid_argument(
          detail::text{"chooser '"} + key_.tag.c_str() +
              "': a candidate calls the chooser by which it is measured; use a chooser of its own "
              "for what it calls",
          where);
    }
    detail::unique_lock<detail::mutex> const lock{mutex_};
    e = table_.find(shape);
    check_count(e, Set::count, where);
    if (e != nullptr && e->final) return e->value;
    device_id const device = detail::device_of_any(stream, where);
    if (device != device_) {
      detail::throw_invalid_argument(detail::text{"chooser '"} + key_.tag.c_str() +
                                         "': the stream is of device " + device.value() +
                                         ", the chooser's device is " + device_.value() +
                                         "; make one chooser for each device",
                                     where);
    }
    measuring_scope const measuring{measuring_};
    auto&& stopwatch = make_stopwatch();
    Choice made = detail::with_search(stream, set, options_, stopwatch, where, [&](auto& search) {
      return stored_or_measured(shape, set, search);
    });
    bool const final = !made.interrupted;
    return table_.insert(shape, std::move(made), final).value;
  }

  static void check_count(entry const* e, std::size_t count, source_location where) {
    if (e == nullptr || e->candidates == count) return;
    detail::throw_invalid_argument(
        detail::text{"chooser: "} + count + " candidates for a shape that had " + e->candidates +
            " before; pass the same ones in each call, or use another chooser",
        where);
  }

  // What the store has for a shape; no match: nothing that fits these candidates.
  template <typename Set>
  tuning_match read(shape_key const& shape, Set const&, char const* const* names, Choice& made,
                    std::size_t& second) const {
    tuning_match match = tuning_match::none;
    std::vector<std::string> warnings;
    if (!stores_.empty()) {
      tuning_lookup found = stores_.front().try_find(key_of(shape));
      warnings = std::move(found.warnings);
      if (found.match != tuning_match::none &&
          detail::read_choice(found.record, names, Set::count, made, second)) {
        match = found.match;
      }
    }
    if (match == tuning_match::none) made = Choice{};
    if (match == tuning_match::exact) made.source = choice_source::stored;
    made.warnings = std::move(warnings);
    return match;
  }

  template <typename Set, typename Search>
  Choice stored_or_measured(shape_key const& shape, Set const& set, Search& search) const {
    char const* names[Set::count];
    set.copy_names(names);
    Choice made;
    std::size_t second = detail::no_candidate;
    tuning_match const match = read(shape, set, names, made, second);
    if (match == tuning_match::exact) return made;
    bool const holds = match == tuning_match::prior && search.confirm(made.index, second, made);
    if (!holds) {
      std::vector<std::string> warnings = std::move(made.warnings);
      made = search.all();
      made.warnings = std::move(warnings);
    }
    if (!stores_.empty() && !made.interrupted) put(shape, made);
    return made;
  }

  void put(shape_key const& shape, Choice& made) const {
    tuning_record record = detail::record_of<tuning_record>(made);
    record.key = key_of(shape);
    tuning_put_result const result = stores_.front().try_put(record);
    if (!result.stored) made.warnings.push_back(result.problem);
  }

  // Without a measurement.
  template <typename Set>
  Choice guess(shape_key const& shape, Set const& set, bool forbidden,
               source_location where) const {
    char const* names[Set::count];
    set.copy_names(names);
    detail::check_choose_arguments(names, Set::count, options_, where);
    Choice made;
    std::size_t second = detail::no_candidate;
    tuning_match const match = read(shape, set, names, made, second);
    if (match == tuning_match::exact) return made;
    std::string const why = forbidden ? "measuring is not allowed" : "the stream was capturing";
    if (match == tuning_match::prior) {
      made.reason = why + ": the stored choice for other versions";
      return made;
    }
    for (char const* const name : names) {
      made.candidates.emplace_back();
      made.candidates.back().name = name;
    }
    made.name = names[0];
    made.reason = why + ": the first candidate, not measured";
    return made;
  }

  [[nodiscard]] tuning_key key_of(shape_key const& shape) const {
    tuning_key key = key_;
    key.objective = options_.is_cold() ? "fastest cold for shape " : "fastest for shape ";
    key.objective += shape.text();
    return key;
  }

  choose_options options_;
  device_id device_;
  tuning_key key_;
  std::vector<Store> stores_;  // none, or one
  detail::choice_table<Choice> table_;
  detail::mutex mutex_;  // held while measuring
  detail::atomic<pthread_t> measuring_;
  detail::atomic<bool> allowed_{true};
};

/// Keeps for each shape of an operation which implementation is the fastest, and runs that.
///
/// The first call for a shape measures all candidates, or reads the choice from a tuning_store;
/// later calls look it up. One object is for one operation and one device: keep it as long as the
/// operation is used.
///
/// In the store a choice is found again for the same tag, shape, device and versions: it is used
/// without running anything, if the record knows every candidate of the call by its name. With
/// another driver, runtime or library the stored winner is measured against the second best only,
/// and all of them if it is slower now. A new candidate makes all of them be measured.
///
/// **Threads:** any number at once. While one measures, others that need a measurement wait, so
/// that they do not disturb it; calls for known shapes do not.
using chooser = basic_chooser<choice>;

WARPWRIGHT_END
