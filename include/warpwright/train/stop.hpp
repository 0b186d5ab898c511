// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// When a run is to end: at a signal, at a time limit, or when the program says so.
//
//   ww::stop_signal stop{{SIGTERM, SIGINT}};
//   while (!stop.requested()) train_step();   // and in every other loop: data, evaluation
//   save();
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/error.hpp>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

WARPWRIGHT_BEGIN

/// Options of a stop_signal.
class stop_options {
 public:
  /// @param seconds  from the stop_signal's construction, above 0: less than the scheduler grants,
  ///   by a step and a save. Default: no limit
  stop_options& time_limit(double seconds) {
    seconds_ = seconds > 0.0 ? seconds : -1.0;
    return *this;
  }
  /// @param clock  for tests
  stop_options& clock(detail::clock_ref clock) {
    clock_ = clock;
    return *this;
  }
  /// Makes all ranks stop at the same step.
  /// @param function  `bool function(bool mine)`: whether any rank wants to stop, as an all-reduce
  ///   says. requested() calls it each time, so all ranks must call that equally often
  template <class F>
  stop_options& agree(F function) {
    agree_ = detail::owned_function<bool(bool)>{std::move(function)};
    return *this;
  }

 private:
  friend class stop_signal;
  double seconds_ = 0.0;
  detail::clock_ref clock_{};
  detail::owned_function<bool(bool)> agree_;
};

/// Remembers that the run is to end. Once it is, it stays so.
///
/// A second signal ends the process at once, by its default action.
///
/// @pre there is one in the process, as signal handlers have no context
/// **Threads:** requested() is for one thread, which agrees for its rank; request() and reason()
/// are for any, and request() for signal handlers, too.
class stop_signal : detail::noncopyable {
 public:
  /// Installs handlers, which interrupt no system call.
  /// @param numbers  of signals, up to 8; default: SIGTERM and SIGINT
  /// @throws std::invalid_argument  for a signal that cannot be handled, a limit that is not above
  ///   0, or if there is another stop_signal
  /// @throws std::runtime_error     when the system has no pipe
  explicit stop_signal(std::initializer_list<int> numbers = {SIGTERM, SIGINT},
                       stop_options options = {},
                       source_location where = source_location::current());
  /// Installs the handlers that were there before.
  ~stop_signal();

  /// @return whether the run is to end. **Cost:** some ns; with a time limit a reading of the clock
  [[nodiscard]] bool requested();
  /// Says that it is to end.
  void request() noexcept;
  /// @return why: "SIGTERM", "time limit", "request()", "another rank"; empty: it is not to end
  [[nodiscard]] char const* reason() const noexcept;
  /// @return a descriptor that is readable from then on: for poll(), beside others. In a child of
  ///   fork() it is the parent's
  [[nodiscard]] int descriptor() const noexcept { return pipe_[0]; }

 private:
  static constexpr std::size_t most = 8;

  void restore() noexcept;

  stop_options options_;
  std::uint64_t until_ = 0;
  int pipe_[2] = {-1, -1};
  int signals_[most] = {};
  struct sigaction before_[most];
  std::size_t installed_ = 0;
  bool agreed_ = false;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/train/detail/stop_definitions.hpp>
#endif
