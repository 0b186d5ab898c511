// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Recorded allocation traces, replayed on the pool and on its peers by one thread:
//
//   memory_replay_bench [--passes N] [--rounds N] [Google Benchmark's options] TRACE...
//
// replay/<trace>/<allocator>/<idle|busy> is the host's time for one operation (an allocation or a
// free), without that of the loop that reads the trace, which is measured with an allocator that
// does nothing (loop_ns). In each of the rounds the trace is replayed `passes` times on one new
// allocator: the first pass, in which the allocator grows, is counted as cold_ns, and the time is
// the median of the later ones. ratio is the peak of reserved memory over all passes, divided by
// the trace's peak of live memory. Between passes all blocks are free and the streams are idle.
// `idle`: there is no other work on the streams. `busy`: every 32nd operation is preceded by a
// kernel of 20 us on its stream, and the device is up to 32 kernels behind the host; the time of
// launching them does not count. torch_replay.py puts PyTorch's allocator to the same passes.
//
// least_limit/<trace>/<allocator> is the least limit of reserved memory under which one pass over
// the trace completes on a new allocator, as a multiple of the peak of live memory (least_limit);
// its time is that of an operation under this limit. A limit that suffices is assumed to suffice
// where it is larger.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "peer_allocators.hpp"
#include "replay_passes.hpp"
#include "support/run.hpp"
#include "trace_file.hpp"  // of tools/warpwright_replay

namespace ww = warpwright;

namespace {

using bench_support::allocator_kind;
using bench_support::any_allocator;
using bench_support::interpreter;
using bench_support::loop_nanoseconds;
using bench_support::median;
using bench_support::passes_and_rounds;
using bench_support::replay_result;

void report_spread(benchmark::State& state, std::vector<double> ns) {
  std::size_t next = 0;
  for (auto _ : state) state.SetIterationTime(1e-9 * ns[next++ % ns.size()]);
  std::sort(ns.begin(), ns.end());
  state.counters["median_us"] = 1e-3 * ns[ns.size() / 2];
  state.counters["p10_us"] = 1e-3 * ns[ns.size() / 10];
  state.counters["p90_us"] = 1e-3 * ns[ns.size() * 9 / 10];
}

void replay_trace(benchmark::State& state, replay::trace const& what, allocator_kind const& kind,
                  bool busy, passes_and_rounds const& how) {
  replay_result r;
  try {
    r = bench_support::measure(
        what, [&kind](replay::stream_set& s) { return kind.make(s, bench_support::unlimited); },
        busy, how);
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
    return;
  }
  report_spread(state, r.warm);
  state.counters["cold_ns"] = median(r.cold);
  state.counters["cold_least_ns"] = *std::min_element(r.cold.begin(), r.cold.end());
  state.counters["cold_most_ns"] = *std::max_element(r.cold.begin(), r.cold.end());
  state.counters["ratio"] = static_cast<double>(r.peak_reserved_bytes) /
                            static_cast<double>(std::max<std::uint64_t>(what.peak_live_bytes, 1));
  state.counters["peak_live_mb"] = 1e-6 * static_cast<double>(what.peak_live_bytes);
  state.counters["peak_reserved_mb"] = 1e-6 * static_cast<double>(r.peak_reserved_bytes);
  if (r.cold_calls > 0.0) {
    state.counters["cold_cuda_calls_per_op"] = r.cold_calls;
    state.counters["cuda_calls_per_op"] = r.warm_calls;
  }
  state.counters["loop_ns"] = loop_nanoseconds(what, busy);
  state.counters["ops"] = static_cast<double>(what.operations.size());
  state.counters["streams"] = what.streams;
  state.counters["passes"] = how.passes;
  state.counters["rounds"] = how.rounds;
}

// --- The least limit
// ------------------------------------------------------------------------------

// 1.000, 1.005 ... 1.100, then in wider steps.
std::vector<double> limits_to_try() {
  std::vector<double> all;
  for (int i = 0; i <= 20; ++i) all.push_back(1.0 + 0.005 * i);
  for (int i = 1; i < 10; ++i) all.push_back(1.1 + 0.1 * i);
  for (double const more : {2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0}) all.push_back(more);
  return all;
}

std::optional<double> nanoseconds_under(replay::trace const& what, allocator_kind const& kind,
                                        double multiple) {
  auto const bytes = static_cast<std::size_t>(multiple * static_cast<double>(what.peak_live_bytes));
  replay::stream_set streams{what.streams};
  interpreter replayed{what, streams};
  try {
    std::unique_ptr<any_allocator> const on = kind.make(streams, bytes);
    return replayed.run(*on, nullptr);
  } catch (std::bad_alloc const&) {  // less than what it preallocates
    return std::nullopt;
  }
}

void least_limit(benchmark::State& state, replay::trace const& what, allocator_kind const& kind) {
  std::vector<double> const limits = limits_to_try();
  std::size_t low = 0;
  std::size_t high = limits.size();  // the first that is known to suffice
  double ns = 0.0;
  try {
    while (low < high) {
      std::size_t const middle = (low + high) / 2;
      std::optional<double> const taken = nanoseconds_under(what, kind, limits[middle]);
      if (taken) {
        high = middle;
        ns = std::max(*taken - loop_nanoseconds(what, false), 0.0);
      } else {
        low = middle + 1;
      }
    }
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
    return;
  }
  if (high == limits.size()) {
    std::string const problem = "does not complete under a limit of " +
                                std::to_string(limits.back()) + " times the peak of live memory";
    state.SkipWithError(problem.c_str());
    return;
  }
  report_spread(state, {ns});
  state.counters["least_limit"] = limits[high];
}

// --- Arguments
// ------------------------------------------------------------------------------------

constexpr char const* usage =
    "memory_replay_bench [--passes N] [--rounds N] [Google Benchmark's options] TRACE..., where a "
    "trace "
    "is a CSV that warpwright_replay reads";

void register_all(std::vector<std::string> const& arguments) {
  passes_and_rounds how;
  static std::vector<replay::trace> traces;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string const& flag = arguments[i];
    if (flag == "--passes" || flag == "--rounds") {
      bool const passes = flag == "--passes";
      std::string const value = i + 1 < arguments.size() ? arguments[++i] : std::string{};
      auto const n =
          static_cast<unsigned>(replay::detail::integer(flag, value, passes ? 2 : 1, 1000));
      (passes ? how.passes : how.rounds) = n;
    } else if (flag.rfind("--", 0) == 0) {
      throw std::invalid_argument("unknown argument \"" + flag + "\"; usage: " + usage);
    } else {
      traces.push_back(replay::read_trace(flag));
    }
  }
  if (traces.empty()) throw std::invalid_argument(std::string{"no trace given; usage: "} + usage);
  for (replay::trace const& what : traces) {
    auto const add = [](std::string const& name, unsigned samples, auto const& run) {
      benchmark::RegisterBenchmark(name.c_str(), run)
          ->Iterations(samples)
          ->Repetitions(1)  // it reports the spread of its own samples
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    };
    for (bool const busy : {false, true}) {
      for (allocator_kind const& kind : bench_support::allocator_kinds()) {
        if (kind.needs_limit) continue;  // it reserves what it is given
        add("replay/" + what.name + '/' + kind.name + (busy ? "/busy" : "/idle"),
            how.rounds * (how.passes - 1), [&what, &kind, busy, how](benchmark::State& state) {
              replay_trace(state, what, kind, busy, how);
            });
      }
    }
    for (allocator_kind const& kind : bench_support::allocator_kinds()) {
      if (!kind.takes_limit || kind.slack_only) continue;
      add("least_limit/" + what.name + '/' + kind.name, 1,
          [&what, &kind](benchmark::State& state) { least_limit(state, what, kind); });
    }
  }
#if WARPWRIGHT_BENCH_RMM
  benchmark::AddCustomContext("version_RMM", rmm_peers::version());
#endif
}

}  // namespace

int main(int argc, char** argv) {
#if WARPWRIGHT_HOST_RUNTIME
  // Traces come from GPUs: the default is as much memory as the profile's board has.
  static_cast<void>(setenv("WARPWRIGHT_HOST_MEMORY_BYTES", "profile", 0));
#endif
  return bench_support::run(argc, argv, register_all);
}
