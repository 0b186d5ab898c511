// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What measure() and compare() pass to a stopwatch: the user's callable, which gets the index of
// its input, and which the host's clock times; and the time that a measurement takes.
#pragma once

#include <warpwright/core/detail/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

WARPWRIGHT_BEGIN

namespace detail {

// Seconds since construction, of a clock and of what a stopwatch reported: the larger of the two,
// as a simulated stopwatch does not advance the clock.
class measuring_time {
 public:
  explicit measuring_time(clock_ref clock) noexcept : clock_{clock}, start_{clock.now()} {}
  void add(double seconds) noexcept { reported_ += seconds; }
  [[nodiscard]] double elapsed() const noexcept {
    double const seconds = 1e-9 * static_cast<double>(clock_.now() - start_);
    return seconds > reported_ ? seconds : reported_;
  }

 private:
  clock_ref clock_;
  std::uint64_t start_;
  double reported_ = 0.0;
};

// Calls a callable with the index of its input, which goes from 0 to inputs - 1, and then to 0
// again.
template <typename Callable>
class indexed_call {
  static_assert(std::is_invocable_v<Callable&> || std::is_invocable_v<Callable&, std::size_t>,
                "warpwright: what is measured must be callable as void(), or as "
                "void(std::size_t index) with the index of its input");

 public:
  // @param next  the next index, which outlives this object
  indexed_call(Callable& callable, std::size_t inputs, std::size_t& next) noexcept
      : callable_{callable}, inputs_{inputs}, next_{next} {}

  void operator()() {
    if constexpr (std::is_invocable_v<Callable&>) {
      callable_();
    } else {
      callable_(next_);
      if (++next_ == inputs_) next_ = 0;
    }
  }

 private:
  Callable& callable_;
  std::size_t inputs_;
  std::size_t& next_;
};

// The same, and takes the host's time.
template <typename Callable>
class measured_call {
 public:
  measured_call(Callable& callable, std::size_t inputs, clock_ref clock) noexcept
      : call_{callable, inputs, next_}, clock_{clock} {}
  measured_call(measured_call const&) = delete;
  measured_call& operator=(measured_call const&) = delete;

  // Begins a sample of so many calls.
  void begin(std::size_t calls) noexcept {
    left_ = calls;
    first_ = true;
  }
  // The host's time from the first call of a sample to the end of its last, of all samples since
  // construction.
  [[nodiscard]] double host_seconds() const noexcept { return 1e-9 * static_cast<double>(host_); }

  void operator()() {
    if (first_) {
      begin_ = clock_.now();
      first_ = false;
    }
    call_();
    if (--left_ == 0) host_ += clock_.now() - begin_;
  }

 private:
  std::size_t next_ = 0;
  indexed_call<Callable> call_;
  clock_ref clock_;
  std::size_t left_ = 0;
  bool first_ = false;
  std::uint64_t begin_ = 0;
  std::uint64_t host_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
