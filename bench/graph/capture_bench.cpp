// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A row of short kernels, by the library and by raw CUDA calls, in interleaved samples; the number
// is that of the kernels.
//   replay   from the call until the host sees the stream idle
//   capture  host time of a capture, and of destroying the graph
//   pointer  host time of another pointer in all kernels: instantiated, updated, captured and
//   updated
#include <warpwright/core/launch.hpp>
#include <warpwright/graph.hpp>

#include <cstdint>
#include <memory>

#include "graph/chain.hpp"
#include "support/interleaved.hpp"

namespace ww = warpwright;

namespace {

using bench_support::timed;
using graph_bench::chain;
using graph_bench::raw_graphs;

#if WARPWRIGHT_HOST_RUNTIME
constexpr int samples = 2;  // shows that it works, never a speed
#else
constexpr int samples = 200;
#endif

// ---- Replay ----

struct replays : raw_graphs {
  mutable ww::graph_exec exec_of_ours;
  mutable ww::graph_replay replay;

  replays(ww::stream_ref s, std::int64_t kernels)
      : raw_graphs{s, kernels, 1}, exec_of_ours{ww::capture(s, [this](ww::stream_ref captured) {
          (*this)(captured, 0);
        })} {
    for (int i = 0; i < 2; ++i) run_replay(s);
    clear();
  }
  void run_replay(ww::stream_ref s) const {
    replay.run(s, [this](ww::stream_ref captured) { (*this)(captured, 0); });
  }
};

int const replay_registered = [] {
  using paths = bench_support::interleaved<replays>;
  auto const all = std::make_shared<paths>([](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<replays>(s, of[0]);
  });
  auto const right = [](replays const& a) { return a.one_pass(); };
  all->time(timed::end_to_end)
      .add(
          "eager", [](ww::stream_ref s, replays const& a, std::size_t) { a(s, 0); }, right)
      .add(
          "graph_exec",
          [](ww::stream_ref s, replays const& a, std::size_t) { a.exec_of_ours.launch(s); }, right)
      .add(
          "graph_replay", [](ww::stream_ref s, replays const& a, std::size_t) { a.run_replay(s); },
          right)
      .add(
          "raw_graph", [](ww::stream_ref s, replays const& a, std::size_t) { a.launch(s); }, right);
  paths::register_all(all, "replay",
                      {{{1}, 1, samples, false},
                       {{20}, 1, samples, false},
                       {{100}, 1, samples, false},
                       {{1000}, 1, samples / 2, false}});
  return 0;
}();

// ---- Capture ----

int const capture_registered = [] {
  using paths = bench_support::interleaved<chain>;
  auto const all = std::make_shared<paths>([](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<chain>(s, of[0], 1);
  });
  // A capture runs nothing: of each path one more graph is captured and launched.
  all->time(timed::host)
      .add(
          "capture",
          [](ww::stream_ref s, chain const& a, std::size_t) {
            ww::graph const captured =
                ww::capture(s, [&](ww::stream_ref capturing) { a(capturing, 0); });
            benchmark::DoNotOptimize(captured.get());
          },
          [](chain const& a) {
            ww::graph_exec exec{
                ww::capture(a.stream(), [&](ww::stream_ref capturing) { a(capturing, 0); })};
            exec.launch(a.stream());
            return a.one_pass();
          })
      .add(
          "raw_capture",
          [](ww::stream_ref, chain const& a, std::size_t) {
            ww::check(cudaGraphDestroy(graph_bench::raw_capture(a, 0)), "cudaGraphDestroy");
          },
          [](chain const&) { return true; });
  paths::register_all(all, "capture",
                      {{{1}, 1, samples, false},
                       {{20}, 1, samples, false},
                       {{100}, 1, samples, false},
                       {{1000}, 1, samples / 2, false}});
  return 0;
}();

// ---- A changed pointer ----

struct updates : raw_graphs {
  mutable ww::graph_exec exec_of_ours;
  mutable ww::graph_replay replay;
  ww::graph graphs_of_ours[2];

  updates(ww::stream_ref s, std::int64_t kernels)
      : raw_graphs{s, kernels, 2}, graphs_of_ours{captured(0), captured(1)} {
    exec_of_ours = ww::graph_exec{graphs_of_ours[0]};
    recapture(0);
  }
  [[nodiscard]] ww::graph captured(std::size_t set) const {
    return ww::capture(stream(), [this, set](ww::stream_ref s) { (*this)(s, set); });
  }
  void recapture(std::size_t set) const {
    static_cast<void>(
        replay.recapture(stream(), [this, set](ww::stream_ref s) { (*this)(s, set); }));
  }
};

int const pointer_registered = [] {
  using paths = bench_support::interleaved<updates>;
  auto const all = std::make_shared<paths>([](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<updates>(s, of[0]);
  });
  auto const raw_is_right = [](updates const& a) {
    a.launch(a.stream());
    return a.one_pass();
  };
  all->time(timed::host)
      .add(
          "instantiate",
          [](ww::stream_ref, updates const& a, std::size_t set) {
            benchmark::DoNotOptimize(ww::graph_exec{a.graphs_of_ours[set]}.get());
          },
          [](updates const& a) {
            ww::graph_exec exec{a.graphs_of_ours[0]};
            exec.launch(a.stream());
            return a.one_pass();
          })
      .add(
          "raw_instantiate",
          [](ww::stream_ref, updates const& a, std::size_t set) {
            ww::check(cudaGraphExecDestroy(graph_bench::raw_instantiate(a.graph(set))),
                      "cudaGraphExecDestroy");
          },
          [](updates const&) { return true; })
      .add(
          "update",
          [](ww::stream_ref, updates const& a, std::size_t set) {
            static_cast<void>(a.exec_of_ours.update(a.graphs_of_ours[set]));
          },
          [](updates const& a) {
            a.exec_of_ours.launch(a.stream());
            return a.one_pass();
          })
      .add(
          "raw_update",
          [](ww::stream_ref, updates const& a, std::size_t set) {
            graph_bench::raw_update(a.exec(), a.graph(set));
          },
          raw_is_right)
      .add(
          "recapture", [](ww::stream_ref, updates const& a, std::size_t set) { a.recapture(set); },
          [](updates const& a) {
            a.replay.launch(a.stream());
            return a.one_pass();
          })
      .add(
          "raw_capture_and_update",
          [](ww::stream_ref, updates const& a, std::size_t set) {
            cudaGraph_t const captured = graph_bench::raw_capture(a, set);
            graph_bench::raw_update(a.exec(), captured);
            ww::check(cudaGraphDestroy(captured), "cudaGraphDestroy");
          },
          raw_is_right);
  paths::register_all(
      all, "pointer",
      {{{20}, 1, samples, false}, {{100}, 1, samples, false}, {{1000}, 1, samples / 4 + 1, false}});
  return 0;
}();

}  // namespace
