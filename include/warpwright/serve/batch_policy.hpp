// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a batcher decides, without its threads, its clock and CUDA: every call is told the time.
// Simulate a service with it before building one:
//
//   ww::batch_policy policy{options, model, 1};
//   if (policy.submit(id, ww::request{}.deadline(20e-3), now).admitted) …
//   ww::batch_decision const d = policy.next(0, now);  // policy.batch(0)[0 … d.items)
//   policy.finished(0, now + seconds);
#pragma once

#include <warpwright/core/detail/container/address_map.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/serve/batcher_options.hpp>
#include <warpwright/serve/detail/batch_times.hpp>
#include <warpwright/serve/detail/request_order.hpp>
#include <warpwright/tune/latency_model.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// Whether a request may wait for a batch.
struct admission {
  bool admitted = false;
  ticket_status refused = ticket_status::pending;  ///< if not: shed or late
  bool full = false;                 ///< a limit of items, bytes or cost is the reason
  double predicted_seconds = 0.0;    ///< from submission to the answer; 0: no prediction was needed
  double retry_after_seconds = 0.0;  ///< when there will be room, by this batcher; 1e300: never
};

/// What a lane is to do.
struct batch_decision {
  std::size_t items = 0;   ///< of the batch; 0: nothing now
  std::size_t padded = 0;  ///< the size that it is padded to
  double predicted_seconds = 0.0;
  double until = 1e300;  ///< if nothing: when to ask again, unless a request comes or a batch ends
  /// If nothing: the idle lane of a faster device that what waits was left to, and that is to ask
  /// now; lanes() or more: none.
  std::size_t faster = ~std::size_t{0};
};

/// A request that the policy has given up.
struct dropped_request {
  std::uint32_t id;
  ticket_status status;      ///< late, shed or closing
  bool running;              ///< it stays part of a batch that runs, and its id in use
  double waited_seconds;     ///< since its submission
  double predicted_seconds;  ///< of a batch, if that is the reason
};

namespace detail {

struct batch_item {
  heap_links queue_links;
  heap_links expiry_links;
  heap_links shed_links;
  double rank = 0.0;      // who is first in a queue
  double deadline = 0.0;  // a time; 1e300: none
  double arrival = 0.0;
  double cost = 0.0;
  std::size_t bytes = 0;
  std::int64_t tick = 0;
  std::uint32_t queue = no_item;  // of a running one the lane
  std::uint8_t priority = 0;
  enum : std::uint8_t { none, queued, running } state = none;
  bool expires = false;  // is in the heap of deadlines
  bool probe = false;
};

struct rank_order {
  static bool before(batch_item const& a, batch_item const& b) noexcept { return a.rank < b.rank; }
};
struct expiry_order {
  static bool before(batch_item const& a, batch_item const& b) noexcept {
    return a.deadline < b.deadline;
  }
};
struct shed_order {
  static bool before(batch_item const& a, batch_item const& b) noexcept {
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.deadline != b.deadline ? a.deadline > b.deadline : a.arrival > b.arrival;
  }
};

}  // namespace detail

/// Decides which requests make a batch, on which lane, and which have to go.
///
/// **Which batch:** there is a queue for each key, in which the higher priority is first and then
/// the earlier deadline; a lane that is idle gets from the queue whose first request has least time
/// to spare all that is there, up to max_items(). It does not wait for more, but unless a full
/// batch waits it leaves the batch to a busy lane that would be done with it earlier on a faster
/// device, or whose batch would lose more time beside another one than this one wins.
/// **Which requests have to go:** at the door one that is predicted to miss its deadline behind the
/// requests ahead of it; from the queue one that its batch would answer too late; and what is late.
/// **How long a batch takes** is the model's answer, corrected by what batches have taken; requests
/// that seem hopeless are tried now and then while nothing runs, as the model may be wrong.
///
/// All times are in seconds, of one clock that does not go back; where it does, time stands still.
/// **Threads:** one at a time. **Cost:** O(log n) a request of n; a decision looks at each key that
/// has requests, if there are up to 64. Allocates only where there are more requests or keys than
/// ever before.
class batch_policy : detail::noncopyable {
 public:
  /// @param options  its limits, sizes and rules count
  /// @param model    seconds of a batch over its size
  /// @param lanes    batches that run at once, 1 to 64
  /// @param devices  of each lane a number that names its device; null: all are on one
  /// @throws std::invalid_argument  for an option out of range
  batch_policy(batcher_options const& options, latency_model const& model, std::size_t lanes,
               int const* devices = nullptr, source_location where = source_location::current());

  /// A request comes.
  /// @param id  the caller's, small numbers: any that no waiting or running request has
  /// @return whether it waits now; others may have gone instead, see dropped()
  /// @throws std::bad_alloc  and nothing has changed
  admission submit(std::uint32_t id, request const& r, double now);
  /// A lane that has finished asks what to do. Requests may go, see dropped().
  /// @return how many of batch() it must run, if any: it is busy then until finished()
  batch_decision next(std::size_t lane, double now);
  /// @return the ids of the lane's batch, in the order of their priorities and deadlines
  [[nodiscard]] std::uint32_t const* batch(std::size_t lane) const noexcept {
    return lanes_[lane].ids.begin();
  }
  /// The lane's batch has ended.
  /// @param learn  false: its time says nothing, as it failed
  void finished(std::size_t lane, double now, bool learn = true) noexcept;
  /// The caller of a request wants no answer any more.
  /// @return true: it has left the queue, and its id is free; false: its batch runs, or has ended
  bool cancel(std::uint32_t id) noexcept;
  /// Finds what is late, see dropped(); requests that run stay part of their batch.
  void expire(double now);
  /// From now on no lane waits for batcher_options::max_delay().
  void end_delays() noexcept { options_.max_delay = 0.0; }
  /// Gives up all that wait: their status is closing.
  void close(double now);
  /// @return the earliest deadline; 1e300: none
  [[nodiscard]] double next_expiry() const noexcept {
    return expiry_.empty() ? 1e300 : items_[expiry_.top()].deadline;
  }
  /// What submit(), next(), expire() and close() have given up since clear_dropped().
  [[nodiscard]] detail::array<dropped_request> const& dropped() const noexcept { return dropped_; }
  void clear_dropped() noexcept { dropped_.clear(); }

  /// @return the idle lane to wake for the next batch; lanes(): none is idle
  [[nodiscard]] std::size_t lane_to_wake() const noexcept;
  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_.size(); }
  [[nodiscard]] std::size_t queued() const noexcept { return queued_; }
  [[nodiscard]] std::size_t running() const noexcept { return running_; }
  [[nodiscard]] detail::batcher_values const& options() const noexcept { return options_; }
  /// @return keys that have waiting requests
  [[nodiscard]] std::size_t keys() const noexcept { return active_.size(); }
  /// @return the key of a lane's batch
  [[nodiscard]] shape_key const& key(std::size_t lane) const noexcept { return lanes_[lane].key; }
  /// @return until when the request's answer must be there; 1e300: none
  [[nodiscard]] double deadline(std::uint32_t id) const noexcept { return items_[id].deadline; }
  [[nodiscard]] double arrival(std::uint32_t id) const noexcept { return items_[id].arrival; }
  /// @return seconds that most batches of the size stay within, by what was learnt
  [[nodiscard]] double upper(std::size_t lane, shape_key const& key,
                             std::size_t size) const noexcept {
    return times_[lanes_[lane].times].upper(key.hash(), size, is_beside(lanes_[lane]));
  }

 private:
  using rank_heap = detail::pairing_heap<detail::batch_item, &detail::batch_item::queue_links,
                                         detail::rank_order>;
  struct queue {
    shape_key key;
    std::uint64_t hash = 0;
    std::uint64_t name = 0;  // in names_: hash, or one behind it
    rank_heap heap;
    std::uint32_t count = 0;
    std::uint32_t active = 0;  // its place in active_
    double rank = 0.0;         // of its first request
    detail::heap_links links;
  };
  struct queue_order {
    static bool before(queue const& a, queue const& b) noexcept { return a.rank < b.rank; }
  };
  struct lane_state {
    detail::array<std::uint32_t> ids;
    shape_key key;
    std::uint32_t times = 0;
    int device = 0;
    bool busy = false;
    double shared = 0.0;  // device_state::shared at the start
    double start = 0.0;
    double end = 0.0;  // predicted
    std::size_t padded = 0;
  };
  struct device_state {
    std::size_t lanes = 0;
    std::size_t busy = 0;
    double shared = 0.0;  // seconds in which two of them or more were busy
    double since = 0.0;   // when that was counted
  };
  struct size_choice {
    std::size_t items;
    std::size_t padded;
  };

  double time(double now) noexcept { return now_ = now > now_ ? now : now_; }
  double first_free(double now) const noexcept;
  double horizon() const noexcept { return 0.99 * options_.ageing; }
  // Whether another lane of the device is busy.
  bool is_beside(lane_state const& at) const noexcept {
    return devices_[at.times].busy > (at.busy ? 1U : 0U);
  }
  // @return seconds in which two lanes of the device or more were busy
  static double count_shared(device_state& device, double now) noexcept {
    if (device.busy > 1) device.shared += now - device.since;
    device.since = now;
    return device.shared;
  }
  std::uint32_t find_queue(shape_key const& key, std::uint64_t& name) const noexcept;
  std::uint32_t queue_of(shape_key const& key);
  void set_rank(std::uint32_t at) noexcept;
  bool fits(detail::batch_item const& item) const noexcept;
  void drop(std::uint32_t id, ticket_status status, double now, double predicted);
  void leave_queue(std::uint32_t id) noexcept;
  void forget(std::uint32_t id) noexcept;
  void add(std::uint32_t id) noexcept;
  double predict(detail::batch_item const& item, shape_key const& shape, double now) const noexcept;
  size_choice choose_size(lane_state const& at, queue const& of,
                          std::size_t available) const noexcept;
  std::uint32_t most_urgent(lane_state const& at) const noexcept;
  bool leave_to_another(std::size_t at, queue const& of, size_choice size, double now,
                        double& until) const noexcept;
  bool is_slower(lane_state const& at, queue const& of, std::size_t size) const noexcept;
  std::size_t faster_lane(lane_state const& at, queue const& of, std::size_t size) const noexcept;
  bool start(lane_state& at, queue& of, size_choice size, double now, bool slower);

  detail::batcher_values options_;
  detail::array<detail::batch_times> times_;  // of each device
  detail::array<lane_state> lanes_;
  device_state devices_[64];
  detail::array<detail::batch_item> items_;
  detail::array<queue> queues_;
  detail::array<std::uint32_t> free_queues_;
  detail::array<std::uint32_t> active_;  // queues with requests
  detail::pairing_heap<queue, &queue::links, queue_order> urgent_;
  detail::address_map names_;
  detail::pairing_heap<detail::batch_item, &detail::batch_item::expiry_links, detail::expiry_order>
      expiry_;
  detail::pairing_heap<detail::batch_item, &detail::batch_item::shed_links, detail::shed_order>
      shed_;
  detail::rank_counts ranks_[request::max_priority + 1];
  detail::array<dropped_request> dropped_;
  detail::array<std::uint32_t> aside_;  // of start()
  std::size_t queued_ = 0;
  std::size_t running_ = 0;
  std::size_t busy_ = 0;
  std::size_t bytes_ = 0;
  double cost_ = 0.0;
  double now_ = 0.0;
  double last_arrival_ = 0.0;
  double interval_ = 1.0;                          // between arrivals
  double shares_[request::max_priority + 1] = {};  // of the priorities in these
  double probe_at_ = 0.0;                          // when a hopeless request may be tried
  std::size_t turn_ = 0;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/serve/detail/batch_admission_definitions.hpp>
#include <warpwright/serve/detail/batch_policy_definitions.hpp>
#endif
