// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How long and how precisely measure() and compare() sample, and what ends them.
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <type_traits>

WARPWRIGHT_BEGIN

/// A non-owning reference to a predicate that asks a measurement to end early.
///
///   std::atomic<bool> quit{false};
///   auto const asked = [&] { return quit.load(); };
///   ww::measure(stream, step, ww::measure_options{}.stop_when(asked));
///
/// **Threads:** the predicate is called by the measuring thread, between samples.
class stop_predicate {
  template <typename Predicate>
  using if_predicate = std::enable_if_t<!std::is_same_v<Predicate, stop_predicate> &&
                                        std::is_invocable_r_v<bool, Predicate const&>>;

 public:
  /// Never asks to stop.
  constexpr stop_predicate() noexcept = default;
  /// @param predicate  `bool()`, const; true: stop; alive while this reference is used
  template <typename Predicate, typename = if_predicate<Predicate>>
  stop_predicate(Predicate const& predicate) noexcept
      : predicate_{&reinterpret_cast<char const&>(predicate)}, call_{[](char const* p) -> bool {
          return reinterpret_cast<Predicate const&>(*p)();
        }} {}
  template <typename Predicate, typename = if_predicate<Predicate>>
  stop_predicate(Predicate const&&) {
    static_assert(!std::is_same_v<Predicate, Predicate>,
                  "warpwright: a stop_predicate does not own the predicate, and a temporary is "
                  "destroyed before it is called; give it a name");
  }

  /// @return whether to stop
  [[nodiscard]] bool operator()() const { return call_ != nullptr && call_(predicate_); }

 private:
  char const* predicate_ = nullptr;
  bool (*call_)(char const*) = nullptr;
};

/// How long and how precisely to measure: a value, each setter of which returns a changed copy.
class measure_options {
  // Before its users: clang 14 instantiates it for a constant expression only so.
  template <typename T>
  [[nodiscard]] constexpr measure_options with(T measure_options::*member, T value) const {
    measure_options copy = *this;
    copy.*member = value;
    return copy;
  }

 public:
  /// @param seconds  the minimum duration of one sample; shorter calls are repeated within a
  ///   sample; 0: one call a sample
  [[nodiscard]] constexpr measure_options sample_seconds(double seconds) const {
    return with(&measure_options::sample_seconds_, seconds);
  }
  /// @param count  calls before the first sample, whose times are discarded. The first samples are
  ///   discarded as well while they become faster or slower, up to a quarter of max_seconds
  [[nodiscard]] constexpr measure_options warmup_calls(std::size_t count) const {
    return with(&measure_options::warmup_calls_, count);
  }
  /// @param count  the minimum number of samples while time is left, at least 1; with fewer than
  ///   50, a measurement does not settle
  [[nodiscard]] constexpr measure_options min_samples(std::size_t count) const {
    return with(&measure_options::min_samples_, count);
  }
  /// @param count  the maximum number of samples, at most 100,000
  [[nodiscard]] constexpr measure_options max_samples(std::size_t count) const {
    return with(&measure_options::max_samples_, count);
  }
  /// @param seconds  the minimum duration of the sampling, unless max_samples or max_seconds end it
  ///   first: phases, as of a GPU's clock rate or of other load, are seen if several of them pass
  ///   in that time
  [[nodiscard]] constexpr measure_options min_seconds(double seconds) const {
    return with(&measure_options::min_seconds_, seconds);
  }
  /// @param seconds  the time, warm-up and calibration included, after which sampling stops, once
  ///   there are 3 samples, or 6 turns of compare()
  [[nodiscard]] constexpr measure_options max_seconds(double seconds) const {
    return with(&measure_options::max_seconds_, seconds);
  }
  /// @param fraction  sampling stops when half the median's confidence interval is at most this
  ///   fraction of the median
  [[nodiscard]] constexpr measure_options precision(double fraction) const {
    return with(&measure_options::precision_, fraction);
  }
  /// @param count  inputs between which a callable `void(std::size_t index)` changes: index is 0
  ///   for its first call, 1 for the next, up to count - 1, then 0 again
  [[nodiscard]] constexpr measure_options inputs(std::size_t count) const {
    return with(&measure_options::inputs_, count);
  }
  /// @param predicate  sampling stops when it returns true; it is called between samples
  [[nodiscard]] constexpr measure_options stop_when(stop_predicate predicate) const {
    return with(&measure_options::stop_when_, predicate);
  }
  /// @param time  counts the limits of time, and the host's time per call; for tests
  [[nodiscard]] constexpr measure_options clock(detail::clock_ref time) const {
    return with(&measure_options::clock_, time);
  }

  [[nodiscard]] constexpr double sample_seconds() const { return sample_seconds_; }
  [[nodiscard]] constexpr std::size_t warmup_calls() const { return warmup_calls_; }
  [[nodiscard]] constexpr std::size_t min_samples() const { return min_samples_; }
  [[nodiscard]] constexpr std::size_t max_samples() const { return max_samples_; }
  [[nodiscard]] constexpr double min_seconds() const { return min_seconds_; }
  [[nodiscard]] constexpr double max_seconds() const { return max_seconds_; }
  [[nodiscard]] constexpr double precision() const { return precision_; }
  [[nodiscard]] constexpr std::size_t inputs() const { return inputs_; }
  [[nodiscard]] constexpr stop_predicate stop_when() const { return stop_when_; }
  [[nodiscard]] constexpr detail::clock_ref clock() const { return clock_; }

 private:
  double sample_seconds_ = 2e-3;
  std::size_t warmup_calls_ = 3;
  std::size_t min_samples_ = 50;
  std::size_t max_samples_ = 1000;
  double min_seconds_ = 0.5;
  double max_seconds_ = 2.0;
  double precision_ = 0.01;
  std::size_t inputs_ = 1;
  stop_predicate stop_when_{};
  detail::clock_ref clock_{};
};

/// Why sampling ended.
enum class stop_reason {
  precision_reached,  ///< the median's interval is as narrow as requested
  noise_settled,      ///< the noise does not change any more, and more samples would not suffice
  out_of_samples,     ///< max_samples
  out_of_time,        ///< max_seconds
  interrupted,        ///< the predicate of stop_when()
};

/// The reason in words.
char const* to_string(stop_reason reason);

namespace detail {

// What a stopwatch has returned, unless no time can be so, or what was timed has left an error
// pending: a launch that failed would be measured as fast.
// @param timed  what it was, a string literal
// @param name   the name that a user has given it, or null
double checked_seconds(double seconds, char const* timed, source_location where,
                       char const* name = nullptr);

// Options is measure_options: a template, so that a file which only includes the header does not
// compile it.
template <typename Options>
WARPWRIGHT_NOINLINE void check_measure_options(Options const& o, source_location where);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/measure_options_definitions.hpp>
#endif
