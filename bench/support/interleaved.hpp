// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The harness of all benchmarks that compare times: our path and its peers over the same rotating
// buffers, with interleaved samples. A change of clocks or of the host's load then affects
// all of them; measured one after the other, a kernel's median differs from itself by a tenth.
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

using shape = std::vector<std::int64_t>;  ///< {n}, {rows, cols}: what a benchmark's name ends in

/// A size of a benchmark, and how it is sampled.
struct sampled_size {
  bench_support::shape shape;
  std::int64_t launches;      ///< between two events; a sample is their mean
  int samples;                ///< of each path, in at most 20 rounds
  bool name_launches = true;  ///< the name ends in /<shape>/<launches>, else in /<shape>
};

/// What a sample is the time of.
enum class timed {
  device,     ///< between two events around the launches
  host,       ///< of the calls on the host; the stream is idle before and drained afterwards
  end_to_end  ///< from the first call until the host has seen the stream idle
};

/// The paths of one benchmark, all over the same buffers. Each round samples every path, and the
/// next round begins with the next path.
/// @tparam Buffers  has sets(), which the launches go through in turn, and bytes(), what a launch
///   moves, or 0 where that does not matter; rotating_buffers.hpp allocates them
template <class Buffers>
class interleaved {
 public:
  using make_function =
      std::function<std::unique_ptr<Buffers>(warpwright::stream_ref, shape const&)>;

  /// @param make  allocates and fills the buffers of a size
  explicit interleaved(make_function make) : make_{std::move(make)} {}

  /// @param call     called with (stream, buffers, set): makes one launch
  /// @param verify   called with (buffers) once the path has run over several sets, set 0 the last.
  ///   A path is timed if it returns true. It erases the results of set 0, and restores what the
  ///   path has changed of its inputs, so that the next path cannot pass by them.
  /// @param least_n  the least shape[0] that this path is measured at
  template <class Call, class Verify>
  interleaved& add(std::string const& name, Call call, Verify verify, std::int64_t least_n = 0) {
    path added;
    added.name = name;
    added.launch = [call](warpwright::stream_ref s, Buffers const& buffers, std::size_t launches,
                          std::size_t& set) {
      for (std::size_t k = 0; k < launches; ++k) {
        call(s, buffers, set);
        if (++set == buffers.sets()) set = 0;
      }
    };
    added.verify = verify;
    added.least_n = least_n;
    paths_.push_back(std::move(added));
    return *this;
  }

  /// The launches between two events become those of one CUDA graph. As many graphs are captured as
  /// it takes to go through all sets, and they are launched in turn.
  interleaved& in_graphs() {
    graphs_ = true;
    return *this;
  }

  /// Sets what a sample is the time of; timed::device where it is not called.
  interleaved& time(timed what) {
    timed_ = what;
    return *this;
  }

  /// Registers `name`/<path>/<shape>/<launches> for each size and path. The paths of one size are
  /// neighbours: the first of them that runs measures all.
  static void register_all(std::shared_ptr<interleaved> const& all, std::string const& name,
                           std::vector<sampled_size> const& sizes) {
    for (sampled_size const& size : sizes) {
      shape args = size.shape;
      if (size.name_launches) args.push_back(size.launches);
      for (path& of : all->paths_) {
        if (size.shape[0] < of.least_n) continue;
        benchmark::RegisterBenchmark(
            (name + "/" + of.name).c_str(),
            [all, size, &of](benchmark::State& state) { all->report(state, size, of); })
            ->Args(args)
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
    std::function<void(warpwright::stream_ref, Buffers const&, std::size_t, std::size_t&)> launch;
    std::function<bool(Buffers const&)> verify;
    std::int64_t least_n = 0;
    bool failed = false;
    bool reported = false;  // its samples are those of an earlier repetition
    std::vector<warpwright::graph_exec> graphs;
    std::vector<double> microseconds;
  };

  static void capture(warpwright::stream_ref s, path& of, Buffers const& buffers,
                      std::size_t launches) {
    of.graphs.clear();
    std::size_t set = 0;
    for (std::size_t first = 0; first < buffers.sets(); first += launches) {
      of.graphs.emplace_back(warpwright::capture(s, [&](warpwright::stream_ref captured) {
        of.launch(captured, buffers, launches, set);
      }));
    }
  }
  void launch(warpwright::stream_ref s, path& of, Buffers const& buffers, std::size_t launches,
              std::size_t& set) const {
    if (!graphs_) return of.launch(s, buffers, launches, set);
    of.graphs[set++ % of.graphs.size()].launch(s);
  }

  struct events {
    warpwright::timed_event start;
    warpwright::timed_event stop;
  };

  // The microseconds of some launches.
  double sample_of(warpwright::stream_ref s, events& marks, path& of, Buffers const& buffers,
                   std::size_t launches, std::size_t& set) const {
    if (timed_ == timed::device) {
      marks.start.record(s.get());
      launch(s, of, buffers, launches, set);
      marks.stop.record(s.get());
      marks.stop.synchronize();
      return 1e3 * static_cast<double>(marks.stop.milliseconds_since(marks.start));
    }
    s.synchronize();
    auto const begin = std::chrono::steady_clock::now();
    launch(s, of, buffers, launches, set);
    if (timed_ == timed::end_to_end) s.synchronize();
    std::chrono::duration<double, std::micro> const us = std::chrono::steady_clock::now() - begin;
    s.synchronize();
    return us.count();
  }

  void measure(sampled_size const& size) {
    warpwright::stream s;
    std::unique_ptr<Buffers> const buffers = make_(s, size.shape);
    sets_ = buffers->sets();
    bytes_ = buffers->bytes();
    std::vector<path*> timed;
    for (path& of : paths_) {
      of.microseconds.clear();
      of.reported = false;
      if (size.shape[0] < of.least_n) continue;
      // Set 0 last, so that what is verified cannot be the result of another set.
      std::size_t set = sets_ > 20 ? sets_ - 20 : sets_ > 1 ? 1 : 0;
      of.launch(s, *buffers, sets_ > 1 ? sets_ - set + 1 : 1, set);
      s.synchronize();
      of.failed = !of.verify(*buffers);
      if (!of.failed) timed.push_back(&of);
    }
    auto const launches = static_cast<std::size_t>(size.launches);
    std::size_t set = 0;
    if (graphs_) {
      for (path* of : timed) capture(s, *of, *buffers, launches);
    }
    // A GPU is up to 10 us a launch slower for some milliseconds after gigabytes were freed and
    // allocated, and after a rest.
    auto const began = std::chrono::steady_clock::now();
    do {
      for (path* of : timed) launch(s, *of, *buffers, launches, set);
      s.synchronize();
    } while (std::chrono::steady_clock::now() - began < std::chrono::milliseconds{30});

    events marks;
    int const rounds = std::min(20, size.samples);
    for (int round = 0; round < rounds; ++round) {
      int const samples = size.samples * (round + 1) / rounds - size.samples * round / rounds;
      for (std::size_t k = 0; k < timed.size(); ++k) {
        path& of = *timed[(k + static_cast<std::size_t>(round)) % timed.size()];
        for (int sample = -1; sample < samples; ++sample) {  // the first brings its code to caches
          double const us = sample_of(s, marks, of, *buffers, launches, set);
          if (sample >= 0) of.microseconds.push_back(us / static_cast<double>(launches));
        }
      }
    }
    for (path* of : timed) of->graphs.clear();
  }

  void report(benchmark::State& state, sampled_size const& size, path& of) {
    if (measured_shape_ != size.shape || measured_launches_ != size.launches || of.reported) {
      measure(size);
    }
    measured_shape_ = size.shape;
    measured_launches_ = size.launches;
    of.reported = true;
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
    if (bytes_ > 0) state.counters["GB/s"] = static_cast<double>(bytes_) / median * 1e-3;
    state.counters["sets"] = static_cast<double>(sets_);
  }

  make_function make_;
  std::vector<path> paths_;
  bool graphs_ = false;
  timed timed_ = timed::device;
  shape measured_shape_;
  std::int64_t measured_launches_ = -1;
  std::size_t sets_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace bench_support
