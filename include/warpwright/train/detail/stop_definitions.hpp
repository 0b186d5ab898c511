// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/train/stop.hpp>

#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

WARPWRIGHT_BEGIN

namespace detail {

/// What the handlers know of the one stop_signal.
struct stop_state {
  static constexpr int none = 0, by_request = -1, by_time = -2, by_rank = -3;
  static constexpr int no_pipe = -1, ending = -2;  // there is no stop_signal; it ends
  atomic<int> reason{none};                        // or a signal
  atomic<int> received;                            // signals
  atomic<int> pipe{no_pipe};                       // to write to
  atomic<int> process;                             // that has the stop_signal
  atomic<int> handling;                            // handlers that run, in any thread
};
inline stop_state& the_stop_state() noexcept {
  static stop_state state;
  return state;
}

// Also in a signal handler.
inline void request_stop(int reason) noexcept {
  int expected = stop_state::none;
  if (!the_stop_state().reason.compare_exchange(expected, reason, memory_order::acq_rel,
                                                memory_order::relaxed)) {
    return;
  }
  // A child of fork() has the handlers, and shares the pipe: its signals are not the parent's.
  if (the_stop_state().process.load(memory_order::relaxed) != ::getpid()) return;
  int const error = errno;
  char const byte = 0;
  static_cast<void>(::write(the_stop_state().pipe.load(memory_order::acquire), &byte, 1) == 1);
  errno = error;
}

// Not extern "C": both runtimes may be in a program, each with a state of its own.
inline void handle_stop(int signal) {
  stop_state& state = the_stop_state();
  static_cast<void>(state.handling.fetch_add(1, memory_order::seq_cst));
  if (state.pipe.load(memory_order::seq_cst) >= 0) {
    if (state.received.fetch_add(1, memory_order::acq_rel) > 0) {
      ::signal(signal, SIG_DFL);
      ::raise(signal);
    } else {
      request_stop(signal);
    }
  }
  static_cast<void>(state.handling.fetch_sub(1, memory_order::seq_cst));
}

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE stop_signal::stop_signal(std::initializer_list<int> numbers,
                                                           stop_options options,
                                                           source_location where)
    : options_{std::move(options)} {
  if (numbers.size() > most) {
    detail::throw_invalid_argument(
        detail::text{"stop_signal: "} + numbers.size() + " signals; give at most 8", where);
  }
  if (!(options_.seconds_ >= 0.0 && options_.seconds_ <= 1e9)) {
    detail::throw_invalid_argument(detail::text{"stop_signal: a time limit of "} +
                                       options_.seconds_ + " s; give seconds above 0",
                                   where);
  }
  if (options_.seconds_ > 0.0) {
    until_ = options_.clock_.now() + static_cast<std::uint64_t>(options_.seconds_ * 1e9);
  }
  if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::runtime_error{(detail::text{"stop_signal: pipe2: "} + std::strerror(errno)).c_str()};
  }
  int expected = detail::stop_state::no_pipe;
  if (!detail::the_stop_state().pipe.compare_exchange(
          expected, pipe_[1], detail::memory_order::acq_rel, detail::memory_order::relaxed)) {
    ::close(pipe_[0]);
    ::close(pipe_[1]);
    detail::throw_invalid_argument("stop_signal: there is one in this process already", where);
  }
  detail::the_stop_state().process.store(::getpid(), detail::memory_order::relaxed);
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = &detail::handle_stop;
  action.sa_flags = SA_RESTART;
  for (int const signal : numbers) {
    if (::sigaction(signal, &action, &before_[installed_]) != 0) {
      restore();
      detail::throw_invalid_argument(
          detail::text{"stop_signal: signal "} + signal + " cannot be handled", where);
    }
    signals_[installed_++] = signal;
  }
}

WARPWRIGHT_INLINE void stop_signal::restore() noexcept {
  while (installed_ != 0) {
    --installed_;
    static_cast<void>(::sigaction(signals_[installed_], &before_[installed_], nullptr));
  }
  detail::stop_state& state = detail::the_stop_state();
  state.pipe.store(detail::stop_state::ending, detail::memory_order::seq_cst);
  // Handlers in other threads would write to a descriptor that may be another file's by then, and
  // leave their reason to the next stop_signal. A child of fork() has not these threads.
  if (state.process.load(detail::memory_order::relaxed) != ::getpid()) {
    state.handling.store(0, detail::memory_order::seq_cst);
  }
  for (int step = 0; state.handling.load(detail::memory_order::seq_cst) != 0; ++step) {
    detail::spin_wait(step);
  }
  state.reason.store(detail::stop_state::none, detail::memory_order::release);
  state.received.store(0, detail::memory_order::release);
  ::close(pipe_[0]);
  ::close(pipe_[1]);
  state.pipe.store(detail::stop_state::no_pipe, detail::memory_order::release);
}

WARPWRIGHT_INLINE stop_signal::~stop_signal() { restore(); }

WARPWRIGHT_INLINE bool stop_signal::requested() {
  using detail::stop_state;
  auto const mine = [] {
    return detail::the_stop_state().reason.load(detail::memory_order::acquire) != stop_state::none;
  };
  if (until_ != 0 && !mine() && options_.clock_.now() >= until_) {
    detail::request_stop(stop_state::by_time);
  }
  if (!options_.agree_) return mine();
  if (!agreed_ && options_.agree_(mine())) {
    agreed_ = true;
    detail::request_stop(stop_state::by_rank);
  }
  return agreed_;
}

WARPWRIGHT_INLINE void stop_signal::request() noexcept {
  detail::request_stop(detail::stop_state::by_request);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE char const* stop_signal::reason() const noexcept {
  switch (detail::the_stop_state().reason.load(detail::memory_order::acquire)) {
    case detail::stop_state::none:
      return "";
    case detail::stop_state::by_request:
      return "request()";
    case detail::stop_state::by_time:
      return "time limit";
    case detail::stop_state::by_rank:
      return "another rank";
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    default:
      return "a signal";
  }
}

WARPWRIGHT_END
