// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// How many items have a time up to some other: counts by ticks of a second at most ahead. What is
/// older than now is counted as one.
class rank_counts {
 public:
  static constexpr std::size_t ticks = 1024;

  /// @param horizon  seconds that times are ahead of now, at most
  explicit rank_counts(double horizon = 1.0) noexcept
      : tick_seconds_{horizon / (static_cast<double>(ticks) - 2.0)} {}

  /// @return the tick of a time, for what follows. @pre not below now by more than rounding
  [[nodiscard]] std::int64_t tick(double time) const noexcept {
    return static_cast<std::int64_t>(time / tick_seconds_);
  }
  /// Time has passed.
  void advance(double now) noexcept {
    std::int64_t const to = tick(now);
    if (to - first_ >= static_cast<std::int64_t>(ticks)) {
      overdue_ = total_;
      for (std::uint32_t& count : counts_) count = 0;
      for (std::uint32_t& sum : sums_) sum = 0;
      first_ = to;
    }
    for (; first_ < to; ++first_) {
      std::uint32_t& count = counts_[place(first_)];
      overdue_ += count;
      sums_[place(first_) / group] -= count;
      count = 0;
    }
  }
  /// @pre advance() was called with the time
  /// @return the tick that it is counted at: within the horizon
  std::int64_t insert(std::int64_t tick) noexcept {
    ++total_;
    if (tick < first_) {
      ++overdue_;
      return tick;
    }
    std::int64_t const last = first_ + static_cast<std::int64_t>(ticks) - 1;
    if (tick > last) tick = last;
    ++counts_[place(tick)];
    ++sums_[place(tick) / group];
    return tick;
  }
  /// @param tick  that insert() returned
  void erase(std::int64_t tick) noexcept {
    --total_;
    if (tick < first_) {
      --overdue_;
      return;
    }
    --counts_[place(tick)];
    --sums_[place(tick) / group];
  }
  /// @return how many have this tick or an earlier one
  [[nodiscard]] std::size_t up_to(std::int64_t tick) const noexcept {
    if (tick >= first_ + static_cast<std::int64_t>(ticks) - 1) return total_;
    std::size_t sum = overdue_;
    for (std::int64_t t = first_; t <= tick;) {
      if (place(t) % group == 0 && t + static_cast<std::int64_t>(group) - 1 <= tick) {
        sum += sums_[place(t) / group];
        t += static_cast<std::int64_t>(group);
      } else {
        sum += counts_[place(t++)];
      }
    }
    return sum;
  }
  [[nodiscard]] std::size_t total() const noexcept { return total_; }

 private:
  static constexpr std::size_t group = 32;
  static std::size_t place(std::int64_t tick) noexcept {
    return static_cast<std::size_t>(tick) % ticks;
  }

  double tick_seconds_;
  std::int64_t first_ = 0;  // the tick of now
  std::size_t overdue_ = 0;
  std::size_t total_ = 0;
  std::uint32_t counts_[ticks] = {};
  std::uint32_t sums_[ticks / group] = {};
};

}  // namespace detail

WARPWRIGHT_END
