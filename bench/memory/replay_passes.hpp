// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What memory_replay_bench and torch_replay.cpp share, so that their times compare: a trace's
// passes over one allocator, and what of them is timed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "any_allocator.hpp"
#include "replay.hpp"  // of tools/warpwright_replay
#include "support/keep_busy.hpp"
#include "trace_file.hpp"  // of tools/warpwright_replay

namespace bench_support {

/// How often a trace is replayed.
struct passes_and_rounds {
  unsigned passes = 5;
  unsigned rounds = 3;
};

/// Kernels on the streams of a replay.
class background_load {
 public:
  static constexpr std::uint64_t every_operations = 32;
  static constexpr unsigned microseconds = 20;

  /// A kernel on the stream, once the device is fewer than all of the events behind.
  void add(warpwright::stream_ref s) {
    warpwright::event& oldest = events_[next_++ % events_.size()];
    oldest.synchronize();
    keep_busy(s, microseconds);
    oldest.record(s);
  }

 private:
  std::array<warpwright::event, 32> events_;
  std::size_t next_ = 0;
};

/// One pass over a trace.
class interpreter {
 public:
  interpreter(replay::trace const& what, replay::stream_set& streams)
      : trace_{what}, streams_{streams}, blocks_(what.block_bytes.size()) {}

  /// Leaves no block allocated, and the streams idle.
  /// @param load  null: no other work on the streams
  /// @return ns an operation, with the loop's own; none where the allocator is out of memory
  std::optional<double> run(any_allocator& on, background_load* load) {
    std::optional<double> const taken = timed(on, load);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i] == nullptr) continue;
      on.deallocate(trace_.block_streams[i], trace_.block_streams[i], blocks_[i],
                    trace_.block_bytes[i]);
      blocks_[i] = nullptr;
    }
    streams_.synchronize();
    return taken;
  }

 private:
  std::optional<double> timed(any_allocator& on, background_load* load) {
    replay::detail::stopwatch watch;
    std::uint64_t until_load = load != nullptr ? 1 : ~std::uint64_t{0};
    watch.resume();
    for (replay::operation const& op : trace_.operations) {
      if (--until_load == 0) {
        watch.pause();
        load->add(streams_[op.stream]);
        until_load = background_load::every_operations;
        watch.resume();
      }
      void*& block = blocks_[op.block];
      if (op.allocates) {
        block = on.allocate(op.stream, op.bytes);
        if (block == nullptr && op.bytes != 0) return std::nullopt;
      } else {
        std::uint32_t const owner = trace_.block_streams[op.block];
        if (op.crosses) {  // as a program has to; not the allocator's time
          watch.pause();
          streams_.order(op.stream, owner, op.stream);
          watch.resume();
        }
        on.deallocate(op.stream, owner, block, op.bytes);
        block = nullptr;
      }
    }
    watch.pause();
    return watch.nanoseconds() / static_cast<double>(trace_.operations.size());
  }

  replay::trace const& trace_;
  replay::stream_set& streams_;
  std::vector<void*> blocks_;
};

/// The upper one of two in the middle.
inline double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

/// The loop's own time for one operation, measured once for each trace and mode.
inline double loop_nanoseconds(replay::trace const& what, bool busy) {
  static std::map<std::pair<replay::trace const*, bool>, double> known;
  auto const found = known.find({&what, busy});
  if (found != known.end()) return found->second;
  replay::stream_set streams{what.streams};
  background_load load;
  interpreter loop{what, streams};
  no_allocator nothing;
  std::vector<double> taken;
  for (int pass = 0; pass < 6; ++pass) {  // the first brings the trace to caches
    double const ns = loop.run(nothing, busy ? &load : nullptr).value();
    if (pass > 0) taken.push_back(ns);
  }
  return known[{&what, busy}] = median(taken);
}

/// Of one trace on one allocator.
struct replay_result {
  std::vector<double> cold;  ///< ns an operation, one a round
  std::vector<double> warm;  ///< all later passes of all rounds
  std::uint64_t peak_reserved_bytes = 0;
  double cold_calls = 0.0;  ///< CUDA calls an operation, of the last round
  double warm_calls = 0.0;
};

/// @param make  a new allocator: unique_ptr<any_allocator>(replay::stream_set&)
/// @throws std::runtime_error  when out of memory
template <class Make>
replay_result measure(replay::trace const& what, Make const& make, bool busy,
                      passes_and_rounds const& how) {
  replay_result r;
  double const loop = loop_nanoseconds(what, busy);
  double const operations = static_cast<double>(what.operations.size());
  for (unsigned round = 0; round < how.rounds; ++round) {
    replay::stream_set streams{what.streams};
    background_load load;
    interpreter replayed{what, streams};
    std::unique_ptr<any_allocator> const on = make(streams);
    double const calls_before = static_cast<double>(on->counters().cuda_calls);
    double calls_cold = 0.0;
    for (unsigned pass = 0; pass < how.passes; ++pass) {
      std::optional<double> const ns = replayed.run(*on, busy ? &load : nullptr);
      if (!ns) {
        throw std::runtime_error{"out of memory: the device has too little for a trace of " +
                                 std::to_string(what.peak_live_bytes) +
                                 " bytes; use a larger one, or one that nothing else uses"};
      }
      (pass == 0 ? r.cold : r.warm).push_back(std::max(*ns - loop, 0.0));
      if (pass == 0) calls_cold = static_cast<double>(on->counters().cuda_calls);
    }
    replay::allocator_counters const after = on->counters();
    r.peak_reserved_bytes = std::max(r.peak_reserved_bytes, after.reserved_peak_bytes);
    r.cold_calls = (calls_cold - calls_before) / operations;
    r.warm_calls =
        (static_cast<double>(after.cuda_calls) - calls_cold) / operations / (how.passes - 1);
  }
  return r;
}

}  // namespace bench_support
