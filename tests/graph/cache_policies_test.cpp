// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a graph_cache decides by, without CUDA: bindings, LRU, thrash guard, cost gate.
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/graph/detail/cache/bindings.hpp>
#include <warpwright/graph/detail/cache/cost_gate.hpp>
#include <warpwright/graph/detail/cache/lru_list.hpp>
#include <warpwright/graph/detail/cache/thrash_guard.hpp>

#include <array>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <list>
#include <random>
#include <vector>

namespace ww = warpwright;
using ww::detail::cost_gate;
using ww::detail::step_mode;

namespace {

struct strided_view {
  int* first;
  std::uint64_t count;
  std::uint64_t stride;
  [[nodiscard]] int* data() const { return first; }
  [[nodiscard]] std::uint64_t size() const { return count; }
};

struct packed {
  int a;
  int b;
  short c[2];
};
struct with_float {
  float x;
  int y;
};
enum class color : unsigned char { red, green };

}  // namespace

template <>
inline constexpr bool ww::is_graph_binding_by_bytes<with_float> = true;

namespace {

template <class... Arguments>
std::vector<std::uint64_t> words(Arguments const&... arguments) {
  ww::detail::binding_words<Arguments...> const all{arguments...};
  return {all.data(), all.data() + decltype(all)::count};
}

}  // namespace

TEST_CASE("bindings: equal arguments have equal words, others do not") {
  int x = 0;
  int y = 0;
  CHECK(words(&x, 7, 2.5F) == words(&x, 7, 2.5F));
  CHECK(words(&x, 7, 2.5F) != words(&y, 7, 2.5F));
  CHECK(words(&x, 7, 2.5F) != words(&x, 8, 2.5F));
  CHECK(words(&x, 7, 2.5F) != words(&x, 7, 2.25F));
  CHECK(words(&x, 7, 2.5F).size() == 3);
  CHECK(words(color::red) != words(color::green));
  CHECK(words(true) != words(false));
  CHECK(words(nullptr) == words(static_cast<int*>(nullptr)));
  CHECK(words(packed{1, 2, {3, 4}}) == words(packed{1, 2, {3, 4}}));
  CHECK(words(packed{1, 2, {3, 4}}) != words(packed{1, 2, {3, 5}}));
  CHECK(words(packed{1, 2, {3, 4}}).size() == 2);
  CHECK(words(with_float{1.0F, 2}) == words(with_float{1.0F, 2}));
  CHECK(words(with_float{1.0F, 2}) != words(with_float{1.5F, 2}));
  CHECK(words().empty());
}

TEST_CASE("bindings: floating-point numbers are compared by their bits") {
  double const nan = std::nan("");
  CHECK(words(nan) == words(nan));
  CHECK(words(0.0) != words(-0.0));  // a captured -0 is not a 0
}

TEST_CASE("bindings: a container is its address and its size") {
  std::vector<int> v(8);
  CHECK(words(v) == std::vector<std::uint64_t>{reinterpret_cast<std::uintptr_t>(v.data()), 8});
  std::vector<std::uint64_t> const before = words(v);
  v[3] = 5;  // its elements are not a part of the graph
  CHECK(words(v) == before);
  v.resize(4);
  CHECK(words(v) != before);
}

TEST_CASE("bindings: a view and an array of numbers are all of their bytes") {
  std::array<float, 4> a{};
  std::vector<std::uint64_t> const before = words(a);
  CHECK(words(std::array<float, 4>{}) == before);
  a[3] = 1;
  CHECK(words(a) != before);
  strided_view v{nullptr, 4, 1};
  REQUIRE(v.data() == nullptr);
  REQUIRE(v.size() == 4);
  std::vector<std::uint64_t> const dense = words(v);
  v.stride = 2;
  CHECK(words(v) != dense);
}

TEST_CASE("bindings: a stream_ref is its handle, whether it has its id or not") {
  auto const handle = reinterpret_cast<cudaStream_t>(std::uintptr_t{0x1230});
  CHECK(words(ww::stream_ref{handle})[0] == 0x1230);
  CHECK(words(ww::stream_ref{handle}) == words(ww::stream_ref{handle}));
}

TEST_CASE("lru_list: the order of a model, with all budgets, over random calls") {
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  struct element {
    ww::detail::lru_node node;
    int key = 0;
  };
  for (int run = 0; run < 50; ++run) {
    std::size_t const most_entries = 1 + random() % 40;
    std::size_t const most_bytes = 1 + random() % 2000;
    std::size_t const most_pool = 1 + random() % 2000;
    ww::detail::lru_list list{most_entries, {most_bytes, most_pool}};
    std::vector<element> elements(64);
    std::list<int> model;  // the newest in front
    ww::detail::cached_bytes model_bytes;
    std::vector<ww::detail::cached_bytes> sizes(elements.size());
    auto const exceeds = [&] {
      return model.size() > most_entries || model_bytes.graphs > most_bytes ||
             model_bytes.pool > most_pool;
    };
    for (int i = 0; i < 64; ++i) elements[static_cast<std::size_t>(i)].key = i;
    for (int step = 0; step < 400; ++step) {
      std::size_t const k = random() % elements.size();
      element& e = elements[k];
      unsigned const what = static_cast<unsigned>(random() % 10);
      bool const listed = e.node.listed;
      if (what == 0) {
        list.remove(e.node);
        if (listed) {
          model.remove(e.key);
          model_bytes -= sizes[k];
        }
      } else {
        if (!listed) {
          sizes[k] = e.node.bytes = {random() % 200, random() % 200};
          model_bytes += sizes[k];
        }
        list.touch(e.node);
        model.remove(e.key);
        model.push_front(e.key);
        if (what == 1) {
          model_bytes -= sizes[k];
          sizes[k] = {random() % 300, random() % 300};
          model_bytes += sizes[k];
          list.resize(e.node, sizes[k]);
        }
        while (ww::detail::lru_node* const old = list.excess()) {
          REQUIRE(exceeds());
          REQUIRE(reinterpret_cast<element*>(old)->key == model.back());
          model_bytes -= sizes[static_cast<std::size_t>(model.back())];
          model.pop_back();
          list.remove(*old);
        }
        REQUIRE((model.size() <= 1 || !exceeds()));
      }
      REQUIRE(list.size() == model.size());
      REQUIRE(list.bytes().graphs == model_bytes.graphs);
      REQUIRE(list.bytes().pool == model_bytes.pool);
      ww::detail::lru_node* node = list.oldest();
      for (auto at = model.rbegin(); at != model.rend(); ++at, node = node->newer) {
        REQUIRE(node != nullptr);
        REQUIRE(reinterpret_cast<element*>(node)->key == *at);
      }
      REQUIRE(node == nullptr);
    }
  }
}

TEST_CASE("thrash_guard: four rebuilds without clean replays pause; the pauses double") {
  ww::detail::thrash_guard guard{4};
  std::uint64_t calls = 100;
  std::uint64_t replays = 10;
  for (int i = 0; i < 3; ++i) guard.rebuilt(replays);
  CHECK_FALSE(guard.paused(calls));
  guard.rebuilt(replays + 3);  // three replays are not enough
  std::uint64_t expected = ww::detail::thrash_guard::first_pause;
  for (int pause = 0; pause < 14; ++pause) {
    REQUIRE(guard.pauses() == static_cast<std::uint64_t>(pause) + 1);
    std::uint64_t length = 0;
    while (guard.paused(calls)) {
      ++calls;
      ++length;
    }
    REQUIRE(length == expected);
    if (expected < ww::detail::thrash_guard::longest_pause) expected *= 2;
    guard.rebuilt(replays + 3);  // one more is enough
  }
  CHECK(expected == ww::detail::thrash_guard::longest_pause);  // never for ever
}

TEST_CASE("thrash_guard: clean replays between rebuilds start anew, and shorten pauses again") {
  ww::detail::thrash_guard guard{4};
  std::uint64_t replays = 0;
  for (int i = 0; i < 100; ++i) {
    replays += 4;
    guard.rebuilt(replays);
  }
  CHECK_FALSE(guard.is_paused());
  for (int i = 0; i < 3; ++i) guard.rebuilt(replays);
  REQUIRE(guard.is_paused());
  std::uint64_t calls = 0;
  while (guard.paused(calls)) ++calls;
  guard.rebuilt(replays);
  while (guard.paused(calls)) ++calls;
  CHECK(guard.pause_calls() == 2 * ww::detail::thrash_guard::first_pause);
  replays += ww::detail::thrash_guard::first_pause;
  for (int i = 0; i < 4; ++i) guard.rebuilt(replays);
  CHECK(guard.paused(calls));
  CHECK(guard.pause_calls() == ww::detail::thrash_guard::first_pause);
}

TEST_CASE("thrash_guard: evictions without clean replays pause like rebuilds; others do not") {
  ww::detail::thrash_guard guard{4};
  std::uint64_t replays = 0;
  for (int i = 0; i < 20; ++i) guard.evicted(replays += 4);
  CHECK(guard.pauses() == 0);
  for (int i = 0; i < 2; ++i) guard.evicted(replays += 3);
  guard.rebuilt(replays += 3);
  CHECK_FALSE(guard.is_paused());
  guard.evicted(replays += 3);
  CHECK(guard.is_paused());
  CHECK(guard.waits_for_room());
  CHECK(guard.paused(100));
  guard.evicted(replays);  // of a key that is paused already
  CHECK(guard.pauses() == 1);
  guard.resume();
  CHECK_FALSE(guard.paused(101));
  guard.rebuilt(replays);  // one more is enough, and it does not wait for room
  CHECK(guard.is_paused());
  CHECK_FALSE(guard.waits_for_room());
  CHECK(guard.pause_calls() == 2 * ww::detail::thrash_guard::first_pause);
}

TEST_CASE("thrash_guard: an eviction before the build has been paid for counts") {
  ww::detail::thrash_guard guard{4};
  std::uint64_t replays = 0;
  for (int i = 0; i < 8; ++i) guard.evicted(replays += 30, 30);
  CHECK_FALSE(guard.is_paused());
  for (int i = 0; i < 4; ++i) guard.evicted(replays += 29, 30);
  CHECK(guard.is_paused());
}

TEST_CASE("thrash_guard: many clean replays between failures shorten the pauses again") {
  ww::detail::thrash_guard guard{4};
  std::uint64_t const first = ww::detail::thrash_guard::first_pause;
  guard.failed(0);
  guard.failed(first - 1);
  CHECK(guard.pause_calls() == 2 * first);
  guard.failed(2 * first - 2);
  CHECK(guard.pause_calls() == 4 * first);
  guard.failed(3 * first - 2);
  CHECK(guard.pause_calls() == first);
  guard.failed(3 * first - 3);  // a launch that failed is not counted any more
  CHECK(guard.pause_calls() == 2 * first);
}

TEST_CASE("sample_window: the median of the last values, and its error") {
  ww::detail::sample_window w;
  CHECK(w.median() == 0.0);
  CHECK(w.squared_error() == 0.0);
  for (double const v : {5.0, 1.0, 1000.0}) w.add(v);
  CHECK(w.median() == 5.0);
  w.add(7.0);
  CHECK(w.median() == 6.0);
  for (unsigned i = 0; i < ww::detail::sample_window::capacity; ++i) w.add(2.0);
  CHECK(w.median() == 2.0);
  CHECK(w.squared_error() == 0.0);
  CHECK(w.count() == ww::detail::sample_window::capacity);
}

namespace {

// A loop whose true times are known: each call takes what the gate chooses, times noise.
struct simulated_loop {
  double eager = 0.0;
  double replay = 0.0;
  double build = 0.0;
  double change = 0.0;
  double change_rate = 0.0;
  double noise = 0.0;         // of the logarithm
  double spike_rate = 0.0;    // calls that take longer
  double spike = 1.0;         // by this factor
  double common_drift = 0.0;  // of the logarithm, over the loop, of both times
  double eager_drift = 0.0;   // of the eager time alone
  unsigned lag = 0;           // calls until a time arrives
  std::uint64_t calls = 20000;

  double true_eager(std::uint64_t call) const { return eager * std::exp(drift(call, eager_drift)); }
  double true_graph(std::uint64_t call) const {
    return (replay + change_rate * change) * std::exp(drift(call, 0.0));
  }
  double drift(std::uint64_t call, double more) const {
    return (common_drift + more) * static_cast<double>(call) / static_cast<double>(calls);
  }
};

struct simulated_result {
  step_mode mode = step_mode::graph;
  double total = 0.0;
  double oracle = 0.0;  // what the faster mode takes at each call
  bool decided = false;
  double break_even = 0.0;
};

simulated_result simulate(simulated_loop const& loop, std::mt19937& random) {
  cost_gate gate{true};
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  struct arriving {
    std::uint64_t at;
    step_mode mode;
    double time;
  };
  std::list<arriving> pending;
  simulated_result result;
  bool built = false;
  std::uint64_t attention = 0;
  std::uint64_t seen = 0;
  std::uint64_t changes = 0;
  double const cpu_scale = loop.build > 0.0 ? 1.0 : 0.0;
  for (std::uint64_t call = 0; call < loop.calls; ++call) {
    bool const changed = built && uniform(random) < loop.change_rate;
    changes += changed ? 1 : 0;
    cost_gate::plan plan{gate.mode(), false, 0};
    if (call >= attention) {
      while (!pending.empty() && pending.front().at <= call) {
        gate.sampled(pending.front().mode, pending.front().time);
        pending.pop_front();
      }
      gate.observe(call - seen, changes);
      seen = call;
      changes = 0;
      plan = gate.next();
      attention = call + plan.next;
    }
    if (!built && !plan.sample) plan.run = step_mode::graph;
    double const factor = std::exp(loop.noise * normal(random)) *
                          (uniform(random) < loop.spike_rate ? loop.spike : 1.0);
    double time = 0.0;
    if (plan.run == step_mode::eager) {
      time = loop.true_eager(call) * factor;
    } else {
      time = loop.replay * std::exp(loop.drift(call, 0.0)) * factor;
      if (!built) {
        built = true;
        gate.built(loop.build * cpu_scale);
        result.total += loop.build;
      } else if (changed) {
        gate.changed(loop.change);
        gate.reconsider();
        result.total += loop.change;
      }
    }
    if (plan.sample)
      pending.push_back({call + 1 + (loop.lag ? random() % loop.lag : 0), plan.run, time});
    result.total += time;
    double const e = loop.true_eager(call);
    double const g = loop.true_graph(call);
    result.oracle += (e < g ? e : g) * std::exp(0.5 * loop.noise * loop.noise) *
                     (1.0 + loop.spike_rate * (loop.spike - 1.0));
  }
  result.mode = gate.mode();
  result.decided = gate.decided();
  result.break_even = gate.break_even();
  return result;
}

}  // namespace

TEST_CASE("cost_gate: thousands of loops whose true times are known") {
  unsigned const seed = std::random_device{}();
  std::printf("cost_gate loops: seed %u\n", seed);
  std::mt19937 random{seed};
  std::uniform_real_distribution<double> uniform;
  auto const between = [&](double low, double high) {
    return low * std::pow(high / low, uniform(random));
  };
  int judged = 0;
  int wrong = 0;
  int slow = 0;
  int const loops = test_support::rounds(3000);
  for (int i = 0; i < loops; ++i) {
    simulated_loop loop;
    loop.calls = 6000;
    loop.replay = between(2e3, 1e6);
    loop.eager = loop.replay * between(0.3, 6.0);
    loop.build = loop.replay * between(5.0, 30.0);
    loop.change = loop.build * between(0.1, 1.0);
    loop.change_rate = i % 3 == 0 ? between(0.001, 1.0) : 0.0;
    loop.noise = uniform(random) * 0.2;
    loop.spike_rate = i % 2 == 0 ? uniform(random) * 0.05 : 0.0;
    loop.spike = between(2.0, 50.0);
    loop.common_drift = (uniform(random) - 0.5) * 2.0;
    loop.lag = static_cast<unsigned>(random() % 40);
    simulated_result const r = simulate(loop, random);
    REQUIRE(r.decided);
    double const e = loop.true_eager(loop.calls);
    double const g = loop.true_graph(loop.calls);
    // The change itself does not drift.
    double const graph = loop.replay * std::exp(loop.common_drift) + loop.change_rate * loop.change;
    static_cast<void>(g);
    bool const eager_wins = e * 1.2 < graph;
    bool const graph_wins = graph * 1.2 < e;
    if (eager_wins || graph_wins) {
      ++judged;
      if ((r.mode == step_mode::graph) != graph_wins) ++wrong;
    }
    // Never much worse than the better of the two; a build is paid for once.
    if (loop.change_rate == 0.0 && r.total > 1.08 * r.oracle + loop.build) ++slow;
  }
  INFO("seed " << seed << ": " << wrong << " of " << judged << " wrong, " << slow << " slow");
  std::printf("cost_gate loops: %d judged, %d wrong, %d slow\n", judged, wrong, slow);
  CHECK(judged * 3 > 2 * loops);
  CHECK(test_support::rate_is_at_most(wrong, 0.01, judged));
  CHECK(test_support::rate_is_at_most(slow, 0.01, loops));
}

TEST_CASE("cost_gate: follows a drift that turns the order around") {
  unsigned const seed = std::random_device{}();
  std::printf("cost_gate drifts: seed %u\n", seed);
  std::mt19937 random{seed};
  int wrong = 0;
  int const loops = test_support::rounds(300);
  for (int i = 0; i < loops; ++i) {
    simulated_loop loop;
    loop.calls = 40000;
    loop.replay = 20e3;
    bool const rises = i % 2 == 0;
    // From a third below to a third above, or the reverse.
    loop.eager = loop.replay * (rises ? 0.66 : 1.5);
    loop.eager_drift = rises ? std::log(1.5 / 0.66) : std::log(0.66 / 1.5);
    loop.build = 200e3;
    loop.noise = 0.1;
    loop.spike_rate = 0.02;
    loop.spike = 10.0;
    loop.lag = 10;
    simulated_result const r = simulate(loop, random);
    if ((r.mode == step_mode::graph) != rises) ++wrong;
  }
  INFO("seed " << seed << ": " << wrong << " wrong");
  CHECK(test_support::rate_is_at_most(wrong, 0.01, loops));
}

TEST_CASE("cost_gate: a graph whose bindings always change loses to a short eager step") {
  cost_gate gate{true};
  gate.built(100e3);
  bool graph = true;
  for (int call = 0; call < 2000; ++call) {
    cost_gate::plan const plan = gate.next();
    graph = plan.run == step_mode::graph;
    if (graph) gate.changed(30e3);
    gate.observe(1, 1);
    if (plan.sample) gate.sampled(plan.run, graph ? 5e3 : 20e3);
  }
  CHECK(gate.mode() == step_mode::eager);
  CHECK(gate.break_even() == cost_gate::never);
  CHECK(gate.change_rate() == 1.0);
  // The bindings settle: the graph is tried again, and wins.
  for (int call = 0; call < 20000; ++call) {
    cost_gate::plan const plan = gate.next();
    gate.observe(plan.next, 0);
    if (plan.sample) gate.sampled(plan.run, plan.run == step_mode::graph ? 5e3 : 20e3);
  }
  CHECK(gate.mode() == step_mode::graph);
  CHECK(gate.break_even() > 6.0);
  CHECK(gate.break_even() < 8.0);
}

TEST_CASE("cost_gate: lost samples are taken again; a gate that is off uses the graph") {
  cost_gate gate{true};
  gate.built(1.0);
  int lost = 0;
  for (int call = 0; call < 500 && !gate.decided(); ++call) {
    cost_gate::plan const plan = gate.next();
    if (!plan.sample) continue;
    bool const loses = call % 2 == 0;
    lost += loses ? 1 : 0;
    gate.sampled(plan.run, loses ? -1.0 : (plan.run == step_mode::graph ? 3e3 : 2e3));
  }
  CHECK(lost > 0);
  CHECK(gate.decided());
  CHECK(gate.mode() == step_mode::eager);
  CHECK(gate.eager_time() == 2e3);
  CHECK(gate.replay_time() == 3e3);

  cost_gate off{false};
  for (int call = 0; call < 10; ++call) {
    CHECK(off.next().run == step_mode::graph);
    CHECK_FALSE(off.next().sample);
  }
}

namespace {

// Gives the times of samples until the gate has decided: eager(i), graph(i) of the i-th; negative:
// it is lost.
template <class Eager, class Graph>
void decide(cost_gate& gate, Eager&& eager, Graph&& graph) {
  gate.built(1.0);
  int eager_count = 0;
  int graph_count = 0;
  for (cost_gate::plan plan = gate.next(); plan.sample; plan = gate.next()) {
    gate.sampled(plan.run,
                 plan.run == step_mode::eager ? eager(eager_count++) : graph(graph_count++));
  }
  CHECK(gate.decided());
}

}  // namespace

TEST_CASE("cost_gate: decides nothing while one mode has lost all of its samples") {
  cost_gate gate{true};
  decide(
      gate, [](int) { return 2e3; }, [](int i) { return i < 6 ? -1.0 : 3e3; });
  CHECK(gate.mode() == step_mode::eager);
  CHECK(gate.replay_time() == 3e3);
}

TEST_CASE("cost_gate: samples on while the times scatter by more than they differ") {
  cost_gate gate{true};
  // The first medians are 110 and 118, in the wrong order.
  double const scattered[] = {50.0, 60.0, 70.0, 150.0, 160.0, 170.0};
  decide(
      gate, [&](int i) { return i < 6 ? scattered[i] : 155.0; }, [](int) { return 118.0; });
  CHECK(gate.mode() == step_mode::graph);
}

TEST_CASE(
    "cost_gate: few calls of a long step run eagerly, and it keeps the graph if that is equal") {
  struct expected {
    double eager;  // against the graph
    unsigned eager_calls;
    step_mode mode;
  };
  for (expected const& e : {expected{1.00, 12, step_mode::graph},
                            {0.99, 12, step_mode::graph},
                            {1.02, 12, step_mode::graph},
                            {0.90, 388, step_mode::eager}}) {
    INFO("eager " << e.eager);
    cost_gate gate{true};
    unsigned eager_calls = 0;
    bool built = false;
    std::uint64_t attention = 0;
    for (std::uint64_t call = 0; call < 400; ++call) {
      cost_gate::plan plan{gate.mode(), false, 0};
      if (call >= attention) {
        plan = gate.next();
        attention = call + plan.next;
      }
      bool const eager = plan.run == step_mode::eager;
      eager_calls += eager ? 1 : 0;
      if (!eager && !built) gate.built(1e7);
      built = built || !eager;
      double const scatter = call % 2 == 0 ? 1.001 : 0.999;
      if (plan.sample) gate.sampled(plan.run, 2.8e6 * scatter * (eager ? e.eager : 1.0));
    }
    CHECK(eager_calls == e.eager_calls);
    CHECK(gate.mode() == e.mode);
  }
}

TEST_CASE("cost_gate: forgets changes of long ago") {
  cost_gate gate{true};
  for (int call = 0; call < 100000; ++call) gate.observe(1, 1);
  CHECK(gate.change_rate() == 1.0);
  for (int call = 0; call < 3000; ++call) gate.observe(1, 0);
  CHECK(gate.change_rate() < 0.01);
}

TEST_CASE("cost_gate: takes first launches when the samples of later ones are always lost") {
  cost_gate gate{true};
  gate.built(1.0);
  int graphs = 0;
  for (int call = 0; call < 100 && !gate.decided(); ++call) {
    cost_gate::plan const plan = gate.next();
    if (!plan.sample) continue;
    bool const graph = plan.run == step_mode::graph;
    graphs += graph ? 1 : 0;
    gate.sampled(plan.run, graph ? (gate.takes_first_launches() ? 9e3 : -1.0) : 2e3);
  }
  CHECK(gate.decided());
  CHECK(gate.mode() == step_mode::eager);
  CHECK(graphs == 2 * static_cast<int>(cost_gate::round));
}

TEST_CASE("cost_gate: tells after how many replays a build is paid for") {
  cost_gate gate{true};
  CHECK(gate.paid_after() == 0);
  gate.built(100e3);
  CHECK(gate.paid_after() == 0);
  gate.next();
  gate.sampled(step_mode::eager, 5e3);
  CHECK(gate.paid_after() == 20);  // if a replay took no time
  gate.next();
  gate.sampled(step_mode::graph, 1e3);
  CHECK(gate.paid_after() == 25);
  gate.next();
  gate.sampled(step_mode::graph, 11e3);
  CHECK(gate.paid_after() > 1000000);
}
