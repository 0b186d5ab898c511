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

#include <warpwright/core/device.hpp>
#include <warpwright/core/shape_key.hpp>
#include <warpwright/measure/choose.hpp>
#include <warpwright/tune/detail/choose/choice_table.hpp>
#include <warpwright/tune/tuning_store.hpp>

#include <pthread.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

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
class chooser {
 public:
  /// A chooser without a store: each process measures anew.
  /// @param tag      the operation's name, not empty
  /// @param options  how to compare
  /// @param device   where the candidates run
  /// @throws std::invalid_argument for an empty tag
  explicit chooser(std::string tag, choose_options const& options = {},
                   device_id device = current_device(),
                   source_location where = source_location::current());
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
  chooser(std::string tag, tuning_store store, choose_options const& options = {},
          device_id device = current_device(), source_location where = source_location::current());
  chooser(chooser const&) = delete;
  chooser& operator=(chooser const&) = delete;

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
  choice const& operator()(stream_ref stream, shape_key const& shape,
                           candidate_set<Set...> const& set,
                           source_location where = source_location::current()) {
    choice const& made = prepare(stream, shape, set, where);
    set.run(made.index, stream);
    return made;
  }

  /// As operator(), but does not run the chosen candidate: for the shapes that are known when a
  /// service starts.
  template <typename... Set>
  choice const& prepare(stream_ref stream, shape_key const& shape, candidate_set<Set...> const& set,
                        source_location where = source_location::current()) {
    entry const* const e = table_.find(shape);
    if (e != nullptr && e->final && e->candidates == set.count) return e->value;
    auto const make_stopwatch = [where] { return event_stopwatch{where}; };
    return settle(stream, shape, set, make_stopwatch, where);
  }
  /// As prepare(), with another clock than CUDA events.
  /// @param stopwatch  an event_stopwatch, or an object with the same call operator
  template <typename Stopwatch, typename... Set>
  choice const& prepare_with(Stopwatch& stopwatch, stream_ref stream, shape_key const& shape,
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
  [[nodiscard]] choice const* find(shape_key const& shape) const noexcept {
    entry const* const e = table_.find(shape);
    return e == nullptr ? nullptr : &e->value;
  }
  /// @return the number of shapes for which there is a choice
  [[nodiscard]] std::size_t shapes() const noexcept { return table_.size(); }
  /// @return the tag that was given
  [[nodiscard]] std::string const& tag() const noexcept { return key_.tag; }

 private:
  using entry = detail::choice_table::entry;

  void check_tag(source_location where) const;

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
  WARPWRIGHT_COLD choice const& settle(stream_ref stream, shape_key const& shape, Set const& set,
                                       MakeStopwatch const& make_stopwatch, source_location where) {
    entry const* e = table_.find(shape);
    check_count(e, Set::count, where);
    bool const allowed = allowed_.load(detail::memory_order::relaxed);
    if (!allowed || stream.is_capturing(where)) {
      if (e != nullptr) return e->value;
      char const* names[Set::count];
      set.copy_names(names);
      choice made = guess(shape, names, Set::count, !allowed, where);
      bool const final = made.source == choice_source::stored;
      return table_.insert(shape, std::move(made), final).value;
    }
    check_recursion(where);
    detail::unique_lock<detail::mutex> const lock{mutex_};
    e = table_.find(shape);
    check_count(e, Set::count, where);
    if (e != nullptr && e->final) return e->value;
    check_device(stream, where);
    measuring_scope const measuring{measuring_};
    auto&& stopwatch = make_stopwatch();
    choice made = detail::with_search(stream, set, options_, stopwatch, where, [&](auto& search) {
      return stored_or_measured(shape, set, search);
    });
    bool const final = !made.interrupted;
    return table_.insert(shape, std::move(made), final).value;
  }

  static void check_count(entry const* e, std::size_t count, source_location where);
  void check_recursion(source_location where) const;
  void check_device(stream_ref stream, source_location where) const;
  // What the store has for a shape; no match: nothing that fits these candidates.
  tuning_match read(shape_key const& shape, char const* const* names, std::size_t count,
                    choice& made, std::size_t& second) const;
  void put(shape_key const& shape, choice& made) const;
  // Without a measurement.
  choice guess(shape_key const& shape, char const* const* names, std::size_t count, bool forbidden,
               source_location where) const;
  [[nodiscard]] tuning_key key_of(shape_key const& shape) const;

  template <typename Set, typename Search>
  choice stored_or_measured(shape_key const& shape, Set const& set, Search& search) const {
    char const* names[Set::count];
    set.copy_names(names);
    choice made;
    std::size_t second = detail::no_candidate;
    tuning_match const match = read(shape, names, Set::count, made, second);
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

  choose_options options_;
  device_id device_;
  tuning_key key_;
  std::vector<tuning_store> stores_;  // none, or one
  detail::choice_table table_;
  detail::mutex mutex_;  // held while measuring
  detail::atomic<pthread_t> measuring_;
  detail::atomic<bool> allowed_{true};
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/choose/chooser_definitions.hpp>
#endif
