// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An open-loop stream of requests with bursts, and the server that one would write by hand.
#pragma once

#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/serve/batcher.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace service {

namespace ww = warpwright;

using clock = std::chrono::steady_clock;

inline double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

/// Times of arrival: Poisson.
/// @param bursts  for 50 ms at 1.5 times the mean rate, then at half of it, and so on
inline std::vector<double> arrivals(double per_second, double seconds, bool bursts) {
  std::mt19937_64 random{7};
  std::uniform_real_distribution<double> unit{0.0, 1.0};
  std::vector<double> times;
  for (double t = 0.0; t < seconds;) {
    double const rate = per_second * (!bursts ? 1.0 : std::fmod(t, 0.1) < 0.05 ? 1.5 : 0.5);
    t -= std::log(1.0 - unit(random)) / rate;
    times.push_back(t);
  }
  return times;
}

/// Calls `submit(i)` at each time, late rather than not at all. @return seconds that it took
template <class Submit>
double drive(std::vector<double> const& times, Submit const& submit) {
  auto const begin = clock::now();
  for (std::size_t i = 0; i < times.size(); ++i) {
    while (seconds_since(begin) < times[i]) std::this_thread::yield();
    submit(i);
  }
  return seconds_since(begin);
}

/// What became of a stream of requests.
struct outcome {
  std::size_t sent = 0;
  std::size_t in_time = 0;
  std::size_t wrong = 0;        // values that are not the expected ones
  std::vector<double> latency;  // seconds, of all with a value
  double seconds = 0.0;
  double mean_batch = 0.0;
  double busy = 0.0;

  void print(double load, char const* server) {
    std::sort(latency.begin(), latency.end());
    auto const at = [&](double q) {
      return latency.empty() ? 0.0
                             : 1e3 * latency[static_cast<std::size_t>(
                                         q * static_cast<double>(latency.size() - 1))];
    };
    std::printf("%4.1f  %-16s %10.0f %9.0f %8.1f %% %9.2f %9.2f %7.1f %6.0f %%\n", load, server,
                static_cast<double>(sent) / seconds, static_cast<double>(in_time) / seconds,
                100.0 * static_cast<double>(in_time) / static_cast<double>(sent), at(0.5), at(0.99),
                mean_batch, 100.0 * busy);
  }
};

/// A queue with a lock, and a thread that runs what waits, first come, first served.
/// @param delay  0, or seconds that the first of a batch waits for others; each batch is then as
///   long as a full one, as in cuVS, whose timeout ends with the dispatch
/// @tparam Model  `stream_ref stream()`, `void run_eagerly(In const*, Out*, std::size_t)`
template <class In, class Out, class Model>
class queue_server {
 public:
  queue_server(ww::memory_pool& pool, Model& model, std::size_t max_items, double delay)
      : model_{model},
        max_items_{max_items},
        delay_{delay},
        inputs_(max_items),
        outputs_(max_items),
        device_inputs_{pool, model.stream(), max_items},
        device_outputs_{pool, model.stream(), max_items},
        thread_{[this] { run(); }} {}
  ~queue_server() { stop(); }

  // What waits gets no answer.
  void stop() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void submit(In const& input) {
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      waiting_.push_back({input, clock::now()});
    }
    wake_.notify_one();
  }
  // Seconds from submission to the answer, of all that have been answered.
  std::vector<double> latencies;
  std::size_t batches = 0;
  double busy_seconds = 0.0;

 private:
  struct entry {
    In input;
    clock::time_point arrived;
  };

  void run() {
    std::vector<entry> batch;
    for (;;) {
      batch.clear();
      {
        std::unique_lock<std::mutex> lock{mutex_};
        wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
        if (delay_.count() > 0.0) {
          wake_.wait_until(lock, waiting_.front().arrived + delay_,
                           [this] { return ending_ || waiting_.size() >= max_items_; });
        }
        if (ending_) return;
        while (!waiting_.empty() && batch.size() < max_items_) {
          batch.push_back(waiting_.front());
          waiting_.pop_front();
        }
      }
      auto const begin = clock::now();
      for (std::size_t i = 0; i < batch.size(); ++i) inputs_[i] = batch[i].input;
      ww::stream_ref const s = model_.stream();
      std::size_t const n = delay_.count() > 0.0 ? max_items_ : batch.size();
      device_inputs_.copy_from(s, inputs_.data(), n);
      model_.run_eagerly(device_inputs_.data(), device_outputs_.data(), n);
      device_outputs_.copy_to(s, outputs_.data(), n);
      s.synchronize();
      busy_seconds += seconds_since(begin);
      ++batches;
      for (entry const& e : batch) latencies.push_back(seconds_since(e.arrived));
    }
  }

  Model& model_;
  std::size_t max_items_;
  std::chrono::duration<double> delay_;
  std::vector<In> inputs_;
  std::vector<Out> outputs_;
  ww::device_buffer<In> device_inputs_;
  ww::device_buffer<Out> device_outputs_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<entry> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

/// Sends `inputs` at the times, over and over.
template <class Out, class In, class Model>
outcome drive_queue(ww::memory_pool& pool, Model& model, std::size_t max_items,
                    std::vector<In> const& inputs, std::vector<double> const& times,
                    double deadline, double delay = 0.0) {
  queue_server<In, Out, Model> server{pool, model, max_items, delay};
  outcome o;
  o.seconds = drive(times, [&](std::size_t i) { server.submit(inputs[i % inputs.size()]); });
  o.sent = times.size();
  std::this_thread::sleep_for(std::chrono::duration<double>(deadline));
  server.stop();
  o.latency = server.latencies;
  for (double const latency : o.latency) o.in_time += latency <= deadline ? 1U : 0U;
  auto const batches = static_cast<double>(std::max<std::size_t>(1, server.batches));
  o.mean_batch = static_cast<double>(o.latency.size()) / batches;
  o.busy = server.busy_seconds / (o.seconds + deadline);
  return o;
}

/// @param expected  the answer to each of the inputs
template <class In, class Out>
outcome drive_batcher(ww::batcher<In, Out>& server, std::vector<In> const& inputs,
                      std::vector<Out> const& expected, std::vector<double> const& times,
                      double deadline) {
  ww::batcher_statistics const before = server.statistics();
  std::vector<ww::ticket<Out>> tickets(times.size());
  outcome o;
  o.seconds = drive(times, [&](std::size_t i) {
    tickets[i] = server.submit(inputs[i % inputs.size()], ww::request{}.deadline(deadline));
  });
  o.sent = times.size();
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    Out const* const answer = tickets[i].wait();
    if (answer == nullptr) continue;
    o.wrong += *answer != expected[i % expected.size()] ? 1U : 0U;
    o.in_time += tickets[i].seconds() <= deadline ? 1U : 0U;
    o.latency.push_back(tickets[i].seconds());
  }
  ww::batcher_statistics const after = server.statistics();
  double const elapsed = after.elapsed_seconds - before.elapsed_seconds;
  o.mean_batch = static_cast<double>(after.items - before.items) /
                 static_cast<double>(std::max<std::size_t>(1, after.batches - before.batches));
  o.busy =
      (after.busy_seconds - before.busy_seconds) / (elapsed * static_cast<double>(after.lanes));
  return o;
}

}  // namespace service
