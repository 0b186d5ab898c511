// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A service on a virtual clock: a batch_policy, lanes that take the time that the truth says, and
// an open-loop stream of requests. It checks that each request ends once.
#pragma once

#include <warpwright/serve/batch_policy.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace simulation {

namespace ww = warpwright;

constexpr double never = 1e300;

/// Seconds of a batch of the service that the issue trackers of batchers talk about.
inline double affine(std::size_t batch) { return 2e-3 + 0.05e-3 * static_cast<double>(batch); }

/// @param scale  above 1: the model believes that batches take longer than they do
inline ww::latency_model model_of(std::function<double(std::size_t)> const& seconds, double scale) {
  std::vector<ww::latency_point> points;
  for (std::size_t b = 1; b <= 64; b *= 2) {
    points.push_back({b, scale * seconds(b), 1.01 * scale * seconds(b), 0});
  }
  return ww::latency_model::fit(points);
}

struct setup {
  ww::batcher_options options = ww::batcher_options{}.max_items(64);
  std::function<double(std::size_t)> seconds = affine;  // the truth
  double model_scale = 1.0;
  double noise = 0.0;                 // of the truth, uniform, +-
  std::vector<double> lanes = {1.0};  // how much slower each is; its device
  double slowdown = 2.0;              // of a batch beside another one of its device
  double load = 1.0;                  // of the capacity at 64 items
  std::size_t requests = 100000;
  unsigned seed = 1;
  // The request of number i.
  std::function<ww::request(std::size_t, std::mt19937_64&)> make =
      [](std::size_t, std::mt19937_64&) { return ww::request{}.deadline(20e-3); };
};

struct outcome {
  std::size_t in_time = 0, refused = 0, shed = 0, late = 0, answered_late = 0, batches = 0;
  std::vector<double> latency;
  double seconds = 0.0, capacity = 0.0, mean_batch = 0.0;

  [[nodiscard]] double quantile(double q) {
    std::sort(latency.begin(), latency.end());
    return latency[static_cast<std::size_t>(q * static_cast<double>(latency.size() - 1))];
  }
  /// @return requests a second answered in time, as a share of the capacity
  [[nodiscard]] double goodput() const { return static_cast<double>(in_time) / seconds / capacity; }
};

inline void require(bool holds, char const* what) {
  if (!holds) throw std::runtime_error{what};
}

inline outcome run(setup const& s) {
  std::mt19937_64 random{s.seed};
  std::vector<int> devices;
  outcome o;
  for (std::size_t i = 0; i < s.lanes.size(); ++i) {
    std::size_t const same = static_cast<std::size_t>(
        std::find(s.lanes.begin(), s.lanes.end(), s.lanes[i]) - s.lanes.begin());
    devices.push_back(static_cast<int>(same));
    double const capacity = 64.0 / s.seconds(64) / s.lanes[i];
    o.capacity += same == i ? capacity : (2.0 / s.slowdown - 1.0) * capacity;  // two at most
  }
  ww::batch_policy policy{s.options, model_of(s.seconds, s.model_scale), devices.size(),
                          devices.data()};
  enum class state { free, waiting, running, expired };
  std::vector<state> ids;
  std::vector<std::uint32_t> unused;
  std::vector<std::size_t> size(s.lanes.size());
  std::vector<double> done(s.lanes.size(), never);
  std::exponential_distribution<double> interval{s.load * o.capacity};
  std::uniform_real_distribution<double> unit{-1.0, 1.0};
  double now = 0.0;
  double ask = never;  // when a policy that waits wants to be asked again
  double arrival = interval(random);
  std::size_t sent = 0;
  std::size_t items = 0;

  auto const take_dropped = [&] {
    for (ww::dropped_request const& d : policy.dropped()) {
      require(ids[d.id] == (d.running ? state::running : state::waiting), "a request ended twice");
      ids[d.id] = d.running ? state::expired : state::free;
      if (!d.running) unused.push_back(d.id);
      if (d.status == ww::ticket_status::shed) ++o.shed;
      if (d.status == ww::ticket_status::late && !d.running) ++o.late;
    }
    policy.clear_dropped();
  };
  auto const ask_lane = [&](std::size_t lane) {
    ww::batch_decision const d = policy.next(lane, now);
    take_dropped();
    if (d.items == 0) {
      ask = std::min(ask, d.until);
      return;
    }
    require(d.items <= d.padded && d.padded <= 64, "a batch has a size that it cannot have");
    for (std::size_t i = 0; i < d.items; ++i) {
      require(ids[policy.batch(lane)[i]] == state::waiting, "a batch has a request that is gone");
      ids[policy.batch(lane)[i]] = state::running;
    }
    size[lane] = d.items;
    bool beside = false;
    for (std::size_t i = 0; i < done.size(); ++i) {
      beside = beside || (done[i] != never && devices[i] == devices[lane]);
    }
    done[lane] = now + s.seconds(d.padded) * s.lanes[lane] * (1.0 + s.noise * unit(random)) *
                           (beside ? s.slowdown : 1.0);
    ++o.batches;
    items += d.items;
  };
  auto const ask_idle = [&] {
    for (std::size_t lane = policy.lane_to_wake(); lane < policy.lanes() && policy.queued() != 0;) {
      ask_lane(lane);
      if (done[lane] == never) break;
      lane = policy.lane_to_wake();
    }
  };
  for (;;) {
    auto const lane =
        static_cast<std::size_t>(std::min_element(done.begin(), done.end()) - done.begin());
    double const next = std::min({arrival, done[lane], policy.next_expiry(), ask});
    if (next == never) break;
    now = next;
    if (next == done[lane]) {
      std::vector<std::uint32_t> const batch(policy.batch(lane), policy.batch(lane) + size[lane]);
      for (std::uint32_t const id : batch) {
        bool const in_time = ids[id] == state::running && now <= policy.deadline(id);
        in_time ? ++o.in_time : ++o.answered_late;
        if (in_time) o.latency.push_back(now - policy.arrival(id));
        ids[id] = state::free;
        unused.push_back(id);
      }
      done[lane] = never;
      policy.finished(lane, now);
      ask_lane(lane);
      ask_idle();
    } else if (next == policy.next_expiry()) {
      policy.expire(now);
      take_dropped();
    } else if (next == ask) {
      ask = never;
      ask_idle();
    } else {
      if (unused.empty()) {
        unused.push_back(static_cast<std::uint32_t>(ids.size()));
        ids.push_back(state::free);
      }
      std::uint32_t const id = unused.back();
      unused.pop_back();
      ww::admission const a = policy.submit(id, s.make(sent, random), now);
      take_dropped();
      if (a.admitted) {
        ids[id] = state::waiting;
        ask_idle();
      } else {
        ++o.refused;
        unused.push_back(id);
      }
      arrival = ++sent < s.requests ? now + interval(random) : never;
    }
  }
  require(o.in_time + o.answered_late + o.refused + o.shed + o.late == s.requests,
          "not every request has ended");
  require(policy.queued() + policy.running() + policy.keys() == 0, "the policy is not empty");
  o.seconds = now;
  o.mean_batch =
      static_cast<double>(items) / static_cast<double>(std::max<std::size_t>(o.batches, 1));
  return o;
}

/// @return what a batcher does that sends all that waits as soon as it can, and drops nothing
inline outcome greedy(setup s) {
  auto const make = s.make;
  s.make = [make](std::size_t i, std::mt19937_64& random) { return make(i, random).deadline(1e9); };
  return run(s);
}

}  // namespace simulation
