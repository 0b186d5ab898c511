// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Stops a step from being instantiated again and again: after `limit` builds without as many clean
/// replays between, it runs eagerly for a number of calls that doubles each time, and is tried
/// again. Builds follow refused updates or evictions.
class thrash_guard {
 public:
  static constexpr std::uint64_t first_pause = 64;
  static constexpr std::uint64_t longest_pause = 65536;

  explicit thrash_guard(unsigned limit) noexcept : limit_{limit} {}

  /// An executable was instantiated again. @param replays  all replays so far
  void rebuilt(std::uint64_t replays) noexcept {
    settled(replays, limit_);
    count();
  }
  /// The executables were evicted: a later call instantiates one again.
  /// @param replays  all replays so far
  /// @param paid     after so many clean replays, and no less than the limit, that does no harm
  void evicted(std::uint64_t replays, std::uint64_t paid = 0) noexcept {
    if (settled(replays, paid > limit_ ? paid : limit_) || pausing_) return;
    count();
    for_room_ = pausing_;
  }
  /// The step cannot be captured or launched at present. @param replays  all replays so far
  void failed(std::uint64_t replays) noexcept {
    settled(replays, first_pause);
    pause();
  }

  /// Whether the call must run eagerly. @param calls  all calls so far
  [[nodiscard]] bool paused(std::uint64_t calls) noexcept {
    if (!pausing_) return false;
    if (!started_) {
      started_ = true;
      until_ = calls + length_;
    }
    if (calls < until_) return true;
    resume();
    return false;
  }
  /// Ends the pause.
  void resume() noexcept {
    pausing_ = started_ = false;
    // One further rebuild is enough to pause again.
    streak_ = limit_ > 0 ? limit_ - 1 : 0;
  }
  /// The number of calls left of the pause. @pre paused(calls)
  [[nodiscard]] std::uint64_t left(std::uint64_t calls) const noexcept { return until_ - calls; }
  /// Whether the guard has stopped the step, without counting a call.
  [[nodiscard]] bool is_paused() const noexcept { return pausing_; }
  /// Whether the pause is for evictions, so that it may end when there is room.
  [[nodiscard]] bool waits_for_room() const noexcept { return pausing_ && for_room_; }
  /// The length of the present or last pause in calls.
  [[nodiscard]] std::uint64_t pause_calls() const noexcept { return length_; }
  /// How often the step was paused.
  [[nodiscard]] std::uint64_t pauses() const noexcept { return pauses_; }

 private:
  // Whether there were enough clean replays since the last event. After many of them the next pause
  // is short again.
  bool settled(std::uint64_t replays, std::uint64_t enough) noexcept {
    // A failed launch is taken back from the count.
    std::uint64_t const clean = replays > replays_before_ ? replays - replays_before_ : 0;
    replays_before_ = replays;
    if (clean < enough) return false;
    streak_ = 0;
    if (clean >= first_pause) pause_ = first_pause;
    return true;
  }
  void count() noexcept {
    if (++streak_ >= limit_) pause();
  }
  void pause() noexcept {
    pausing_ = true;
    started_ = for_room_ = false;
    ++pauses_;
    length_ = pause_;
    if (pause_ < longest_pause) pause_ *= 2;
  }

  unsigned limit_;
  unsigned streak_ = 0;
  bool pausing_ = false;
  bool started_ = false;
  bool for_room_ = false;
  std::uint64_t pause_ = first_pause;
  std::uint64_t length_ = 0;
  std::uint64_t until_ = 0;
  std::uint64_t pauses_ = 0;
  std::uint64_t replays_before_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
