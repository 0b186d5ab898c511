// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/batch_policy.hpp>

#include <warpwright/serve/detail/batcher_options_definitions.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE batch_policy::batch_policy(batcher_options const& options,
                                             latency_model const& model, std::size_t lanes,
                                             int const* devices, source_location where)
    : options_{detail::checked(values_of(options), model, where)} {
  if (lanes < 1 || lanes > 64) {
    detail::throw_invalid_argument(
        detail::text{"batch_policy: "} + lanes + " lanes; give 1 to 64, a stream each", where);
  }
  for (std::size_t i = 0; i < lanes; ++i) {
    lane_state& made = lanes_.emplace_back();
    made.ids.reserve(options_.max_items);
    made.device = devices == nullptr ? 0 : devices[i];
    std::size_t same = 0;
    while (lanes_[same].device != made.device) ++same;
    made.times = lanes_[same].times;
    if (same == i) {
      made.times = static_cast<std::uint32_t>(times_.size());
      times_.emplace_back(model);
    }
    ++devices_[made.times].lanes;
  }
  for (detail::rank_counts& counts : ranks_) counts = detail::rank_counts{horizon()};
}

// Finds or makes the queue of a key. Two keys of one hash have names one behind the other.
WARPWRIGHT_INLINE std::uint32_t batch_policy::queue_of(shape_key const& key) {
  std::uint64_t name = key.hash();
  std::uint32_t found = names_.find(name);
  while (found != detail::address_map::none && queues_[found].key != key) {
    found = names_.find(++name);
  }
  if (found != detail::address_map::none) return found;
  names_.reserve(names_.size() + 1);
  active_.reserve(queues_.size() + 1);
  free_queues_.reserve(queues_.size() + 1);
  if (free_queues_.empty()) {
    queues_.emplace_back();
    free_queues_.push_back(static_cast<std::uint32_t>(queues_.size() - 1));
  }
  std::uint32_t const made = free_queues_.back();
  free_queues_.pop_back();
  queue& q = queues_[made];
  q.key = key;
  q.hash = key.hash();
  q.name = name;
  q.active = static_cast<std::uint32_t>(active_.size());
  active_.push_back(made);
  names_.insert(name, made);
  return made;
}

WARPWRIGHT_INLINE bool batch_policy::fits(detail::batch_item const& item) const noexcept {
  return queued_ + running_ < options_.limit_items &&
         item.bytes <= options_.limit_bytes -
                           (bytes_ < options_.limit_bytes ? bytes_ : options_.limit_bytes) &&
         cost_ + item.cost <= options_.limit_cost;
}

WARPWRIGHT_INLINE void batch_policy::add(std::uint32_t id) noexcept {
  detail::batch_item& item = items_[id];
  queue& q = queues_[item.queue];
  q.heap.push(items_, id);
  ++q.count;
  ++queued_;
  bytes_ += item.bytes;
  cost_ += item.cost;
  item.state = detail::batch_item::queued;
  item.tick = ranks_[item.priority].insert(item.tick);
  item.expires = item.deadline < detail::never;
  if (item.expires) expiry_.push(items_, id);
  if (options_.full == when_full::shed) shed_.push(items_, id);
}

WARPWRIGHT_INLINE void batch_policy::leave_queue(std::uint32_t id) noexcept {
  detail::batch_item& item = items_[id];
  queue& q = queues_[item.queue];
  q.heap.erase(items_, id);
  if (options_.full == when_full::shed) shed_.erase(items_, id);
  ranks_[item.priority].erase(item.tick);
  --queued_;
  if (--q.count != 0) return;
  static_cast<void>(names_.erase(q.name));
  active_[q.active] = active_.back();
  queues_[active_.back()].active = q.active;
  active_.pop_back();
  free_queues_.push_back(item.queue);
}

// Of an item in no queue and no batch.
WARPWRIGHT_INLINE void batch_policy::forget(std::uint32_t id) noexcept {
  detail::batch_item& item = items_[id];
  if (item.expires) expiry_.erase(items_, id);
  item.expires = false;
  item.state = detail::batch_item::none;
  bytes_ -= item.bytes;
  cost_ = queued_ + running_ == 0 ? 0.0 : cost_ - item.cost;
}

WARPWRIGHT_INLINE void batch_policy::drop(std::uint32_t id, ticket_status status, double now,
                                          double predicted) {
  dropped_.push_back(dropped_request{id, status, false, now - items_[id].arrival, predicted});
  leave_queue(id);
  forget(id);
}

// @return in how many seconds a lane is predicted to be idle
WARPWRIGHT_INLINE double batch_policy::first_free(double now) const noexcept {
  double first = detail::never;
  for (lane_state const& l : lanes_) {
    double const rest = l.busy && l.end > now ? l.end - now : 0.0;
    if (rest < first) first = rest;
  }
  return first;
}

// The time from now to the answer of a request that is in no queue yet.
WARPWRIGHT_INLINE double batch_policy::predict(detail::batch_item const& item, std::uint64_t key,
                                               std::size_t in_queue, double now) const noexcept {
  double const most = static_cast<double>(options_.max_items);
  std::size_t before = ranks_[item.priority].up_to(item.tick);
  for (int p = item.priority + 1; p <= request::max_priority; ++p) before += ranks_[p].total();
  double const ahead = static_cast<double>(before);
  // Requests ahead with another key make batches of their own.
  double const same = static_cast<double>(in_queue < before ? in_queue : before);
  double const others = ahead - same;
  double const other_keys = static_cast<double>(active_.size() - 1);
  double other_batches = others / most;
  if (other_batches < other_keys) other_batches = others < other_keys ? others : other_keys;
  double const full = static_cast<double>(static_cast<std::size_t>(same / most));

  double lane_batches = 0.0;  // what runs, in full batches
  double rate = 0.0;          // full batches a second
  double shortest = detail::never;
  for (lane_state const& l : lanes_) {
    bool const shared = devices_[l.times].lanes > 1;
    double const whole = times_[l.times].typical(key, options_.max_items, shared);
    double const rest = l.busy && l.end > now ? l.end - now : 0.0;
    lane_batches += rest / whole;
    rate += 1.0 / whole;
  }
  double wait = first_free(now);
  if (other_batches + full > 0.0) {
    double other = 0.0;
    if (other_batches > 0.0) {
      auto const size = static_cast<std::size_t>(others / other_batches);
      detail::batch_times const& times = times_[lanes_[0].times];
      other = other_batches * times.typical(0, size) / times.typical(0, options_.max_items);
    }
    wait = (lane_batches + other + full) / rate;
    // Higher priorities that come meanwhile are served before it.
    double share = 0.0;
    for (int p = item.priority + 1; p <= request::max_priority; ++p) share += shares_[p];
    double const load = share / (interval_ * rate * most);
    wait /= 1.0 - (load < 0.95 ? load : 0.95);
  }
  // Later requests join its batch until that starts.
  double own = same - full * most + 1.0 + wait / (interval_ * (other_keys + 1.0));
  if (own > most) own = most;
  std::size_t const size = detail::padded_size(options_, static_cast<std::size_t>(own));
  for (lane_state const& l : lanes_) {
    bool const beside = wait > 0.0 ? devices_[l.times].lanes > 1 : is_beside(l);
    double const seconds = times_[l.times].upper(key, size, beside);
    if (seconds < shortest) shortest = seconds;
  }
  return wait + shortest;
}

WARPWRIGHT_INLINE admission batch_policy::submit(std::uint32_t id, request const& r, double now) {
  now = time(now);
  detail::request_values const& values = values_of(r);
  admission answer;
  double const interval = now - last_arrival_;
  interval_ += ((interval < 1.0 ? interval : 1.0) - interval_) / 64.0;
  if (interval_ < 1e-9) interval_ = 1e-9;
  for (double& share : shares_) share -= share / 64.0;
  shares_[values.priority] += 1.0 / 64.0;
  last_arrival_ = now;
  if (values.deadline < 0.0) {
    answer.refused = ticket_status::late;
    return answer;
  }
  if (items_.size() <= id) items_.resize(id + std::size_t{1});
  dropped_.reserve(dropped_.size() + queued_ + running_ + 1);
  aside_.reserve(queued_ + 1);

  detail::batch_item item;
  item.arrival = now;
  item.deadline = values.deadline > 0.0 ? now + values.deadline : detail::never;
  item.priority = static_cast<std::uint8_t>(values.priority);
  item.cost = values.cost;
  item.bytes = values.bytes;
  double const due = item.deadline < now + horizon() ? item.deadline : now + horizon();
  item.rank = due - options_.ageing * values.priority;
  detail::rank_counts& ranks = ranks_[values.priority];
  ranks.advance(now);
  item.tick = ranks.tick(due);

  answer.refused = ticket_status::shed;
  while (!fits(item)) {
    std::uint32_t const worst = shed_.top();
    if (worst == detail::no_item || !detail::shed_order::before(items_[worst], item)) {
      answer.full = true;
      answer.retry_after_seconds = first_free(now);
      return answer;
    }
    drop(worst, ticket_status::shed, now, 0.0);
  }
  item.queue = queue_of(values.key);
  queue const& q = queues_[item.queue];
  double const limit = values.deadline > 0.0 && values.deadline < options_.limit_wait
                           ? values.deadline
                           : options_.limit_wait;
  if (limit < detail::never) {
    answer.predicted_seconds = predict(item, q.hash, q.count, now);
    if (answer.predicted_seconds > limit) {
      item.probe = queued_ + running_ == 0 && now >= probe_at_;
      answer.retry_after_seconds = answer.predicted_seconds - limit;
    }
  }
  items_[id] = item;
  add(id);
  if (answer.predicted_seconds > limit && !item.probe) {
    leave_queue(id);
    forget(id);
    return answer;
  }
  answer.admitted = true;
  answer.refused = ticket_status::pending;
  return answer;
}

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
  if (active_.size() == 1) return active_[0];
  std::uint32_t best = detail::no_item;
  double least = 0.0;
  for (std::uint32_t const i : active_) {
    queue const& q = queues_[i];
    double spare = items_[q.heap.top()].rank;
    if (active_.size() <= 64) {  // times differ little beside many keys
      spare -= times_[at.times].typical(q.hash, choose_size(at, q, q.count).padded);
    }
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
    if (!other.busy) continue;
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
      until = now + rest + alone;
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
  for (std::uint32_t const id : aside_) of.heap.push(items_, id);
  aside_.clear();
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
      if (slower) return decision;
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
