// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the fastest of several implementations of an operation by measuring them in turns.
//
//   auto const ways = ww::candidates(ww::candidate("rows", [&](ww::stream_ref s) { … }),
//                                    ww::candidate("tiles", [&](ww::stream_ref s) { … }))
//                         .verify([&](ww::stream_ref s) { return result_is_right(s); });
//   ww::choice const best = ww::choose(stream, ways);
//   std::puts(ww::to_text(best).c_str());
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/measure/compare.hpp>

#include <cstddef>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

/// What became of a candidate.
enum class candidate_state {
  not_timed,   ///< usable as far as known; there was nothing to compare it with, or no measurement
  compared,    ///< timed in turns with the others
  far_slower,  ///< left out: single calls took several times as long as another candidate's
  failed,      ///< left out: it threw an exception
  wrong,       ///< left out: the check of its results returned false
};

/// The state in words.
char const* to_string(candidate_state state);

/// Where a choice comes from.
enum class choice_source {
  measured,      ///< measured by this process
  checked,       ///< stored with another driver or runtime, and measured against the second best
  stored,        ///< read from the tuning_store; nothing was run
  not_measured,  ///< nothing may be measured now: a stored choice that fits less well, or the first
};

/// The source in words.
char const* to_string(choice_source source);

/// The figures of one candidate.
struct candidate_figures {
  std::string name;
  candidate_state state = candidate_state::not_timed;
  double median_seconds = 0.0;  ///< per call; far_slower: of its faster call; 0: not known
  /// Its time / the chosen one's; low and high are 0 where it was not compared by this process.
  time_ratio to_chosen;
  std::string reason;  ///< why it was left out; empty: it was not
};

/// Which of several implementations to use, and why.
struct choice {
  std::size_t index = 0;  ///< the chosen candidate's, in the order given
  std::string name;       ///< and its name
  choice_source source = choice_source::not_measured;
  bool shown_fastest = false;  ///< whether it is shown to be faster than all others that are usable
  std::string reason;          ///< why it was chosen, in words
  std::vector<candidate_figures> candidates;  ///< all of them, in the order given
  std::vector<std::string> warnings;          ///< what the tuning_store could not read or write
  bool interrupted = false;                   ///< whether a stop predicate ended the measurement
  double elapsed_seconds = 0.0;               ///< of the measurement; 0: nothing was measured
};

/// Formats a choice as a table for a terminal: a line for each candidate, then the reason.
/// @return text that ends in a newline
/// **Threads:** safe.
[[nodiscard]] std::string to_text(choice const& made);

namespace detail {

struct choose_settings {
  // Shorter than measure() samples, as there is a choice for every shape; a difference below the
  // precision does not matter to it.
  measure_options sampling =
      measure_options{}.sample_seconds(5e-4).min_seconds(0.1).max_seconds(2.0);
  double far_slower = 4.0;
  bool cold = false;
};

}  // namespace detail

/// How choose() and chooser compare candidates: a value, each setter of which returns a changed
/// copy.
class choose_options : public detail::options_base<choose_options, detail::choose_settings> {
 public:
  /// @param options  how long and how precisely to compare, all candidates of a shape together;
  ///   the default takes 0.1 to 2 s. For long calls max_seconds is raised such that each candidate
  ///   gets at least 6 turns, without which no difference can be shown
  constexpr self sampling(measure_options const& options) const {
    return with(&values::sampling, options);
  }
  /// @param factor  a candidate of which single calls take more than this many times as long as
  ///   another one's, and longer than a sample, is left out before the comparison; above 1, default
  ///   4
  constexpr self far_slower(double factor) const { return with(&values::far_slower, factor); }
  /// @param flush  whether the L2 cache is emptied before each call that is timed; the time of that
  ///   does not count. Default false: the calls run back to back, and find their data in the cache
  ///   if they fit. Set it where the program meets cold data: a weight that is read once a step,
  ///   with others in between. A candidate may win on warm data and lose on cold ones. A
  ///   measurement then takes device memory of twice the cache's size, and the host waits after
  ///   every call. Stored choices are kept apart. On the host runtime it changes no times
  constexpr self cold(bool flush = true) const { return with(&values::cold, flush); }

  constexpr measure_options const& sampling() const { return values_.sampling; }
  constexpr double far_slower() const { return values_.far_slower; }
  constexpr bool is_cold() const { return values_.cold; }
};

/// One implementation of an operation, with a name; see candidate().
template <typename Callable>
struct named_candidate {
  char const* name;
  Callable call;
};

/// Names an implementation of an operation, for candidates().
///
/// @param name  not empty, different from the others', and alive while it is used: a string literal
/// @param call  `void(stream_ref)`: enqueues the operation on the stream. It is copied: capture
///   buffers by reference or pointer
/// @return the two together
template <typename Callable>
[[nodiscard]] named_candidate<std::decay_t<Callable>> candidate(char const* name, Callable&& call) {
  static_assert(std::is_invocable_v<std::decay_t<Callable> const&, stream_ref>,
                "warpwright: a candidate must be callable as void(stream_ref), also if const: a "
                "lambda must not be mutable");
  return {name, std::forward<Callable>(call)};
}

namespace detail {

template <typename... Callables>
struct candidate_list {
  void call(std::size_t, stream_ref) const {}
  void copy_names(char const**) const noexcept {}
};

template <typename First, typename... Others>
struct candidate_list<First, Others...> {
  named_candidate<First> first;
  candidate_list<Others...> others;

  void call(std::size_t index, stream_ref stream) const {
    if (index == 0) {
      first.call(stream);
    } else {
      others.call(index - 1, stream);
    }
  }
  void copy_names(char const** names) const noexcept {
    *names = first.name;
    others.copy_names(names + 1);
  }
};

inline candidate_list<> list_candidates() { return {}; }
template <typename First, typename... Others>
candidate_list<First, Others...> list_candidates(named_candidate<First> first,
                                                 named_candidate<Others>... others) {
  return {std::move(first), list_candidates(std::move(others)...)};
}

struct always_right {
  bool operator()(stream_ref) const noexcept { return true; }
};
struct reset_nothing {
  void operator()(stream_ref) const noexcept {}
};
struct leave_out_nothing {
  bool operator()(std::exception_ptr const&) const noexcept { return false; }
};

}  // namespace detail

/// Implementations of one operation, in the order of preference, and how their results are checked;
/// made by candidates().
///
/// A value; the setters return a changed copy. **Threads:** as its callables.
template <typename Verify, typename Reset, typename Classifier, typename... Callables>
class candidate_set {
 public:
  /// The number of candidates.
  static constexpr std::size_t count = sizeof...(Callables);

  candidate_set(detail::candidate_list<Callables...> list, Verify verify, Reset reset,
                Classifier classifier)
      : list_{std::move(list)},
        verify_{std::move(verify)},
        reset_{std::move(reset)},
        classifier_{std::move(classifier)} {}

  /// Checks each candidate's result, once, before it is timed; a wrong one leaves it out.
  ///
  /// Pass `reset` too: a candidate that writes nothing leaves the right result of the one before it
  /// in place, and would pass.
  ///
  /// @param check  `bool(stream_ref)`: whether the result is right; called after the stream has
  ///   completed the candidate's work
  /// @param reset  `void(stream_ref)`: enqueues what destroys an earlier result, such as a memset
  ///   of the output; called before each candidate that is checked
  template <typename Check, typename NewReset = detail::reset_nothing>
  [[nodiscard]] candidate_set<Check, NewReset, Classifier, Callables...> verify(
      Check check, NewReset reset = {}) const {
    static_assert(
        std::is_invocable_r_v<bool, Check const&, stream_ref>,
        "warpwright: the check of candidates must be callable as bool(stream_ref), also if "
        "const: a lambda must not be mutable");
    static_assert(std::is_invocable_v<NewReset const&, stream_ref>,
                  "warpwright: what resets a result must be callable as void(stream_ref), also if "
                  "const: a lambda must not be mutable");
    return {list_, std::move(check), std::move(reset), classifier_};
  }
  /// @param classifier  `bool(std::exception_ptr const&)`: which further exceptions of a candidate
  ///   leave it out, beside running out of memory and std::invalid_argument. After a sticky CUDA
  ///   error, which loses the device, it is not asked
  template <typename NewClassifier>
  [[nodiscard]] candidate_set<Verify, Reset, NewClassifier, Callables...> leave_out(
      NewClassifier classifier) const {
    static_assert(std::is_invocable_r_v<bool, NewClassifier const&, std::exception_ptr const&>,
                  "warpwright: the classifier must be callable as bool(std::exception_ptr const&), "
                  "also if const: a lambda must not be mutable");
    return {list_, verify_, reset_, std::move(classifier)};
  }

  /// Runs one candidate.
  /// @param index   below `count`; otherwise nothing runs
  /// @param stream  passed to the candidate
  /// @throws whatever the candidate throws
  void run(std::size_t index, stream_ref stream) const { list_.call(index, stream); }
  /// @param names  gets the names, `count` of them
  void copy_names(char const** names) const noexcept { list_.copy_names(names); }

  /// Destroys an earlier result, as given to verify().
  void reset(stream_ref stream) const { reset_(stream); }
  /// @return whether the check given to verify() passes; true without one
  [[nodiscard]] bool is_right(stream_ref stream) const { return verify_(stream); }
  /// @return whether the user's classifier says that an exception leaves a candidate out
  [[nodiscard]] bool leaves_out(std::exception_ptr const& error) const {
    return classifier_(error);
  }

 private:
  detail::candidate_list<Callables...> list_;
  Verify verify_;
  Reset reset_;
  Classifier classifier_;
};

/// Collects implementations of one operation for choose() and chooser.
///
/// @param list  of candidate(), at least one, the preferred one first: where nothing can be
///   measured the first is chosen
/// @return the set, whose results are not checked; see candidate_set::verify()
template <typename... Callables>
[[nodiscard]] candidate_set<detail::always_right, detail::reset_nothing, detail::leave_out_nothing,
                            Callables...>
candidates(named_candidate<Callables>... list) {
  static_assert(sizeof...(Callables) >= 1, "warpwright: candidates() needs at least one candidate");
  return {detail::list_candidates(std::move(list)...), {}, {}, {}};
}

namespace detail {

// What a search calls; all of it outlives the search.
struct candidate_access {
  std::size_t count;
  char const* const* names;
  function_ref<void()> reset;                               // destroys an earlier result
  function_ref<void(std::size_t)> run;                      // runs one, and waits for it
  function_ref<bool()> is_right;                            // whether the result is right
  function_ref<double(std::size_t, std::size_t)> time;      // seconds of so many calls of one
  function_ref<bool(std::exception_ptr const&)> leave_out;  // the user's classifier
};

// What choose() does, whatever the types of candidates and stopwatch.
struct candidate_search {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  // Chooses among all candidates.
  [[nodiscard]] choice all() const;
  // Whether a stored choice still holds: the winner works, and is not slower than the second best.
  // Then `stored` gets the new figures. It holds as well where the check was interrupted.
  // @param second  may be none
  [[nodiscard]] bool confirm(std::size_t winner, std::size_t second, choice& stored) const;

  candidate_access access;
  choose_options const& options;
  source_location where;
};

void check_choose_arguments(char const* const* names, std::size_t count,
                            choose_options const& options, source_location where);

// Calls `use(search)` with a candidate_search over the set.
template <typename Set, typename Stopwatch, typename Use>
auto with_search(stream_ref stream, Set const& set, choose_options const& options,
                 Stopwatch& stopwatch, source_location where, Use&& use) {
  scoped_stream_device const current{stream.get()};
  char const* names[Set::count];
  set.copy_names(names);
  check_choose_arguments(names, Set::count, options, where);
  auto const reset = [&] {
    set.reset(stream);
    check_pending("the reset of a candidate_set", where);
  };
  auto const run = [&](std::size_t i) {
    set.run(i, stream);
    check_pending("a candidate", where, names[i]);
    stream.synchronize(where);
  };
  auto const is_right = [&] {
    bool const right = set.is_right(stream);
    check_pending("the check of a candidate_set", where);
    return right;
  };
  auto const time = [&](std::size_t i, std::size_t repeats) {
    auto const call = [&] { set.run(i, stream); };
    return checked_seconds(stopwatch(stream, call, repeats), "a candidate", where, names[i]);
  };
  array<l2_flush> flush;  // none, or one
  if (options.is_cold()) flush.emplace_back(where);
  auto const time_cold = [&](std::size_t i, std::size_t repeats) {
    double seconds = 0.0;
    for (std::size_t k = 0; k < repeats; ++k) {
      flush.front()(stream);
      seconds += time(i, 1);
    }
    return seconds;
  };
  using time_function = function_ref<double(std::size_t, std::size_t)>;
  time_function const time_calls =
      options.is_cold() ? time_function{time_cold} : time_function{time};
  auto const leave_out = [&](std::exception_ptr const& error) { return set.leaves_out(error); };
  candidate_search const search{
      {Set::count, names, reset, run, is_right, time_calls, leave_out}, options, where};
  return use(search);
}

}  // namespace detail

/// Chooses with another clock than CUDA events.
///
/// @param stopwatch  an event_stopwatch, or an object with the same call operator
/// The other parameters, the result and exceptions are those of choose().
template <typename Stopwatch, typename... Set>
[[nodiscard]] choice choose_with(Stopwatch& stopwatch, stream_ref stream,
                                 candidate_set<Set...> const& set,
                                 choose_options const& options = {},
                                 source_location where = source_location::current()) {
  detail::check_not_capturing("choose", stream, where);
  return detail::with_search(stream, set, options, stopwatch, where,
                             [](auto& search) { return search.all(); });
}

/// Finds the fastest of several implementations of an operation.
///
/// **Every candidate runs many times**: it must write its result, not add to it or change its
/// inputs, and must not depend on how often it ran. Each runs once, and its result is checked; then
/// they are sampled in turns, as compare() does it, so that a change of the GPU's clock rate or of
/// other load affects all of them. The one shown to be faster than all others is chosen, or of
/// those between which no difference is shown the one with the best median: a choice between equal
/// candidates may change from run to run.
///
/// A candidate is left out, with the reason, if it runs out of memory or throws
/// std::invalid_argument, or what candidate_set::leave_out() allows; if its result is wrong; or if
/// it is slower by far. **The calls run back to back, so that their data are often in the L2
/// cache**: set choose_options::cold() if the program meets them in DRAM.
///
/// @param stream   passed to the candidates, not capturing; its device is current while they run
/// @param set      the candidates
/// @param options  how long and how precisely to compare
/// @return the choice, with figures and reasons
/// @throws std::runtime_error if no candidate is left; its text has the reasons
/// @throws std::invalid_argument for names that are empty or not different, options out of range,
///   or a capturing stream
/// @throws cuda_error if timing fails, for an error of the work, or for one that a candidate, the
///   check or a call before has left pending (a failed launch would win); and whatever else a
///   candidate or the check throws
///
/// **Stream:** ordered on `stream`; blocks. **Capture:** not legal. **Cost:** 0.1 to 2 s by
/// default; longer for calls of more than some 40 ms.
template <typename... Set>
[[nodiscard]] choice choose(stream_ref stream, candidate_set<Set...> const& set,
                            choose_options const& options = {},
                            source_location where = source_location::current()) {
  event_stopwatch stopwatch{where};
  return choose_with(stopwatch, stream, set, options, where);
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/choose_definitions.hpp>
#endif
