// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a lane is to do.
#pragma once

#include <warpwright/serve/batch_policy.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE batch_policy::size_choice batch_policy::choose_size(
    lane_state const& at, queue const& of, std::size_t available) const noexcept {
  std::size_t const n = available < options_.max_items ? available : options_.max_items;
  std::size_t up = 0;
  std::size_t down = 0;
  for (std::size_t i = 0; i < options_.size_count; ++i) {
    if (options_.sizes[i] <= n) down = options_.sizes[i];
    if (options_.sizes[i] >= n && up == 0) up = options_.sizes[i];
  }
  if (up == 0) up = n;
  if (down == 0 || up == n || options_.rounding == batch_rounding::up) return {n, up};
  if (options_.rounding == batch_rounding::cheapest) {
    detail::batch_times const& times = times_[at.times];
    if (times.typical(of.hash, up) / static_cast<double>(n) <=
        times.typical(of.hash, down) / static_cast<double>(down)) {
      return {n, up};
    }
  }
  return {down, down};
}

// The queue whose first request has least time to spare.
WARPWRIGHT_INLINE std::uint32_t batch_policy::most_urgent(lane_state const& at) const noexcept {
  // Times differ little beside many keys.
  if (active_.size() == 1 || active_.size() > 64) return urgent_.top();
  std::uint32_t best = detail::no_item;
  double least = 0.0;
  for (std::uint32_t const i : active_) {
    queue const& q = queues_[i];
    double const spare =
        q.rank - times_[at.times].typical(q.hash, choose_size(at, q, q.count).padded);
    if (best == detail::no_item || spare < least) {
      best = i;
      least = spare;
    }
  }
  return best;
}

// Whether the last batch is better off with a lane that is busy.
WARPWRIGHT_INLINE bool batch_policy::leave_to_another(std::size_t at, queue const& of,
                                                      size_choice size, double now,
                                                      double& until) const noexcept {
  if (busy_ == 0 || options_.lanes != lane_choice::first_done) return false;
  if (queued_ >= options_.max_items) return false;
  detail::batch_times const& own = times_[lanes_[at].times];
  double const alone = own.typical(of.hash, size.padded);
  for (lane_state const& other : lanes_) {
    // One that takes twice its time may never end.
    double const overdue = 2.0 * other.end - other.start;
    if (!other.busy || now >= overdue) continue;
    // One that takes longer than predicted is believed to take as long again.
    double const rest = other.end > now ? other.end - now : now - other.end;
    bool better = false;
    if (other.times == lanes_[at].times) {
      double const lost = own.slowdown() - 1.0;  // of each second that both run
      double const wins = rest - alone * lost;
      double const loses = (rest < alone ? rest : alone) * lost;
      better =
          wins * static_cast<double>(size.items) <= loses * static_cast<double>(other.ids.size());
    } else {
      better = rest + times_[other.times].typical(of.hash, size.padded) < alone;
    }
    if (better) {
      until = now + rest + alone < overdue ? now + rest + alone : overdue;
      return true;
    }
  }
  return false;
}

// Whether another device is faster.
WARPWRIGHT_INLINE bool batch_policy::is_slower(lane_state const& at, queue const& of,
                                               std::size_t size) const noexcept {
  double const own = 0.9 * times_[at.times].typical(of.hash, size);
  for (detail::batch_times const& other : times_) {
    if (other.typical(of.hash, size) < own) return true;
  }
  return false;
}

// @return the fastest idle lane if it is faster than this one; otherwise lanes()
WARPWRIGHT_INLINE std::size_t batch_policy::faster_lane(lane_state const& at, queue const& of,
                                                        std::size_t size) const noexcept {
  double least = times_[at.times].typical(of.hash, size);
  std::size_t best = lanes_.size();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].busy) continue;
    double const seconds = times_[lanes_[i].times].typical(of.hash, size);
    if (seconds < least) {
      best = i;
      least = seconds;
    }
  }
  return best;
}

// @param slower  requests that are too late for this lane may be in time on another one
// @return false: no request was left that its batch would answer in time
WARPWRIGHT_INLINE bool batch_policy::start(lane_state& at, queue& of, size_choice size, double now,
                                           bool slower) {
  detail::batch_times const& times = times_[at.times];
  bool const beside = is_beside(at);
  double const upper = times.upper(of.hash, size.padded, beside);
  at.ids.clear();
  at.key = of.key;
  while (!of.heap.empty() && at.ids.size() < size.items) {
    std::uint32_t const id = of.heap.top();
    detail::batch_item& item = items_[id];
    bool const last = of.count == 1;  // then the queue ends
    if (!(item.deadline < now + upper) || item.probe) {
      leave_queue(id);
      item.state = detail::batch_item::running;
      item.queue = static_cast<std::uint32_t>(&at - lanes_.begin());
      at.ids.push_back(id);
    } else if (slower) {
      of.heap.erase(items_, id);
      aside_.push_back(id);
    } else {
      drop(id, ticket_status::shed, now, upper);
    }
    if (last) break;
  }
  if (!aside_.empty()) {
    auto const place = static_cast<std::uint32_t>(&of - queues_.begin());
    urgent_.erase(queues_, place);
    for (std::uint32_t const id : aside_) of.heap.push(items_, id);
    aside_.clear();
    set_rank(place);
  }
  std::size_t const n = at.ids.size();
  if (n == 0) return false;
  running_ += n;
  at.padded = n < size.items ? detail::padded_size(options_, n) : size.padded;
  at.busy = true;
  ++busy_;
  at.start = now;
  at.end = now + times.typical(at.key.hash(), at.padded, beside);
  device_state& device = devices_[at.times];
  at.shared = count_shared(device, now);
  ++device.busy;
  probe_at_ = now + 2.0 * upper;
  turn_ = (static_cast<std::size_t>(&at - lanes_.begin()) + 1) % lanes_.size();
  return true;
}

WARPWRIGHT_INLINE batch_decision batch_policy::next(std::size_t lane_index, double now) {
  now = time(now);
  lane_state& at = lanes_[lane_index];
  batch_decision decision;
  dropped_.reserve(dropped_.size() + queued_);
  while (queued_ != 0 && !at.busy) {
    queue& q = queues_[most_urgent(at)];
    std::uint32_t const first = q.heap.top();
    detail::batch_item& head = items_[first];
    size_choice size = choose_size(at, q, q.count);
    detail::batch_times const& times = times_[at.times];
    bool const beside = is_beside(at);
    if (leave_to_another(lane_index, q, size, now, decision.until)) return decision;
    bool const slower = is_slower(at, q, size.padded);
    if (!slower && !head.probe && head.deadline < now + times.upper(q.hash, size.padded, beside)) {
      size_choice fewer = size;
      while (fewer.items > 1 && head.deadline < now + times.upper(q.hash, fewer.padded, beside)) {
        fewer = choose_size(at, q, fewer.items - (fewer.items + 3) / 4);
      }
      double const upper = times.upper(q.hash, fewer.padded, beside);
      // A small batch now is worth it if the next one, with those that come meanwhile, is in time.
      double const keys = static_cast<double>(active_.size());
      double const spent = times.typical(q.hash, fewer.padded, beside) * keys;
      double const left = static_cast<double>(q.count - fewer.items) + spent / (interval_ * keys);
      double const most = static_cast<double>(options_.max_items);
      double const then =
          times.upper(q.hash, static_cast<std::size_t>(left < most ? left : most), beside);
      double const their_deadline =
          head.deadline + static_cast<double>(fewer.items) * interval_ * keys;
      bool const worth = their_deadline >= now + spent + then;
      if (head.deadline >= now + upper && worth) {
        size = fewer;
      } else if (busy_ == 0 && now >= probe_at_) {
        size = choose_size(at, q, 1);
        head.probe = true;
      } else {
        drop(first, ticket_status::shed, now, upper);
        continue;
      }
    }
    double const delayed = head.arrival + options_.max_delay;
    if (options_.max_delay > 0.0 && now < delayed && q.count < options_.max_items) {
      double const latest = head.deadline - times.upper(q.hash, size.padded, beside);
      decision.until = delayed < latest ? delayed : latest;
      if (decision.until > now) return decision;
    }
    decision.until = detail::never;
    if (!start(at, q, size, now, slower)) {
      if (slower) {
        decision.faster = faster_lane(at, q, size.padded);
        return decision;
      }
      continue;
    }
    decision.items = at.ids.size();
    decision.padded = at.padded;
    decision.predicted_seconds = at.end - now;
    return decision;
  }
  return decision;
}

WARPWRIGHT_INLINE void batch_policy::finished(std::size_t lane_index, double now,
                                              bool learn) noexcept {
  now = time(now);
  lane_state& at = lanes_[lane_index];
  if (!at.busy) return;
  device_state& device = devices_[at.times];
  double const shared = count_shared(device, now) - at.shared;
  --device.busy;
  double const seconds = now - at.start;
  if (learn && seconds > 0.0) {
    times_[at.times].observe(at.key.hash(), at.padded, seconds, shared / seconds);
  }
  running_ -= at.ids.size();
  for (std::uint32_t const id : at.ids) forget(id);
  at.busy = false;
  --busy_;
}

WARPWRIGHT_INLINE bool batch_policy::cancel(std::uint32_t id) noexcept {
  if (id >= items_.size()) return false;  // one that never came in
  detail::batch_item& item = items_[id];
  if (item.state == detail::batch_item::queued) {
    leave_queue(id);
    forget(id);
    return true;
  }
  if (item.expires) expiry_.erase(items_, id);
  item.expires = false;
  return false;
}

WARPWRIGHT_INLINE void batch_policy::expire(double now) {
  now = time(now);
  while (!expiry_.empty() && items_[expiry_.top()].deadline <= now) {
    std::uint32_t const id = expiry_.top();
    detail::batch_item& item = items_[id];
    if (item.state == detail::batch_item::queued) {
      drop(id, ticket_status::late, now, 0.0);
      continue;
    }
    dropped_.push_back(dropped_request{id, ticket_status::late, true, now - item.arrival, 0.0});
    expiry_.erase(items_, id);
    item.expires = false;
    times_[lanes_[item.queue].times].missed();
  }
}

WARPWRIGHT_INLINE void batch_policy::close(double now) {
  now = time(now);
  dropped_.reserve(dropped_.size() + queued_);
  while (!active_.empty()) {
    drop(queues_[active_[0]].heap.top(), ticket_status::closing, now, 0.0);
  }
}

WARPWRIGHT_INLINE std::size_t batch_policy::lane_to_wake() const noexcept {
  std::size_t best = lanes_.size();
  double least = 0.0;
  for (std::size_t n = 0; n < lanes_.size(); ++n) {
    std::size_t const i = (turn_ + n) % lanes_.size();
    if (lanes_[i].busy) continue;
    if (options_.lanes == lane_choice::round_robin || times_.size() == 1) return i;
    double const seconds = times_[lanes_[i].times].typical(0, options_.max_items);
    if (best == lanes_.size() || seconds < least) {
      best = i;
      least = seconds;
    }
  }
  return best;
}

WARPWRIGHT_END
