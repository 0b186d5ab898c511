// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The queues, and whether a request comes into one.
#pragma once

#include <warpwright/serve/batch_policy.hpp>

#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// Throws for values that no batcher can have; sorts the sizes.
WARPWRIGHT_COLD WARPWRIGHT_INLINE batcher_values checked(batcher_values values,
                                                         latency_model const& model,
                                                         source_location where) {
  auto const refuse = [&](char const* name, text const& value, char const* remedy) {
    throw_invalid_argument(text{"batcher_options: "} + name + " of " + value + "; " + remedy,
                           where);
  };
  auto const in = [&](char const* name, double value, double low, double high, char const* remedy) {
    if (!(value >= low && value <= high)) refuse(name, text{value}, remedy);
  };
  if (values.max_items == 0) values.max_items = model.last();
  if (values.max_items < 1 || values.max_items > 65536) {
    refuse("max_items", text{values.max_items}, "give 1 to 65,536");
  }
  if (values.limit_items < 1 || values.limit_items > (std::size_t{1} << 24U)) {
    refuse("limit_items", text{values.limit_items}, "give 1 to 16,777,216");
  }
  if (values.size_count > batcher_values::most_sizes) {
    refuse("a list of preferred sizes", text{values.size_count}, "give at most 16");
  }
  std::size_t count = 0;  // by insertion, each once
  for (std::size_t i = 0; i < values.size_count; ++i) {
    std::size_t const size = values.sizes[i];
    if (size < 1 || size > values.max_items) {
      refuse("preferred size", text{size}, "give sizes from 1 to max_items()");
    }
    std::size_t at = 0;
    while (at < count && values.sizes[at] < size) ++at;
    if (at < count && values.sizes[at] == size) continue;
    for (std::size_t j = count++; j > at; --j) values.sizes[j] = values.sizes[j - 1];
    values.sizes[at] = size;
  }
  values.size_count = count;
  in("limit_cost", values.limit_cost, 1e-300, never, "give a sum of costs above 0");
  in("limit_wait", values.limit_wait, 1e-300, never, "give seconds above 0");
  in("max_block", values.max_block, 0.0, 1e9, "give seconds from 0 to 1e9");
  in("max_delay", values.max_delay, 0.0, 1e9, "give seconds from 0 to 1e9");
  in("ageing", values.ageing, 1e-3, 1e9, "give seconds from 0.001 to 1e9");
  in("watchdog", values.watchdog, 1e-9, never, "give seconds above 0");
  in("drain", values.drain, 0.0, 1e9, "give seconds from 0 to 1e9");
  return values;
}

}  // namespace detail

WARPWRIGHT_INLINE batch_policy::batch_policy(batcher_options const& options,
                                             latency_model const& model, std::size_t lanes,
                                             int const* devices, source_location where)
    : options_{detail::checked(values_of(options), model, where)} {
  if (lanes < 1 || lanes > 64) {
    detail::throw_invalid_argument(
        detail::text{"lanes of a batcher: "} + lanes + "; give 1 to 64, a stream each", where);
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

// @return the queue of a key, or none. Two keys of one hash have names one behind the other
WARPWRIGHT_INLINE std::uint32_t batch_policy::find_queue(shape_key const& key,
                                                         std::uint64_t& name) const noexcept {
  name = key.hash();
  std::uint32_t found = names_.find(name);
  while (found != detail::address_map::none && queues_[found].key != key) {
    found = names_.find(++name);
  }
  return found;
}

WARPWRIGHT_INLINE std::uint32_t batch_policy::queue_of(shape_key const& key) {
  std::uint64_t name = 0;
  std::uint32_t const found = find_queue(key, name);
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

// The queue's first request has changed.
WARPWRIGHT_INLINE void batch_policy::set_rank(std::uint32_t at) noexcept {
  queue& q = queues_[at];
  q.rank = q.heap.empty() ? detail::never : items_[q.heap.top()].rank;
  urgent_.push(queues_, at);
}

WARPWRIGHT_INLINE void batch_policy::add(std::uint32_t id) noexcept {
  detail::batch_item& item = items_[id];
  queue& q = queues_[item.queue];
  if (q.count != 0) urgent_.erase(queues_, item.queue);
  q.heap.push(items_, id);
  ++q.count;
  set_rank(item.queue);
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
  urgent_.erase(queues_, item.queue);
  q.heap.erase(items_, id);
  if (options_.full == when_full::shed) shed_.erase(items_, id);
  ranks_[item.priority].erase(item.tick);
  --queued_;
  if (--q.count != 0) return set_rank(item.queue);
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
WARPWRIGHT_INLINE double batch_policy::predict(detail::batch_item const& item,
                                               shape_key const& shape, double now) const noexcept {
  std::uint64_t name = 0;
  std::uint32_t const own_queue = find_queue(shape, name);
  bool const is_new = own_queue == detail::address_map::none;
  std::size_t const in_queue = is_new ? 0 : queues_[own_queue].count;
  std::uint64_t const key = shape.hash();
  double const most = static_cast<double>(options_.max_items);
  std::size_t before = ranks_[item.priority].up_to(item.tick);
  for (int p = item.priority + 1; p <= request::max_priority; ++p) before += ranks_[p].total();
  double const ahead = static_cast<double>(before);
  // Requests ahead with another key make batches of their own.
  double const same = static_cast<double>(in_queue < before ? in_queue : before);
  double const others = ahead - same;
  double const other_keys = static_cast<double>(active_.size() - (is_new ? 0 : 1));
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
  if (item.bytes > options_.limit_bytes || item.cost > options_.limit_cost) {
    answer.full = true;
    answer.retry_after_seconds = detail::never;
    return answer;
  }
  double const limit = values.deadline > 0.0 && values.deadline < options_.limit_wait
                           ? values.deadline
                           : options_.limit_wait;
  if (limit < detail::never) {
    answer.predicted_seconds = predict(item, values.key, now);
    if (answer.predicted_seconds > limit) {
      item.probe = queued_ + running_ == 0 && now >= probe_at_;
      answer.retry_after_seconds = answer.predicted_seconds - limit;
      if (!item.probe) return answer;
    }
  }
  while (!fits(item)) {
    std::uint32_t const worst = shed_.top();
    if (worst == detail::no_item || !detail::shed_order::before(items_[worst], item)) {
      answer.full = true;
      double const free = first_free(now);  // 0: of a batch that takes longer than predicted
      answer.retry_after_seconds =
          free > 0.0 ? free : times_[lanes_[0].times].typical(0, options_.max_items);
      return answer;
    }
    drop(worst, ticket_status::shed, now, 0.0);
  }
  item.queue = queue_of(values.key);
  items_[id] = item;
  add(id);
  shares_[values.priority] += 1.0 / 64.0;
  answer.admitted = true;
  answer.refused = ticket_status::pending;
  return answer;
}

WARPWRIGHT_END
