// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A simulated device: workloads advance its clock, the stopwatch reads it.
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/stream.hpp>

#include <cstddef>
#include <cstdint>

namespace test_support {

class simulated_clock {
 public:
  void advance(double seconds) { now_ += seconds; }
  double now() const { return now_; }
  // For the options of what is tested.
  warpwright::detail::clock_ref ref() {
    return {[](void* self) {
              return static_cast<std::uint64_t>(
                  1e9 * static_cast<simulated_clock const*>(self)->now_ + 0.5);
            },
            this};
  }

 private:
  double now_ = 0.0;
};

// A replacement of event_stopwatch.
class simulated_stopwatch {
 public:
  explicit simulated_stopwatch(simulated_clock& clock) : clock_{&clock} {}

  template <typename Call>
  double operator()(warpwright::stream_ref, Call& call, std::size_t repeats) {
    double const begin = clock_->now();
    for (std::size_t i = 0; i < repeats; ++i) call();
    calls_ += repeats;
    return clock_->now() - begin;
  }
  std::size_t calls() const { return calls_; }

 private:
  simulated_clock* clock_;
  std::size_t calls_ = 0;
};

// SplitMix64: the same numbers everywhere for one seed.
class noise_source {
 public:
  explicit noise_source(std::uint64_t seed) : state_{seed} {}
  // In [0, 1).
  double uniform() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * (1.0 / 9007199254740992.0);
  }

 private:
  std::uint64_t state_;
};

}  // namespace test_support
