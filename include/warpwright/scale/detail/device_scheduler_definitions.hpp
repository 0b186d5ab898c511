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

WARPWRIGHT_INLINE double device_scheduler::cost(device const& d, double items, double best,
                                                double now) const noexcept {
  if (d.resting > 0.0) return 1e200 * d.resting;
  if (schedule_ == device_schedule::round_robin) return 0.0;
  if (schedule_ == device_schedule::least_loaded || best <= 0.0) return d.queued_items;
  if (explore(d, best)) return -1e200;
  double pace = pace_of(d) > 0.0 ? pace_of(d) : best;
  double const waited = d.queued != 0 && now > d.progress ? now - d.progress : 0.0;
  double running = d.queued_items;
  if (d.queued > concurrent_) running *= double(concurrent_) / double(d.queued);
  if (waited > pace * running) pace = waited / running;  // it is slower than it was
  return (d.queued_items + items) * pace - waited;
}

WARPWRIGHT_INLINE std::size_t device_scheduler::take(double items, double now) noexcept {
  double const best = best_pace();
  std::size_t chosen = none;
  double least = 0.0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    std::size_t const index = (next_ + i) % all_.size();  // in turn where all are equal
    double const c = cost(all_[index], items, best, now);
    if (chosen == none || c < least) {
      least = c;
      chosen = index;
    }
  }
  if (!begin(chosen, items, now)) return none;
  next_ = (chosen + 1) % all_.size();
  return chosen;
}

WARPWRIGHT_INLINE bool device_scheduler::begin(std::size_t index, double items,
                                               double now) noexcept {
  device& chosen = all_[index];
  if (chosen.queued >= max_pieces_) return false;
  for (device& d : all_) {
    d.passed_by += 1.0;
    if (d.resting > 0.0) d.resting -= 1.0;
  }
  if (chosen.queued++ == 0) chosen.progress = now;
  chosen.queued_items += items;
  chosen.passed_by = 0.0;
  return true;
}

WARPWRIGHT_INLINE void device_scheduler::end(std::size_t index, double items, double seconds,
                                             double now) noexcept {
  device& d = all_[index];
  --d.queued;
  d.queued_items = d.queued == 0 ? 0.0 : d.queued_items - items;
  d.progress = now;
  if (seconds < 0.0) {
    ++d.failed;
    if (d.failed_in_turn < 10) ++d.failed_in_turn;
    d.resting = double(all_.size() * (std::size_t{1} << d.failed_in_turn));
    return;
  }
  ++d.completed;
  d.failed_in_turn = 0;
  d.new_items += items;
  d.new_seconds += seconds;
  if (++d.new_pieces < concurrent_ && d.queued != 0) return;
  // The first one also loads kernels; another far from the mean may be an accident, two are not.
  double const expected = pace_of(d) * d.new_items, sample = d.new_seconds;
  bool const unlike = sample > 1.5 * expected || 1.5 * sample < expected;
  bool const anew = ++d.samples <= 2 || (unlike && d.unlike);
  double const keep = anew ? 0.0 : 0.75;
  d.unlike = unlike && !anew;
  d.seconds = keep * d.seconds + (anew || sample < 2.0 * expected ? sample : 2.0 * expected);
  d.items = keep * d.items + d.new_items;
  d.new_items = d.new_seconds = 0.0;
  d.new_pieces = 0;
}

WARPWRIGHT_INLINE void device_scheduler::divide(std::size_t items,
                                                std::size_t* counts) const noexcept {
  double known = 0.0, speeds = 0.0, working = 0.0, all = 0.0, sum = 0.0;
  for (device const& d : all_) {
    if (d.resting <= 0.0) working += 1.0;
    if (schedule_ != device_schedule::fastest || pace_of(d) <= 0.0) continue;
    known += 1.0;
    speeds += 1.0 / pace_of(d);
  }
  auto const weight = [&](device const& d) {
    if (working > 0.0 && d.resting > 0.0) return 0.0;
    if (known <= 0.0) return 1.0;
    return pace_of(d) > 0.0 ? 1.0 / pace_of(d) : speeds / known;
  };
  for (device const& d : all_) all += weight(d);
  std::size_t first = 0, largest = 0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    sum += weight(all_[i]);
    double const end = double(items) * (sum / all) + 0.5;
    std::size_t next = end < double(items) && i + 1 < all_.size() ? std::size_t(end) : items;
    if (next < first) next = first;
    counts[i] = next - first;
    first = next;
    if (counts[i] > counts[largest]) largest = i;
  }
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (counts[i] != 0 || counts[largest] < 2 || !explore(all_[i], best_pace())) continue;
    --counts[largest];
    ++counts[i];
  }
}

}  // namespace detail

WARPWRIGHT_END
