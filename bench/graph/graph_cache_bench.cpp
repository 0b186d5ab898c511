// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A graph_cache and raw CUDA calls, in interleaved samples; the number is that of the kernels.
//   cached_replay  from the call until the host sees the stream idle
//   hit            host time of a call, 100 in a row; two pointers in turn in alternating_hit
//   behind_cache   host time of a call of a step that asks whether its stream is capturing and does
//                  nothing, 100 in a row, once the cache has measured that it is faster without a
//                  graph; body is the step alone
//   moved          host time of a call whose pointer is another one: captured, updated, launched
// Not interleaved: hit_allocations counts, thousand_keys goes through a budget of 64 MiB.
#include <warpwright/core/launch.hpp>
#include <warpwright/graph/graph_cache.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "graph/chain.hpp"
#include "graph/count_allocations.hpp"
#include "support/interleaved.hpp"
#include "support/values.hpp"

namespace ww = warpwright;

namespace {

using bench_support::timed;
using graph_bench::chain;
using graph_bench::raw_graphs;

#if WARPWRIGHT_HOST_RUNTIME
constexpr int samples = 2;  // shows that it works, never a speed
constexpr std::int64_t in_a_row = 10;
constexpr std::size_t key_count = 600;
#else
constexpr int samples = 200;
constexpr std::int64_t in_a_row = 100;
constexpr std::size_t key_count = 1000;
#endif

ww::graph_cache_options always_a_graph() {
  return ww::graph_cache_options{}.cost_gate(false).warmups(0).eager_fallback(false);
}

// ---- Hits ----

// The step with its pointer as a binding, through a cache.
struct cached : raw_graphs {
  mutable ww::graph_cache cache;
  mutable std::vector<cudaGraphExec_t> execs;  // one for each set, for raw launches

  cached(ww::stream_ref s, std::int64_t kernels, std::size_t sets,
         ww::graph_cache_options const& options)
      : raw_graphs{s, kernels, sets}, cache{options} {
    for (std::size_t set = 0; set < sets; ++set) {
      execs.push_back(graph_bench::raw_instantiate(graph(set)));
      for (int i = 0; i < 2; ++i) run_cached(s, set);
    }
    clear();
  }
  ~cached() {
    for (cudaGraphExec_t const each : execs) ww::detail::discard(cudaGraphExecDestroy(each));
  }
  cached(cached const&) = delete;
  cached& operator=(cached const&) = delete;

  ww::graph_step run_cached(ww::stream_ref s, std::size_t set) const {
    return cache.run(s, {kernels()}, graph_bench::run_chain, data(set), kernels());
  }
  void launch_raw(ww::stream_ref s, std::size_t set) const {
    ww::check(cudaGraphLaunch(execs[set], s.get()), "cudaGraphLaunch");
  }
};

bool one_pass(cached const& a) { return a.one_pass(); }

// A step that does nothing, with the default options. An empty capture would be no graph: there it
// has a node.
class idle_step {
 public:
  explicit idle_step(ww::stream_ref s) : memory_{s, 0, 1} {
    // Until the cache has decided that the step runs eagerly.
    for (int calls = 0; calls < 100000 && !runs_eagerly(); ++calls) {
      run_cached(s);
      s.synchronize();  // the times of sampled calls arrive
    }
    memory_.clear();
  }

  [[nodiscard]] static std::size_t sets() { return 1; }
  [[nodiscard]] static std::size_t bytes() { return 0; }
  void run_cached(ww::stream_ref s) const { cache_.run(s, {0}, run, memory_.data(0)); }
  void run_body(ww::stream_ref s) const { run(s, memory_.data(0)); }
  [[nodiscard]] bool runs_eagerly() const {
    std::vector<ww::graph_key_statistics> const keys = cache_.statistics().keys;
    return !keys.empty() && keys.front().state == ww::graph_key_state::eager_wins;
  }
  [[nodiscard]] bool right() const { return runs_eagerly() && memory_.one_pass(); }

 private:
  static void run(ww::stream_ref s, float* memory) {
    if (s.is_capturing()) ww::check(cudaMemsetAsync(memory, 1, 4, s.get()), "cudaMemsetAsync");
  }

  chain memory_;  // only a graph writes to it
  mutable ww::graph_cache cache_;
};

void through_cache(ww::stream_ref s, cached const& a, std::size_t set) { a.run_cached(s, set); }
void bare_launch(ww::stream_ref s, cached const& a, std::size_t set) { a.launch_raw(s, set); }

using paths = bench_support::interleaved<cached>;

std::shared_ptr<paths> paths_of(std::size_t sets, ww::graph_cache_options const& options) {
  return std::make_shared<paths>([sets, options](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<cached>(s, of[0], sets, options);
  });
}

int const registered = [] {
  auto const replay = paths_of(1, always_a_graph());
  replay->time(timed::end_to_end)
      .add("graph_cache", through_cache, one_pass)
      .add("raw_graph", bare_launch, one_pass);
  paths::register_all(replay, "cached_replay",
                      {{{1}, 1, samples, false},
                       {{20}, 1, samples, false},
                       {{100}, 1, samples, false},
                       {{1000}, 1, samples / 2, false}});

  auto const hit = paths_of(1, always_a_graph());
  hit->time(timed::host)
      .add("graph_cache", through_cache, one_pass)
      .add("bare_launch", bare_launch, one_pass);
  paths::register_all(hit, "hit", {{{1}, in_a_row, samples, false}});

  auto const alternating = paths_of(2, always_a_graph().variants(2));
  alternating->time(timed::host)
      .add("graph_cache", through_cache, one_pass)
      .add("bare_launch", bare_launch, one_pass);
  paths::register_all(alternating, "alternating_hit", {{{1}, in_a_row, samples, false}});

  using idle_paths = bench_support::interleaved<idle_step>;
  auto const behind = std::make_shared<idle_paths>(
      [](ww::stream_ref s, bench_support::shape const&) { return std::make_unique<idle_step>(s); });
  auto const is_right = [](idle_step const& a) { return a.right(); };
  behind->time(timed::host)
      .add(
          "graph_cache", [](ww::stream_ref s, idle_step const& a, std::size_t) { a.run_cached(s); },
          is_right)
      .add(
          "body", [](ww::stream_ref s, idle_step const& a, std::size_t) { a.run_body(s); },
          is_right);
  idle_paths::register_all(behind, "behind_cache", {{{0}, in_a_row, samples, false}});

  auto const moved = paths_of(2, always_a_graph().variants(1));
  moved->time(timed::host)
      .add("graph_cache", through_cache, one_pass)
      .add(
          "raw_calls",
          [](ww::stream_ref s, cached const& a, std::size_t set) {
            cudaGraph_t const captured = graph_bench::raw_capture(a, set);
            graph_bench::raw_update(a.exec(), captured);
            ww::check(cudaGraphDestroy(captured), "cudaGraphDestroy");
            a.launch(s);
          },
          one_pass);
  paths::register_all(moved, "moved", {{{20}, 1, samples, false}, {{100}, 1, samples, false}});
  return 0;
}();

void hit_allocations(benchmark::State& state) {
  ww::stream const s;
  cached const a{s, 1, 1, always_a_graph()};
  std::uint64_t hits = 0;
  std::uint64_t of_hits = 0;
  std::uint64_t of_launches = 0;  // what the runtime itself allocates, as the host runtime does
  for (auto _ : state) {
    std::uint64_t const before = graph_bench::allocations_of_this_thread();
    if (a.run_cached(s, 0) == ww::graph_step::replayed) ++hits;
    std::uint64_t const between = graph_bench::allocations_of_this_thread();
    a.launch_raw(s, 0);
    of_hits += between - before;
    of_launches += graph_bench::allocations_of_this_thread() - between;
    if (hits % 128 == 0) s.synchronize();
  }
  s.synchronize();
  state.counters["allocations"] = static_cast<double>(of_hits) - static_cast<double>(of_launches);
  state.counters["hit_share"] = static_cast<double>(hits) / static_cast<double>(state.iterations());
}
BENCHMARK(hit_allocations)->Iterations(10000)->Repetitions(1);

// ---- A thousand keys through a budget ----

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  ww::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

// Each key has an array of its own, so that a wrong graph shows.
class keyed_steps {
 public:
  static constexpr std::int64_t kernels = 40;
  static constexpr std::size_t budget = std::size_t{64} << 20U;

  explicit keyed_steps(std::size_t keys) : runs_(keys, 0) {
    ww::check(cudaMalloc(&memory_, bytes()), "cudaMalloc");
    ww::check(cudaMemsetAsync(memory_, 0, bytes(), stream.get()), "cudaMemsetAsync");
  }
  ~keyed_steps() { ww::detail::discard(cudaFree(memory_)); }
  keyed_steps(keyed_steps const&) = delete;
  keyed_steps& operator=(keyed_steps const&) = delete;

  ww::graph_step operator()(std::size_t key) {
    ++runs_[key];
    ww::graph_step const step =
        cache.run(stream, {key}, graph_bench::run_chain, data(key), std::int64_t{kernels});
    if (key % 64 == 0) stream.synchronize();
    return step;
  }
  /// @return whether each key ran as often as it was called
  [[nodiscard]] bool right() const {
    stream.synchronize();
    std::vector<float> const found =
        bench_support::fetch(data(0), runs_.size() * graph_bench::elements);
    for (std::size_t i = 0; i < found.size(); ++i) {
      float const expected = static_cast<float>(runs_[i / graph_bench::elements] * kernels);
      if (found[i] != expected) return false;
    }
    return true;
  }

  ww::stream stream;
  mutable ww::graph_cache cache{always_a_graph().max_bytes(budget).max_entries(100000)};

 private:
  [[nodiscard]] std::size_t bytes() const {
    return runs_.size() * graph_bench::elements * sizeof(float);
  }
  [[nodiscard]] float* data(std::size_t key) const {
    return static_cast<float*>(memory_) + key * graph_bench::elements;
  }

  std::vector<std::int64_t> runs_;
  void* memory_ = nullptr;
};

// Whether the keys that are kept are exactly the last ones, and those that leave the least recent.
bool is_exactly_lru(keyed_steps& step, std::size_t keys) {
  constexpr std::size_t more = 10;
  std::size_t const kept = step.cache.statistics().graphs;
  if (kept <= more || kept >= keys) return false;
  std::vector<std::size_t> order;  // from the least recent one on
  for (std::size_t key = keys - kept; key < keys; ++key) order.push_back(key);
  std::shuffle(order.begin(), order.end(), std::mt19937{1});
  bool exact = true;
  for (std::size_t const key : order) exact = exact && step(key) == ww::graph_step::replayed;
  for (std::size_t i = 0; i < more; ++i) {
    exact = exact && step(keys + i) == ww::graph_step::captured;
  }
  for (std::size_t i = more; i < kept; ++i) {
    exact = exact && step(order[i]) == ww::graph_step::replayed;
  }
  for (std::size_t i = 0; i < more; ++i) {
    exact = exact && step(order[i]) == ww::graph_step::captured;
  }
  return exact;
}

void thousand_keys(benchmark::State& state) {
  for (auto _ : state) {
    keyed_steps step{key_count + 16};
    std::size_t most_bytes = 0;
    std::size_t free_when_full = 0;
    auto const begin = std::chrono::steady_clock::now();
    for (std::size_t key = 0; key < key_count; ++key) {
      step(key);
      if (key % 50 == 49) most_bytes = std::max(most_bytes, step.cache.statistics().bytes);
      if (key == key_count * 4 / 5) free_when_full = free_memory();
    }
    std::chrono::duration<double, std::micro> const us = std::chrono::steady_clock::now() - begin;
    step.stream.synchronize();
    double const grown = static_cast<double>(free_when_full) - static_cast<double>(free_memory());
    bool const exact = is_exactly_lru(step, key_count);
    ww::graph_cache_statistics const found = step.cache.statistics();
    if (!step.right()) state.SkipWithError("wrong results");
    if (most_bytes > keyed_steps::budget) state.SkipWithError("over the budget");
    if (!exact) state.SkipWithError("not the least recently used key was evicted");
    state.counters["us_a_key"] = us.count() / static_cast<double>(key_count);
    state.counters["graphs"] = static_cast<double>(found.graphs);
    state.counters["evictions"] = static_cast<double>(found.evictions);
    state.counters["cache_MiB"] = static_cast<double>(most_bytes) / (1 << 20U);
    state.counters["device_MiB_grown"] = grown / (1 << 20U);
    state.counters["exactly_lru"] = exact ? 1.0 : 0.0;
  }
}
BENCHMARK(thousand_keys)->Iterations(1)->Repetitions(1)->Unit(benchmark::kMillisecond);

}  // namespace
