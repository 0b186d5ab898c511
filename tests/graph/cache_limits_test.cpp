// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The budgets of a graph_cache, its thrash guard, its cost gate, and what it warns of.
#include "cache_support.hpp"

#include <atomic>
#include <list>
#include <random>
#include <string>
#include <thread>

using namespace test_support;
using ww::graph_step;

namespace {

void wait_for_flag(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("graph_cache: a thousand keys under a byte budget, in exact LRU order") {
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  constexpr std::size_t budget = std::size_t{64} << 10;
  ww::graph_cache cache{
      at_once().max_entries(10000).max_bytes(budget).bytes_per_node(1000).thrash_limit(1U << 30U)};
  auto const step = [](ww::stream_ref t, ww::shape_key const& key, int* p) {
    for (std::uint64_t i = 0; i < 1 + key[0] % 3; ++i) ww::for_each_index(t, 16, add_amount{p, 1});
  };
  auto const bytes_of = [](int key) { return 1000 * (1 + static_cast<std::size_t>(key) % 3); };
  std::list<int> model;  // the newest in front
  std::size_t held = 0;
  long long expected = 0;
  int captures = 0;
  for (int call = 0; call < 4000; ++call) {
    // Some keys are frequent, so that there are hits.
    int const key = static_cast<int>(random() % 3 == 0 ? random() % 1000 : random() % 40);
    bool known = false;
    for (auto at = model.begin(); at != model.end() && !known; ++at) known = *at == key;
    if (known) {
      model.remove(key);
    } else {
      held += bytes_of(key);
      ++captures;
    }
    model.push_front(key);
    while (held > budget) {
      held -= bytes_of(model.back());
      model.pop_back();
    }
    REQUIRE(cache.run(s, {key}, step, x.data()) ==
            (known ? graph_step::replayed : graph_step::captured));
    expected += 1 + key % 3;
  }
  CHECK(x.fetch(s)[0] == expected);
  ww::graph_cache_statistics const all = cache.statistics();
  CHECK(all.bytes == held);
  CHECK(all.graphs == model.size());
  CHECK(all.captures == static_cast<std::uint64_t>(captures));
  CHECK(all.evictions == static_cast<std::uint64_t>(captures) - model.size());
  for (ww::graph_key_statistics const& k : all.keys) {
    bool held_by_model = false;
    for (int const key : model) held_by_model = held_by_model || std::to_string(key) == k.key;
    REQUIRE((k.graphs == 1) == held_by_model);
  }
}

TEST_CASE("graph_cache: the entry budget counts keys, and evicts all their graphs") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(2).variants(3)};
  for (int amount = 0; amount < 3; ++amount) cache.run(s, {1}, add_step{}, x.data(), amount);
  cache.run(s, {2}, add_step{}, x.data(), 1);
  CHECK(of_key(cache, 0).graphs == 3);
  cache.run(s, {3}, add_step{}, x.data(), 1);
  CHECK(of_key(cache, 0).graphs == 0);
  CHECK(of_key(cache, 0).evictions == 3);
  CHECK(of_key(cache, 1).graphs == 1);
  CHECK(cache.run(s, {1}, add_step{}, x.data(), 2) == graph_step::captured);
  CHECK(of_key(cache, 1).graphs == 0);  // the oldest now
}

TEST_CASE("graph_cache: new bindings take the graph whose last replay is the longest ago") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().variants(2)};
  auto const run = [&](int amount) { return cache.run(s, {}, add_step{}, x.data(), amount); };
  CHECK(run(1) == graph_step::captured);
  CHECK(run(2) == graph_step::captured);
  CHECK(run(1) == graph_step::replayed);
  CHECK(run(3) == graph_step::updated);
  CHECK(run(1) == graph_step::replayed);
  CHECK(run(2) == graph_step::updated);
  CHECK(x.fetch(s)[0] == 1 + 2 + 1 + 3 + 1 + 2);
}

TEST_CASE("graph_cache: a stream that the cache knows gets a replica of its own, too") {
  ww::stream a;
  ww::stream b;
  device_array<int> x{std::vector<int>(16, 0)};
  device_array<int> y{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().replicas(2)};
  cache.run(a, {1}, add_step{}, x.data(), 1);
  cache.run(b, {1}, add_step{}, y.data(), 1);
  CHECK(cache.run(a, {2}, add_step{}, x.data(), 1) == graph_step::captured);
  a.synchronize();
  CHECK(cache.run(b, {2}, add_step{}, x.data(), 1) == graph_step::captured);
  CHECK(of_key(cache, 1).graphs == 2);
  CHECK(x.fetch(b)[0] == 3);
}

TEST_CASE("graph_cache: a key that alone exceeds the budget keeps its graphs") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_bytes(10)};
  CHECK(cache.run(s, {1}, add_step{}, x.data(), 1) == graph_step::captured);
  CHECK(cache.run(s, {1}, add_step{}, x.data(), 1) == graph_step::replayed);
  CHECK(cache.run(s, {2}, add_step{}, x.data(), 1) == graph_step::captured);
  CHECK(of_key(cache, 0).graphs == 0);
}

TEST_CASE("graph_cache: an evicted graph is destroyed only after its last launch") {
  ww::stream s;
  std::atomic<bool> flag{false};
  std::atomic<bool> open{true};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(1)};
  auto const blocking = [](ww::stream_ref t, int* p, std::atomic<bool>* until) {
    ww::check(cudaLaunchHostFunc(t, wait_for_flag, until), "cudaLaunchHostFunc");
    ww::for_each_index(t, 16, add_amount{p, 1});
  };
  cache.run(s, {1}, blocking, x.data(), &flag);
  cache.run(s, {2}, blocking, x.data(), &open);  // evicts the first, which runs
  cache.run(s, {2}, blocking, x.data(), &open);
  CHECK(cache.statistics().evictions == 1);
  CHECK(cache.statistics().retired_graphs == 1);
  for (int i = 0; i < 3; ++i) cache.run(s, {2 + i}, blocking, x.data(), &open);
  CHECK(cache.statistics().retired_graphs == 3);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::stats().graph_execs == 4);
#endif
  flag = true;
  CHECK(x.fetch(s)[0] == 6);
  cache.run(s, {9}, blocking, x.data(), &open);  // records the events behind the others
  s.synchronize();
  cache.run(s, {10}, blocking, x.data(), &open);
  CHECK(cache.statistics().retired_graphs <= 2);
  s.synchronize();
}

TEST_CASE("graph_cache: retired graphs of a stream that is not seen again do not pile up") {
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(1)};
  for (int i = 0; i < 300; ++i) {
    ww::stream s;  // destroyed at once
    cache.run(s, {i}, add_step{}, x.data(), 1);
    s.synchronize();
  }
  CHECK(cache.statistics().retired_graphs == 8);
  ww::stream s;
  CHECK(x.fetch(s)[0] == 300);
}

TEST_CASE("graph_cache: of the evicted graphs of a stream that is behind, 64 are kept") {
  ww::stream s;
  std::atomic<bool> open{false};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(1)};
  ww::check(cudaLaunchHostFunc(s.get(), wait_for_flag, &open), "cudaLaunchHostFunc");
  for (int i = 0; i < 80; ++i) cache.run(s, {i}, add_step{}, x.data(), 1);
  CHECK(cache.statistics().retired_graphs == 64);
  open = true;
  CHECK(x.fetch(s)[0] == 80);
}

TEST_CASE("graph_cache: trim(0) evicts graphs that are taken to need no memory, too") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().bytes_per_node(0)};
  for (int i = 0; i < 3; ++i) cache.run(s, {i}, add_step{}, x.data(), 1);
  cache.trim(0);
  CHECK(cache.statistics().graphs == 0);
  s.synchronize();
}

TEST_CASE("graph_cache: a call on another stream destroys evicted graphs that have completed") {
  ww::stream s;
  ww::stream other;
  device_array<int> x{std::vector<int>(16, 0)};
  device_array<int> y{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(2)};
  for (int key = 0; key < 6; ++key) cache.run(s, {key}, add_step{}, x.data(), 1);
  CHECK(cache.statistics().evictions == 4);
  s.synchronize();
  cache.run(other, {10}, add_step{}, y.data(), 1);  // evicts one of the first stream
  CHECK(cache.statistics().retired_graphs == 1);
  other.synchronize();
  CHECK(x.fetch(s)[0] == 6);
}

TEST_CASE("graph_cache: work of another stream does not tell that an evicted graph has completed") {
  ww::stream s;
  ww::stream other;
  std::atomic<bool> open{false};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(1)};
  auto const blocking = [](ww::stream_ref t, std::atomic<bool>* until) {
    ww::check(cudaLaunchHostFunc(t, wait_for_flag, until), "cudaLaunchHostFunc");
  };
  cache.run(s, {1}, blocking, &open);
  cache.run(other, {2}, add_step{}, x.data(), 1);  // evicts the first, which runs
  other.synchronize();
  cache.prewarm(other, {2}, add_step{}, x.data(), 1);  // looks for graphs that have completed
  CHECK(cache.statistics().retired_graphs == 1);
  open = true;
  s.synchronize();
}

TEST_CASE("graph_cache: evicted graphs have what others leave of the byte budget") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  std::atomic<bool> open{false};
  // Each graph has two nodes.
  ww::graph_cache cache{at_once().max_entries(1).bytes_per_node(1000).max_bytes(4 * 2000)};
  auto const blocking = [](ww::stream_ref t, int* p, std::atomic<bool>* until) {
    ww::check(cudaLaunchHostFunc(t, wait_for_flag, until), "cudaLaunchHostFunc");
    ww::for_each_index(t, 16, add_amount{p, 1});
  };
  for (int key = 0; key < 10; ++key) cache.run(s, {key}, blocking, x.data(), &open);
  CHECK(cache.statistics().bytes == 2000);
  CHECK(cache.statistics().retired_graphs == 3);
  open = true;
  CHECK(x.fetch(s)[0] == 10);  // those that were destroyed early ran to their end
}

TEST_CASE("graph_cache: trim destroys graphs that have completed, and keeps running ones") {
  ww::stream s;
  ww::stream blocked;
  device_array<int> x{std::vector<int>(16, 0)};
  device_array<int> y{std::vector<int>(16, 0)};
  std::atomic<bool> open{false};
  ww::graph_cache cache{at_once()};
  for (int key = 0; key < 8; ++key) {
    for (int i = 0; i < 2; ++i) cache.run(s, {key}, add_step{}, x.data(), 1);
  }
  s.synchronize();
#if WARPWRIGHT_HOST_RUNTIME
  auto const destroyed = ww::testing::call_count("cudaGraphExecDestroy");
#endif
  cache.trim(0);
  CHECK(cache.statistics().graphs == 0);
  CHECK(cache.statistics().retired_graphs == 0);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::call_count("cudaGraphExecDestroy") == destroyed + 8);
#endif
  ww::graph_cache one{at_once().max_entries(1)};
  auto const blocking = [](ww::stream_ref t, int* p, std::atomic<bool>* until) {
    ww::check(cudaLaunchHostFunc(t, wait_for_flag, until), "cudaLaunchHostFunc");
    ww::for_each_index(t, 16, add_amount{p, 1});
  };
  one.run(blocked, {1}, blocking, y.data(), &open);
  one.run(blocked, {2}, blocking, y.data(), &open);  // evicts the first
  one.trim(1000000);
  CHECK(one.statistics().retired_graphs == 1);
  open = true;
  blocked.synchronize();
  one.trim(1000000);
  CHECK(one.statistics().retired_graphs == 0);
  CHECK(y.fetch(blocked)[0] == 2);
}

namespace {

// Calls the keys in turn, so many calls in all; returns how many were instantiated.
std::uint64_t builds_in_turn(ww::graph_cache& cache, ww::stream_ref s, int* x, int keys,
                             int calls) {
  std::uint64_t const before = cache.statistics().builds;
  for (int i = 0; i < calls; ++i) cache.run(s, {i % keys}, add_step{}, x, 1);
  s.synchronize();
  return cache.statistics().builds - before;
}

bool warns_of_room(ww::graph_cache_statistics const& all) {
  for (std::string const& w : all.warnings()) {
    if (w.find("evicted before they are used again") != std::string::npos &&
        w.find("raise max_entries(), max_bytes()") != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("graph_cache: one key more than there are entries is not instantiated on each call") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  for (bool const gate : {false, true}) {
    for (int const entries : {1, 256}) {
      INFO("gate " << gate << ", entries " << entries);
      ww::graph_cache cache{
          ww::graph_cache_options{}.cost_gate(gate).max_entries(static_cast<std::size_t>(entries))};
      // What the gate measures depends on the machine.
      CHECK(builds_in_turn(cache, s, x.data(), entries + 1, 20000) <= (gate ? 4000 : 1300));
      CHECK(builds_in_turn(cache, s, x.data(), entries + 1, 20000) <= (gate ? 4000 : 300));
      if (!gate) {
        // The others have all the entries, and are replayed.
        ww::graph_cache_statistics const all = cache.statistics();
        CHECK(all.replays > (entries == 1 ? 19000U : 30000U));
        CHECK(warns_of_room(all));
      }
    }
  }
}

TEST_CASE("graph_cache: many more keys than entries come near to the eager cost") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  for (bool const gate : {false, true}) {
    INFO("gate " << gate);
    ww::graph_cache cache{ww::graph_cache_options{}.cost_gate(gate).max_entries(16)};
    CHECK(builds_in_turn(cache, s, x.data(), 40, 20000) <= (gate ? 4000 : 400));
    CHECK(builds_in_turn(cache, s, x.data(), 40, 20000) <= (gate ? 4000 : 100));
  }
}

TEST_CASE("graph_cache: keys that were evicted too early are tried again when others are unused") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(4)};
  builds_in_turn(cache, s, x.data(), 12, 40000);
  std::uint64_t longest = 0;
  for (ww::graph_key_statistics const& k : cache.statistics().keys) {
    longest = k.pauses > longest ? k.pauses : longest;
  }
  CHECK(longest >= 4);  // so that a pause is of 512 calls at least
  for (int i = 0; i < 4 * 300; ++i) cache.run(s, {i % 4}, add_step{}, x.data(), 1);
  for (int i = 0; i < 4 * 50; ++i) {
    REQUIRE(cache.run(s, {i % 4}, add_step{}, x.data(), 1) == graph_step::replayed);
  }
  s.synchronize();
}

TEST_CASE("graph_cache: a long pause for lack of room ends early when no other key is used") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(1)};
  for (int i = 0; i < 100000 && (i < 2 || of_key(cache).pauses < 6); ++i) {
    cache.run(s, {i % 2}, add_step{}, x.data(), 1);
  }
  REQUIRE(of_key(cache).pauses == 6);  // of 2,048 calls
  int calls = 0;
  while (calls < 1000 && cache.run(s, {0}, add_step{}, x.data(), 1) == graph_step::eager) ++calls;
  CHECK(calls < 300);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(cache.run(s, {0}, add_step{}, x.data(), 1) == graph_step::replayed);
  }
  CHECK(of_key(cache).state == ww::graph_key_state::replaying);
  s.synchronize();
}

TEST_CASE("graph_cache: builds after evictions are not taken for new bindings") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(1).thrash_limit(1U << 30U)};
  CHECK(builds_in_turn(cache, s, x.data(), 2, 200) == 200);
  ww::graph_cache_statistics const all = cache.statistics();
  CHECK(all.keys[0].change_rate == 0.0);
  CHECK(all.warnings().size() == 1);
  CHECK(warns_of_room(all));
}

TEST_CASE("graph_cache: changes of bindings count as such after an eviction, too") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(1).variants(1).thrash_limit(1U << 30U)};
  for (int key : {1, 2, 1}) cache.run(s, {key}, add_step{}, x.data(), 1);
  for (int amount = 2; amount < 6; ++amount) cache.run(s, {1}, add_step{}, x.data(), amount);
  CHECK(of_key(cache).calls == 6);
  CHECK(of_key(cache).change_rate == 4.0 / 6.0);
  s.synchronize();
}

TEST_CASE("graph_cache: evictions after enough replays do not pause") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(1)};
  for (int i = 0; i < 400; ++i) {
    graph_step const done = cache.run(s, {i / 5 % 2}, add_step{}, x.data(), 1);
    REQUIRE(done == (i % 5 == 0 ? graph_step::captured : graph_step::replayed));
  }
  CHECK(cache.statistics().pauses == 0);
  s.synchronize();
}

TEST_CASE("graph_cache: max_shapes, further keys run eagerly") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_shapes(3)};
  for (int round = 0; round < 2; ++round) {
    for (int key = 0; key < 6; ++key) {
      graph_step const done = cache.run(s, {key}, add_step{}, x.data(), 1);
      CHECK((done == graph_step::eager) == (key >= 3));
    }
  }
  CHECK(x.fetch(s)[0] == 12);
  ww::graph_cache_statistics const all = cache.statistics();
  CHECK(all.keys.size() == 3);
  CHECK(all.rejected_calls == 6);
  CHECK(all.calls == 12);
  REQUIRE_FALSE(all.warnings().empty());
  CHECK_THAT(all.warnings()[0], contains("max_shapes"));
  CHECK(cache.prewarm(s, ww::shape_key{9}, add_step{}, x.data(), 1) == graph_step::eager);
}

namespace {

// Each call has another number of nodes.
struct growing_step {
  void operator()(ww::stream_ref t, int* p, int launches) const {
    for (int i = 0; i < launches; ++i) ww::for_each_index(t, 16, add_amount{p, 1});
  }
};

}  // namespace

TEST_CASE("graph_cache: rebuilds without replays pause a key, and it is tried again") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().variants(1).thrash_limit(4)};
  int expected = 0;
  auto const run = [&](int launches) {
    expected += launches;
    return cache.run(s, {}, growing_step{}, x.data(), launches);
  };
  CHECK(run(1) == graph_step::captured);
  for (int i = 2; i <= 5; ++i) CHECK(run(i) == graph_step::rebuilt);
  CHECK(of_key(cache).state == ww::graph_key_state::paused);
  for (int i = 0; i < 64; ++i) REQUIRE(run(1 + i % 3) == graph_step::eager);
  CHECK(run(9) == graph_step::rebuilt);  // one more, and twice as long
  for (int i = 0; i < 128; ++i) REQUIRE(run(1 + i % 3) == graph_step::eager);
  CHECK(of_key(cache).pauses == 2);
  CHECK(run(9) == graph_step::replayed);  // it has converged
  for (int i = 0; i < 100; ++i) REQUIRE(run(9) == graph_step::replayed);
  CHECK(of_key(cache).state == ww::graph_key_state::replaying);
  CHECK(run(2) == graph_step::rebuilt);
  CHECK(run(2) == graph_step::replayed);
  CHECK(x.fetch(s)[0] == expected);
  ww::graph_cache_statistics const all = cache.statistics();
  bool warned = false;
  for (std::string const& w : all.warnings()) {
    warned = warned || (w.find("instantiated again and again") != std::string::npos &&
                        w.find("number of nodes") != std::string::npos);
  }
  CHECK(warned);
}

TEST_CASE("graph_cache: rebuilds with clean replays between do not pause") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().variants(1)};
  for (int i = 1; i < 30; ++i) {
    for (int k = 0; k < 5; ++k) cache.run(s, {}, growing_step{}, x.data(), 1 + i % 4);
  }
  CHECK(of_key(cache).pauses == 0);
  CHECK(of_key(cache).eager == 0);
  s.synchronize();
}

TEST_CASE("graph_cache: a loop whose bindings never settle is warned of") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  for (int i = 0; i < 100; ++i) cache.run(s, {5}, add_step{}, x.data(), i);
  ww::graph_cache_statistics const all = cache.statistics();
  REQUIRE(all.warnings().size() == 1);
  CHECK_THAT(all.warnings()[0], contains("key 5 never converges"));
  CHECK_THAT(all.to_text(), contains("warning: key 5 never converges"));
  CHECK(all.keys[0].change_rate > 0.9);
  CHECK(x.fetch(s)[0] == 4950);
}

TEST_CASE("graph_cache: an eager call makes its key the most recently used one") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{ww::graph_cache_options{}.max_entries(2)};
  cache.prewarm(s, ww::shape_key{1}, add_step{}, x.data(), 1);
  cache.prewarm(s, ww::shape_key{2}, add_step{}, x.data(), 1);
  CHECK(cache.run(s, {1}, add_step{}, x.data(), 1) == graph_step::eager);  // a sample of the gate
  cache.prewarm(s, ww::shape_key{3}, add_step{}, x.data(), 1);
  CHECK(of_key(cache, 0).graphs == 1);
  CHECK(of_key(cache, 1).graphs == 0);
  s.synchronize();
}

TEST_CASE("graph_cache: eager calls of a pause make their key the most recently used one") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().variants(1).max_entries(2)};
  for (int i = 1; i <= 5; ++i) cache.run(s, {1}, growing_step{}, x.data(), i);
  REQUIRE(of_key(cache, 0).state == ww::graph_key_state::paused);
  CHECK(cache.run(s, {1}, growing_step{}, x.data(), 6) == graph_step::eager);
  cache.run(s, {2}, growing_step{}, x.data(), 1);
  CHECK(cache.run(s, {1}, growing_step{}, x.data(), 6) == graph_step::eager);  // by the fast path
  cache.run(s, {3}, growing_step{}, x.data(), 1);
  CHECK(of_key(cache, 0).graphs == 1);
  CHECK(of_key(cache, 1).graphs == 0);
  s.synchronize();
}

TEST_CASE("graph_cache: prewarming a key that has its graph makes it the most recently used one") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(2)};
  cache.prewarm(s, ww::shape_key{1}, add_step{}, x.data(), 1);
  cache.prewarm(s, ww::shape_key{2}, add_step{}, x.data(), 1);
  CHECK(cache.prewarm(s, ww::shape_key{1}, add_step{}, x.data(), 1) == graph_step::replayed);
  cache.prewarm(s, ww::shape_key{3}, add_step{}, x.data(), 1);
  CHECK(of_key(cache, 0).graphs == 1);
  CHECK(of_key(cache, 1).graphs == 0);
  s.synchronize();
}

#if WARPWRIGHT_HOST_RUNTIME

namespace {

// A clock that takes a millisecond for each graph launch, or for each kernel launch. Together with
// the host runtime's simulated time of events, times are the same in every run.
struct priced_clock {
  std::uint64_t launch = 0;  // nanoseconds
  std::uint64_t kernel = 0;
  static std::uint64_t read(void* self) {
    auto const& c = *static_cast<priced_clock*>(self);
    return c.launch * ww::testing::call_count("cudaGraphLaunch") +
           c.kernel * ww::testing::call_count("cudaLaunchKernel");
  }
};

struct simulated_time {
  simulated_time() {
    ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_simulated_time());
  }
  ~simulated_time() { ww::testing::reset_host_runtime(); }
};

}  // namespace

TEST_CASE("graph_cache: the gate runs a step eagerly where that is faster") {
  simulated_time const simulated;
  priced_clock price{1000000, 10000};
  ww::graph_cache cache{ww::graph_cache_options{}.clock({priced_clock::read, &price})};
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  int eager_at_last = 0;
  for (int i = 0; i < 1000; ++i) {
    graph_step const done = cache.run(s, {}, growing_step{}, x.data(), 4);
    s.synchronize();  // so that times arrive at the next call
    eager_at_last += i >= 500 && done == graph_step::eager ? 1 : 0;
  }
  CHECK(eager_at_last > 450);
  ww::graph_key_statistics const k = of_key(cache);
  CHECK(k.state == ww::graph_key_state::eager_wins);
  CHECK(1e6 * k.eager_seconds > 39.0);
  CHECK(1e6 * k.eager_seconds < 45.0);
  CHECK(1e6 * k.replay_seconds > 999.0);
  CHECK(k.break_even_calls == ww::detail::cost_gate::never);
  CHECK(x.fetch(s)[0] == 4000);
}

TEST_CASE("graph_cache: the gate does not wait for the time of a step that has thrown") {
  simulated_time const simulated;
  priced_clock price{1000000, 10000};
  ww::graph_cache cache{ww::graph_cache_options{}.clock({priced_clock::read, &price})};
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  auto const step = [](ww::stream_ref t, int* p, bool const* throws) {
    if (*throws) throw 1;
    growing_step{}(t, p, 4);
  };
  bool throws = false;
  for (int i = 0; i < 100; ++i) {
    throws = i == 4;
    if (throws) {
      CHECK_THROWS_AS(cache.run(s, {}, step, x.data(), &throws), int);
    } else {
      cache.run(s, {}, step, x.data(), &throws);
    }
    s.synchronize();
  }
  CHECK(of_key(cache).state == ww::graph_key_state::eager_wins);
}

TEST_CASE("graph_cache: the gate uses the graph where that is faster, and tells when it has paid") {
  simulated_time const simulated;
  priced_clock price{20000, 10000};
  ww::graph_cache cache{ww::graph_cache_options{}.clock({priced_clock::read, &price})};
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  int replayed_at_last = 0;
  for (int i = 0; i < 1000; ++i) {
    graph_step const done = cache.run(s, {}, growing_step{}, x.data(), 8);
    s.synchronize();
    replayed_at_last += i >= 500 && done == graph_step::replayed ? 1 : 0;
  }
  CHECK(replayed_at_last > 450);
  ww::graph_key_statistics const k = of_key(cache);
  CHECK(k.state == ww::graph_key_state::replaying);
  CHECK(1e6 * k.replay_seconds == 20.0);
  CHECK(1e6 * k.eager_seconds == 80.0);
  CHECK(1e6 * k.build_seconds == 80.0);  // the launches of the capture, by this clock
  CHECK(k.break_even_calls > 1.3);
  CHECK(k.break_even_calls < 1.4);
  CHECK(k.saved_seconds > 0.050);
  CHECK(cache.statistics().saved_seconds == k.saved_seconds);
  CHECK(x.fetch(s)[0] == 8000);
}

TEST_CASE("graph_cache: the first launch of a graph, which uploads it, is no sample of the gate") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{ww::graph_cache_options{}.warmups(0)};
  graph_step done = graph_step::eager;
  std::uint64_t records = 0;
  for (int i = 0; i < 10000 && done == graph_step::eager; ++i) {
    std::uint64_t const before = ww::testing::call_count("cudaEventRecord");
    done = cache.run(s, {}, add_step{}, x.data(), 1);
    records = ww::testing::call_count("cudaEventRecord") - before;
    s.synchronize();
  }
  CHECK(done == graph_step::captured);
  CHECK(records == 0);
}

TEST_CASE("graph_cache: the gate decides though graphs are evicted before a second launch") {
  simulated_time const simulated;
  // A replay saves a quarter, but a capture takes as long as an eager call.
  priced_clock price{60000, 10000};
  ww::graph_cache cache{ww::graph_cache_options{}
                            .clock({priced_clock::read, &price})
                            .max_entries(1)
                            .thrash_limit(1U << 30U)};
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  for (int i = 0; i < 200; ++i) {
    cache.run(s, {i % 2}, growing_step{}, x.data(), 8);
    s.synchronize();
  }
  for (std::size_t key = 0; key < 2; ++key) {
    ww::graph_key_statistics const k = of_key(cache, key);
    CHECK(k.state == ww::graph_key_state::eager_wins);
    CHECK(1e6 * k.replay_seconds >= 60.0);
    CHECK(k.builds < 20);
  }
  CHECK(x.fetch(s)[0] == 1600);
}

TEST_CASE("graph_cache: rare failures of launches pause a key for a short time each") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  int expected = 0;
  auto const run = [&] {
    ++expected;
    return cache.run(s, {}, add_step{}, x.data(), 1);
  };
  run();
  for (int failure = 0; failure < 4; ++failure) {
    for (int i = 0; i < 100; ++i) REQUIRE(run() == graph_step::replayed);
    {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail("cudaGraphLaunch", 1, cudaErrorMemoryAllocation)};
      REQUIRE(run() == graph_step::eager);
    }
    for (int i = 0; i < 64; ++i) REQUIRE(run() == graph_step::eager);
    REQUIRE(run() == graph_step::captured);
  }
  CHECK(x.fetch(s)[0] == expected);
}

TEST_CASE("graph_cache: the gate counts the time of captures when bindings always change") {
  simulated_time const simulated;
  // A replay saves half, but a capture takes as long as an eager call.
  priced_clock price{40000, 10000};
  ww::graph_cache cache{ww::graph_cache_options{}.clock({priced_clock::read, &price})};
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  int expected = 0;
  int eager_at_last = 0;
  auto const step = [](ww::stream_ref t, int* p, int amount) {
    for (int i = 0; i < 8; ++i) ww::for_each_index(t, 16, add_amount{p, amount});
  };
  for (int i = 0; i < 1500; ++i) {
    expected += 8 * i;
    graph_step const done = cache.run(s, {}, step, x.data(), i);
    s.synchronize();
    eager_at_last += i >= 1000 && done == graph_step::eager ? 1 : 0;
  }
  CHECK(eager_at_last > 400);
  CHECK(of_key(cache).state == ww::graph_key_state::eager_wins);
  // They settle: the graph is used again, at the next round of samples at the latest.
  int replayed = 0;
  for (int i = 0; i < 6000; ++i) {
    expected += 8;
    replayed += cache.run(s, {}, step, x.data(), 1) == graph_step::replayed && i >= 5000 ? 1 : 0;
    if (i % 4 == 0) s.synchronize();
  }
  CHECK(replayed > 900);
  CHECK(x.fetch(s)[0] == expected);
}

#endif
