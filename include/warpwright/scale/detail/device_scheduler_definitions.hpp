// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/detail/device_scheduler.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE double device_scheduler::best_pace() const noexcept {
  double best = 0.0;
  for (device const& d : all_) {
    double const pace = pace_of(d);
    if (pace > 0.0 && (best <= 0.0 || pace < best)) best = pace;
  }
  return best;
}

// Whether a device is to get a piece only to learn its speed: none is known, or it seemed too slow
// to get any since, which may have changed.
WARPWRIGHT_INLINE bool device_scheduler::to_explore(device const& d, double best) const noexcept {
  if (schedule_ != device_schedule::fastest || d.queued != 0) return false;
  return d.samples == 0 || d.passed_by * best > try_again * pace_of(d);
}

WARPWRIGHT_INLINE double device_scheduler::cost(device const& d, double items, double best,
                                                double now) const noexcept {
  if (d.resting > 0.0) return 1e200 * d.resting;
  if (schedule_ == device_schedule::round_robin) return 0.0;
  double const queued = d.queued_items;
  if (schedule_ == device_schedule::least_loaded || best <= 0.0) return queued;
  double pace = pace_of(d) > 0.0 ? pace_of(d) : best;
  double const waited = d.queued != 0 && now > d.progress ? now - d.progress : 0.0;
  bool const all_run = d.queued <= concurrent_;
  double const running =
      all_run ? queued : queued * static_cast<double>(concurrent_) / static_cast<double>(d.queued);
  if (waited > pace * running) pace = waited / running;
  return (queued + items) * pace - waited;
}

WARPWRIGHT_INLINE device_scheduler::choice device_scheduler::take(double items,
                                                                  double now) noexcept {
  double const best = best_pace();
  std::size_t chosen = 0;
  double least = 0.0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    std::size_t const index = (next_ + i) % all_.size();  // in turn where all are equal
    device const& d = all_[index];
    bool const explore = d.resting <= 0.0 && to_explore(d, best);
    double const c = explore ? -1e100 : cost(d, items, best, now);
    if (i == 0 || c < least) {
      least = c;
      chosen = index;
    }
  }
  if (all_[chosen].queued >= max_pieces_) return {chosen, true};
  begin(chosen, items, now);
  next_ = (chosen + 1) % all_.size();
  return {chosen, false};
}

WARPWRIGHT_INLINE void device_scheduler::begin(std::size_t index, double items,
                                               double now) noexcept {
  for (device& d : all_) {
    d.passed_by += 1.0;
    if (d.resting > 0.0) d.resting -= 1.0;
  }
  device& d = all_[index];
  if (d.queued++ == 0) d.progress = now;
  d.queued_items += items;
  d.passed_by = 0.0;
}

WARPWRIGHT_INLINE void device_scheduler::divide(std::size_t items,
                                                std::size_t* counts) const noexcept {
  double known = 0.0, unknown = 0.0, speeds = 0.0, working = 0.0;
  for (device const& d : all_) {
    if (d.resting <= 0.0) working += 1.0;
    if (pace_of(d) > 0.0) {
      known += 1.0;
      speeds += 1.0 / pace_of(d);
    }
  }
  bool const by_speed = schedule_ == device_schedule::fastest && known > 0.0;
  unknown = by_speed ? speeds / known : 1.0;  // the mean of the others
  auto const weight = [&](device const& d) {
    if (working > 0.0 && d.resting > 0.0) return 0.0;
    return by_speed && pace_of(d) > 0.0 ? 1.0 / pace_of(d) : unknown;
  };
  double sum = 0.0, all = 0.0;
  for (device const& d : all_) all += weight(d);
  std::size_t first = 0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    sum += weight(all_[i]);
    double const end = static_cast<double>(items) * (sum / all) + 0.5;
    std::size_t next = i + 1 == all_.size() ? items : static_cast<std::size_t>(end);
    next = next < first ? first : next > items ? items : next;
    counts[i] = next - first;
    first = next;
  }
  for (std::size_t i = 0; by_speed && i < all_.size(); ++i) {
    if (counts[i] != 0 || all_[i].resting > 0.0 || !to_explore(all_[i], best_pace())) continue;
    std::size_t from = 0;
    for (std::size_t k = 0; k < all_.size(); ++k) from = counts[k] > counts[from] ? k : from;
    if (counts[from] > 1) --counts[from], ++counts[i];
  }
}

WARPWRIGHT_INLINE void device_scheduler::complete(std::size_t index, double items, double seconds,
                                                  double now) noexcept {
  device& d = all_[index];
  --d.queued;
  d.queued_items = d.queued == 0 ? 0.0 : d.queued_items - items;
  d.progress = now;
  d.resting = 0.0;
  d.failed_in_turn = 0;
  ++d.completed;
  d.new_items += items;
  d.new_seconds += seconds;
  if (++d.new_pieces < concurrent_ && d.queued != 0) return;
  // The first one also loads kernels; another far from the mean may be an accident, two are not.
  double const expected = pace_of(d) * d.new_items;
  bool const unlike = d.new_seconds > 1.5 * expected || 1.5 * d.new_seconds < expected;
  bool const anew = ++d.samples <= 2 || (unlike && d.unlike);
  double const keep = anew ? 0.0 : 0.75;
  d.unlike = unlike && !anew;
  d.seconds =
      keep * d.seconds + (anew || d.new_seconds < 2.0 * expected ? d.new_seconds : 2.0 * expected);
  d.items = keep * d.items + d.new_items;
  d.new_items = d.new_seconds = 0.0;
  d.new_pieces = 0;
}

WARPWRIGHT_INLINE void device_scheduler::fail(std::size_t index, double items,
                                              double now) noexcept {
  device& d = all_[index];
  --d.queued;
  d.queued_items = d.queued == 0 ? 0.0 : d.queued_items - items;
  d.progress = now;
  ++d.failed;
  if (d.failed_in_turn < 10) ++d.failed_in_turn;
  d.resting = static_cast<double>(all_.size() * (std::size_t{1} << d.failed_in_turn));
}

}  // namespace detail

WARPWRIGHT_END
