// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Times several ways to do one thing in turns, so that what changes in the machine meanwhile
// (clocks, what else its host does) changes for all: apart in time, one path's median differs from
// itself by a tenth.
#pragma once

#include <benchmark/benchmark.h>

#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace bench_support {

/// A size of a benchmark, and how it is timed.
struct turn_size {
  std::int64_t n;
  std::int64_t launches;  ///< between two events; a sample is their mean
  int samples;            ///< of each path
};

/// The paths of one benchmark, all over the same arrays.
/// @tparam Arrays  has sets(), which take turns, and bytes(), what a launch moves
template <class Arrays>
class turns {
 public:
  using make_function = std::function<std::unique_ptr<Arrays>(warpwright::stream_ref, std::size_t)>;

  explicit turns(make_function make) : make_{std::move(make)} {}

  /// @param launch    called with (stream, arrays, set)
  /// @param right     called with (arrays) once the path has run over every set, 0 the last; the
  ///   path is timed if it answers true
  /// @param smallest  the least n that this path is for
  template <class Launch, class Right>
  turns& add(std::string const& name, Launch launch, Right right, std::int64_t smallest = 0) {
    path added;
    added.name = name;
    added.launch = [launch](warpwright::stream_ref s, Arrays const& a, std::size_t launches,
                            std::size_t& set) {
      for (std::size_t k = 0; k < launches; ++k) {
        launch(s, a, set);
        if (++set == a.sets()) set = 0;
      }
    };
    added.right = right;
    added.smallest = smallest;
    paths_.push_back(std::move(added));
    return *this;
  }

  /// The launches between two events are those of one graph, of several that take turns.
  turns& in_graphs() {
    graphs_ = true;
    return *this;
  }

  /// Registers `name`/<path>/<n>/<launches> of each size and path, those of one size side by side:
  /// the first of them that runs measures all.
  static void register_all(std::shared_ptr<turns> const& all, std::string const& name,
                           std::vector<turn_size> const& sizes) {
    for (turn_size const& size : sizes) {
      for (path& of : all->paths_) {
        if (size.n < of.smallest) continue;
        benchmark::RegisterBenchmark(
            (name + "/" + of.name).c_str(),
            [all, size, &of](benchmark::State& state) { all->report(state, size, of); })
            ->Args({size.n, size.launches})
            ->Iterations(size.samples)
            ->Repetitions(1)  // it reports the spread of its own samples
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }

 private:
  struct path {
    std::string name;
    std::function<void(warpwright::stream_ref, Arrays const&, std::size_t, std::size_t&)> launch;
    std::function<bool(Arrays const&)> right;
    std::int64_t smallest = 0;
    bool failed = false;
    bool told = false;  // its samples are those of a repetition before this one
    std::vector<warpwright::graph_exec> graphs;
    std::vector<double> microseconds;
  };

  // As many graphs as it takes to go over all sets.
  static void capture(warpwright::stream_ref s, path& of, Arrays const& a, std::size_t launches) {
    of.graphs.clear();
    std::size_t set = 0;
    for (std::size_t first = 0; first < a.sets(); first += launches) {
      of.graphs.emplace_back(warpwright::capture(
          s, [&](warpwright::stream_ref captured) { of.launch(captured, a, launches, set); }));
    }
  }
  void launch(warpwright::stream_ref s, path& of, Arrays const& a, std::size_t launches,
              std::size_t& set) const {
    if (!graphs_) return of.launch(s, a, launches, set);
    of.graphs[set++ % of.graphs.size()].launch(s);
  }

  void measure(turn_size const& size) {
    warpwright::stream s;
    std::unique_ptr<Arrays> const arrays = make_(s, static_cast<std::size_t>(size.n));
    sets_ = arrays->sets();
    bytes_ = arrays->bytes();
    std::vector<path*> timed;
    for (path& of : paths_) {
      of.microseconds.clear();
      of.told = false;
      if (size.n < of.smallest) continue;
      // Set 0 last, so that what is checked cannot be what another set left.
      std::size_t set = arrays->sets() > 20 ? arrays->sets() - 20 : arrays->sets() > 1 ? 1 : 0;
      of.launch(s, *arrays, arrays->sets() - set + 1, set);
      s.synchronize();
      of.failed = !of.right(*arrays);
      if (!of.failed) timed.push_back(&of);
    }
    auto const launches = static_cast<std::size_t>(size.launches);
    std::size_t set = 0;
    if (graphs_) {
      for (path* of : timed) capture(s, *of, *arrays, launches);
    }
    // A GPU is up to 10 us a launch slower for some milliseconds after gigabytes were freed and
    // allocated, and after a rest.
    auto const began = std::chrono::steady_clock::now();
    do {
      for (path* of : timed) launch(s, *of, *arrays, launches, set);
      s.synchronize();
    } while (std::chrono::steady_clock::now() - began < std::chrono::milliseconds{30});

    warpwright::timed_event start;
    warpwright::timed_event stop;
    int const rounds = std::min(20, size.samples);
    for (int round = 0; round < rounds; ++round) {
      int const samples = size.samples * (round + 1) / rounds - size.samples * round / rounds;
      for (std::size_t k = 0; k < timed.size(); ++k) {
        path& of = *timed[(k + static_cast<std::size_t>(round)) % timed.size()];
        for (int sample = -1; sample < samples; ++sample) {  // the first brings its code to caches
          start.record(s.get());
          launch(s, of, *arrays, launches, set);
          stop.record(s.get());
          stop.synchronize();
          double const us = 1e3 * static_cast<double>(stop.milliseconds_since(start));
          if (sample >= 0) of.microseconds.push_back(us / static_cast<double>(launches));
        }
      }
    }
    for (path* of : timed) of->graphs.clear();
  }

  void report(benchmark::State& state, turn_size const& size, path& of) {
    if (measured_n_ != size.n || measured_launches_ != size.launches || of.told) measure(size);
    measured_n_ = size.n;
    measured_launches_ = size.launches;
    of.told = true;
    if (of.failed) {
      state.SkipWithError("wrong results");
      return;
    }
    std::vector<double>& us = of.microseconds;
    std::size_t next = 0;
    for (auto _ : state) state.SetIterationTime(1e-6 * us[next++ % us.size()]);
    std::sort(us.begin(), us.end());
    double const median = us[us.size() / 2];
    state.counters["median_us"] = median;
    state.counters["p10_us"] = us[us.size() / 10];
    state.counters["p90_us"] = us[us.size() * 9 / 10];
    state.counters["GB/s"] = static_cast<double>(bytes_) / median * 1e-3;
    state.counters["sets"] = static_cast<double>(sets_);
  }

  make_function make_;
  std::vector<path> paths_;
  bool graphs_ = false;
  std::int64_t measured_n_ = -1;
  std::int64_t measured_launches_ = -1;
  std::size_t sets_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace bench_support
