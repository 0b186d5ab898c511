// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What graph_cache::run does with bindings, keys, functions and streams.
#include "cache_support.hpp"

#include <warpwright/graph/graph_param.hpp>

#include <cmath>
#include <stdexcept>
#include <string>

// Sanitizers have an operator new of their own.
#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#if WARPWRIGHT_HOST_RUNTIME
#include <cstdlib>
#include <new>

namespace {
thread_local bool counts_allocations = false;
thread_local int allocations = 0;
}  // namespace

#if !SANITIZED
// Not inlined: g++ would take the pair for a mismatch of malloc and delete.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  if (counts_allocations) ++allocations;
  if (void* const p = std::malloc(bytes)) return p;
  throw std::bad_alloc{};
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif
#endif

using namespace test_support;
using ww::graph_step;

TEST_CASE("graph_cache: warms up, captures once, then replays") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{ww::graph_cache_options{}.cost_gate(false)};
  CHECK(cache.run(s, {16}, add_step{}, x.data(), 1) == graph_step::eager);
  CHECK(cache.run(s, {16}, add_step{}, x.data(), 1) == graph_step::eager);
  CHECK(cache.run(s, {16}, add_step{}, x.data(), 1) == graph_step::captured);
  for (int i = 0; i < 5; ++i) {
    CHECK(cache.run(s, {16}, add_step{}, x.data(), 1) == graph_step::replayed);
  }
  CHECK(x.fetch(s) == std::vector<int>(16, 8));
  ww::graph_key_statistics const k = of_key(cache);
  CHECK(k.key == "16");
  CHECK(k.calls == 8);
  CHECK(k.eager == 2);
  CHECK(k.captures == 1);
  CHECK(k.builds == 1);
  CHECK(k.replays == 5);
  CHECK(k.graphs == 1);
  CHECK(k.nodes == 1);
  CHECK(k.state == ww::graph_key_state::replaying);
}

TEST_CASE("graph_cache: a function is called only to capture and to run eagerly") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  int called = 0;
  auto const step = [&](ww::stream_ref t, int* p) {
    ++called;
    ww::for_each_index(t, 16, add_amount{p, 1});
  };
  for (int i = 0; i < 10; ++i) cache.run(s, {}, step, x.data());
  CHECK(called == 1);
  CHECK(x.fetch(s)[15] == 10);
}

TEST_CASE("graph_cache: changed bindings update the graph in place") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().variants(1)};
  CHECK(cache.run(s, {16}, add_step{}, x.data(), 1) == graph_step::captured);
  CHECK(cache.run(s, {16}, add_step{}, x.data(), 10) == graph_step::updated);
  CHECK(cache.run(s, {16}, add_step{}, x.data(), 10) == graph_step::replayed);
  CHECK(cache.run(s, {16}, add_step{}, x.data(), 100) == graph_step::updated);
  CHECK(x.fetch(s) == std::vector<int>(16, 121));
  CHECK(of_key(cache).updates == 2);
  CHECK(of_key(cache).graphs == 1);
}

TEST_CASE("graph_cache: another topology is instantiated again, with CUDA's reason") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 1)};
  ww::graph_cache cache{at_once().variants(1)};
  auto const step = [](ww::stream_ref t, int* p, int launches, bool fill) {
    for (int i = 0; i < launches; ++i) ww::for_each_index(t, 16, add_amount{p, 1});
    if (fill) ww::check(cudaMemsetAsync(p, 0, 16 * sizeof(int), t), "cudaMemsetAsync");
  };
  CHECK(cache.run(s, {}, step, x.data(), 1, false) == graph_step::captured);
  CHECK(cache.run(s, {}, step, x.data(), 3, false) == graph_step::rebuilt);
  CHECK(x.fetch(s)[0] == 5);
  CHECK(of_key(cache).last_rebuild == "the number of nodes or their dependencies changed");
  CHECK(cache.run(s, {}, step, x.data(), 2, true) == graph_step::rebuilt);
  CHECK(x.fetch(s)[0] == 0);
  ww::graph_cache_statistics const all = cache.statistics();
  CHECK(all.rebuilds == 2);
  CHECK(all.rebuilds_by_reason[cudaGraphExecUpdateErrorTopologyChanged] == 1);
  CHECK(all.rebuilds_by_reason[cudaGraphExecUpdateErrorNodeTypeChanged] == 1);
  CHECK(cache.run(s, {}, step, x.data(), 2, true) == graph_step::replayed);
}

// A part of the kernel's name: CUDA's is the mangled one.
constexpr char const* kernel_of_for_each_index =
#if WARPWRIGHT_HOST_RUNTIME
    "for_each_index";
#else
    "index_kernel";
#endif

TEST_CASE("graph_cache: the kernel at which an update failed is named") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 1)};
  ww::graph_cache cache{at_once().variants(1)};
  auto const step = [](ww::stream_ref t, int* p, bool fill) {
    if (fill) {
      ww::check(cudaMemsetAsync(p, 0, 16 * sizeof(int), t), "cudaMemsetAsync");
    } else {
      ww::for_each_index(t, 16, add_amount{p, 1});
    }
  };
  cache.run(s, {}, step, x.data(), true);
  CHECK(cache.run(s, {}, step, x.data(), false) == graph_step::rebuilt);
#if CUDART_VERSION >= 12030
  CHECK_THAT(of_key(cache).last_kernel, contains(kernel_of_for_each_index));
#endif
  CHECK(x.fetch(s)[0] == 1);
}

TEST_CASE("graph_cache: bindings that alternate have a graph each") {
  ww::stream s;
  device_array<int> a{std::vector<int>(16, 0)};
  device_array<int> b{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().variants(2)};
  for (int i = 0; i < 20; ++i) {
    graph_step const done = cache.run(s, {}, add_step{}, i % 2 == 0 ? a.data() : b.data(), 1);
    CHECK(done == (i < 2 ? graph_step::captured : graph_step::replayed));
  }
  CHECK(a.fetch(s)[3] == 10);
  CHECK(b.fetch(s)[3] == 10);
  // A third one takes the place of the one that was launched first.
  device_array<int> c{std::vector<int>(16, 0)};
  CHECK(cache.run(s, {}, add_step{}, c.data(), 1) == graph_step::updated);
  CHECK(cache.run(s, {}, add_step{}, b.data(), 1) == graph_step::replayed);
  CHECK(cache.run(s, {}, add_step{}, a.data(), 1) == graph_step::updated);
  CHECK(a.fetch(s)[0] == 11);
  CHECK(b.fetch(s)[0] == 11);
  CHECK(c.fetch(s)[0] == 1);
}

namespace {

struct add_value_of {
  int* out;
  int const* amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += *amount; }
};

}  // namespace

TEST_CASE("graph_cache: a graph_param changes its value without an update") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_param<int> amount{s, 1};
  ww::graph_cache cache{at_once()};
  auto const step = [](ww::stream_ref t, int* p, ww::graph_param<int> const& a) {
    ww::for_each_index(t, 16, add_value_of{p, a.get()});
  };
  int expected = 0;
  for (int i = 0; i < 10; ++i) {
    amount.set(s, i);
    expected += i;
    CHECK(cache.run(s, {}, step, x.data(), amount) ==
          (i == 0 ? graph_step::captured : graph_step::replayed));
  }
  CHECK(x.fetch(s)[0] == expected);
  ww::graph_param<int> const other{s, 100};  // another slot is another binding
  CHECK(cache.run(s, {}, step, x.data(), other) == graph_step::captured);
  CHECK(x.fetch(s)[0] == expected + 100);
}

TEST_CASE("graph_cache: two functions under one key are two keys") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 1)};
  ww::graph_cache cache{at_once()};
  auto const add = [](ww::stream_ref t, int* p) { ww::for_each_index(t, 16, add_amount{p, 1}); };
  auto const twice = [](ww::stream_ref t, int* p) { ww::for_each_index(t, 16, multiply_by{p, 2}); };
  for (int i = 0; i < 3; ++i) {
    cache.run(s, {16}, add, x.data());
    cache.run(s, {16}, twice, x.data());
  }
  CHECK(x.fetch(s)[0] == 22);
  CHECK(cache.statistics().keys.size() == 2);
}

TEST_CASE("graph_cache: keys, many of them") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  for (int round = 0; round < 3; ++round) {
    for (int key = 0; key < 200; ++key) {
      graph_step const done = cache.run(s, {key, 7}, add_step{}, x.data(), key);
      REQUIRE(done == (round == 0 ? graph_step::captured : graph_step::replayed));
    }
  }
  CHECK(x.fetch(s)[0] == 3 * 199 * 100);
  CHECK(of_key(cache, 12).key == "12x7");
}

TEST_CASE("graph_cache: bodies of every kind") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{ww::graph_cache_options{}.warmups(1).cost_gate(false)};
  int* const p = x.data();
  for (int i = 0; i < 3; ++i) {
    cache.run(
        s, {},
        [](ww::stream_ref t, int* q) {
          ww::for_each_index(t, 16, add_amount{q, 1});
        },
        p);
    cache.run(
        s, {},
        [](ww::capture_scope& scope, int* q) {
          scope.fork(2, [&](ww::stream_ref branch, unsigned b) {
            ww::for_each_index(branch, 8, add_amount{q + 8 * b, 1});
          });
        },
        p);
    cache.run(
        s, {},
        [](auto t, int* q) {
          ww::for_each_index(ww::stream_ref{t}, 16, add_amount{q, 1});
        },
        p);
    cache.run(
        s, {},
        [](auto& scope, int* q) {
          ww::for_each_index(scope.stream(), 16, add_amount{q, 1});
        },
        p);
    cache.run(
        s, {16},
        [](ww::stream_ref t, ww::shape_key const& key, int* q) {
          ww::for_each_index(t, key[0], add_amount{q, 1});
        },
        p);
    cache.run(
        s, {16},
        [](ww::capture_scope& scope, ww::shape_key const& key, int* q) {
          ww::for_each_index(scope.stream(), key[0], add_amount{q, 1});
        },
        p);
    cache.run(s, {}, [p](ww::stream_ref t) { ww::for_each_index(t, 16, add_amount{p, 1}); });
  }
  CHECK(x.fetch(s) == std::vector<int>(16, 21));
  CHECK(cache.statistics().replays == 7);
}

TEST_CASE("graph_cache: prewarm makes the graph without running the step") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph_cache cache{ww::graph_cache_options{}.cost_gate(false)};
  auto const step = [](ww::stream_ref t, ww::shape_key const& key, int* p) {
    ww::for_each_index(t, key[0], add_amount{p, 1});
  };
  std::vector<ww::shape_key> const keys{64, 32, 16};
  CHECK(cache.prewarm(s, keys, step, x.data()) == 3);
  CHECK(cache.prewarm(s, ww::shape_key{64}, step, x.data()) == graph_step::replayed);
  CHECK(x.fetch(s)[0] == 0);
  for (ww::shape_key const& key : keys) {
    CHECK(cache.run(s, key, step, x.data()) == graph_step::replayed);
  }
  CHECK(x.fetch(s)[0] == 3);
  CHECK(x.fetch(s)[63] == 1);
  CHECK_THROWS_WITH(
      cache.prewarm(ww::stream_ref::legacy_default(), ww::shape_key{1}, step, x.data()),
      contains("use a warpwright::stream"));
}

TEST_CASE("graph_cache: inside of a capture a step becomes a part of it") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  cache.run(s, {}, add_step{}, x.data(), 1);
  REQUIRE(cache.run(s, {}, add_step{}, x.data(), 1) == graph_step::replayed);
  ww::graph const outer = ww::capture(s, [&](ww::stream_ref t) {
    CHECK(cache.run(t, {}, add_step{}, x.data(), 1) == graph_step::eager);
    cache.run(t, {}, add_step{}, x.data(), 10);  // bindings that the cache does not know
  });
  CHECK(outer.node_counts().kernels == 2);
  CHECK(x.fetch(s)[0] == 2);
  ww::graph_exec exec{outer};
  exec.launch(s);
  CHECK(x.fetch(s)[0] == 13);
  CHECK(cache.statistics().inlined_calls == 2);
  CHECK(cache.run(s, {}, add_step{}, x.data(), 1) == graph_step::replayed);
}

TEST_CASE("graph_cache: a step may use the cache itself") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{ww::graph_cache_options{}.warmups(1).cost_gate(false)};
  auto const outer = [&](ww::stream_ref t, int* p) {
    cache.run(t, {1}, add_step{}, p, 1);
    cache.run(t, {2}, add_step{}, p, 10);
  };
  for (int i = 0; i < 5; ++i) cache.run(s, {3}, outer, x.data());
  CHECK(x.fetch(s)[0] == 55);
}

TEST_CASE("graph_cache: steps on the legacy default stream run eagerly") {
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  for (int i = 0; i < 3; ++i) {
    CHECK(cache.run(ww::stream_ref::legacy_default(), {}, add_step{}, x.data(), 1) ==
          graph_step::eager);
  }
  CHECK(x.fetch(ww::stream_ref::legacy_default())[0] == 3);
  ww::graph_cache_statistics const all = cache.statistics();
  CHECK(all.legacy_calls == 3);
  CHECK(all.calls == 3);
  REQUIRE(all.warnings().size() == 1);
  CHECK_THAT(all.warnings()[0], contains("legacy default stream"));
}

TEST_CASE("graph_cache: the per-thread default stream and raw handles replay") {
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  ww::stream_ref const mine = ww::stream_ref::per_thread();
  CHECK(cache.run(mine, {}, add_step{}, x.data(), 1) == graph_step::captured);
  CHECK(cache.run(mine, {}, add_step{}, x.data(), 1) == graph_step::replayed);
  CHECK(x.fetch(mine)[0] == 2);
  ww::stream s;
  cudaStream_t const raw = s.get();
  CHECK(cache.run(raw, {}, add_step{}, x.data(), 1) == graph_step::replayed);
  CHECK(cache.run(raw, {}, add_step{}, x.data(), 1) == graph_step::replayed);
  CHECK(x.fetch(s)[0] == 4);
}

TEST_CASE("graph_cache: a graph of one stream is launched on others") {
  ww::stream a;
  ww::stream b;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  cache.run(a, {}, add_step{}, x.data(), 1);
  a.synchronize();
  for (int i = 0; i < 4; ++i) {
    CHECK(cache.run(b, {}, add_step{}, x.data(), 1) == graph_step::replayed);
    CHECK(cache.run(a, {}, add_step{}, x.data(), 1) == graph_step::replayed);
  }
  a.synchronize();
  CHECK(x.fetch(b)[0] == 9);  // launches of one executable graph do not overlap
}

TEST_CASE("graph_cache: replicas, one for each stream up to their number") {
  ww::stream streams[3];
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().replicas(2)};
  auto const on = [&](int i) {
    ww::graph_step const done = cache.run(streams[i], {}, add_step{}, x.data(), 1);
    streams[i].synchronize();  // the replicas write the same memory
    return done;
  };
  CHECK(on(0) == graph_step::captured);
  CHECK(on(1) == graph_step::captured);
  for (int i = 0; i < 3; ++i) {
    CHECK(on(0) == graph_step::replayed);
    CHECK(on(1) == graph_step::replayed);
    CHECK(on(2) == graph_step::replayed);  // one of the others' graphs
  }
  CHECK(of_key(cache).graphs == 2);
}

void add_one(ww::stream_ref s, int* x) { ww::for_each_index(s, 16, add_amount{x, 1}); }
void add_ten(ww::stream_ref s, int* x) { ww::for_each_index(s, 16, add_amount{x, 10}); }

TEST_CASE("graph_cache: functions of one type have graphs of their own") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  for (int i = 0; i < 3; ++i) {
    cache.run(s, {1}, add_one, x.data());
    auto* const pointer = &add_ten;
    cache.run(s, {1}, pointer, x.data());
  }
  CHECK(cache.run(s, {1}, &add_one, x.data()) == graph_step::replayed);  // as add_one
  CHECK(x.fetch(s)[0] == 34);
}

TEST_CASE("graph_cache: exceptions of a step pass through, and the cache is as before") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  bool fails = true;
  auto const step = [&](ww::stream_ref t, int* p, int amount) {
    ww::for_each_index(t, 16, add_amount{p, amount});
    if (fails) throw std::runtime_error{"of the step"};
  };
  CHECK_THROWS_WITH(cache.run(s, {}, step, x.data(), 1), "of the step");
  CHECK_FALSE(s.is_capturing());
  fails = false;
  CHECK(cache.run(s, {}, step, x.data(), 1) == graph_step::captured);
  CHECK(cache.run(s, {}, step, x.data(), 1) == graph_step::replayed);
  fails = true;
  CHECK(cache.run(s, {}, step, x.data(), 1) == graph_step::replayed);  // not called
  CHECK_THROWS_WITH(cache.run(s, {}, step, x.data(), 2), "of the step");
  CHECK(cache.run(s, {}, step, x.data(), 1) == graph_step::replayed);
  CHECK(x.fetch(s)[0] == 4);
  CHECK(of_key(cache).failures == 0);
}

TEST_CASE("graph_cache: trim and clear") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().bytes_per_node(1000)};
  for (int key = 0; key < 5; ++key) cache.run(s, {key}, add_step{}, x.data(), 1);
  CHECK(cache.statistics().bytes == 5000);
  cache.trim(2500);
  CHECK(cache.statistics().bytes == 2000);
  CHECK(of_key(cache, 2).state == ww::graph_key_state::evicted);
  CHECK(cache.run(s, {4}, add_step{}, x.data(), 1) == graph_step::replayed);
  CHECK(cache.run(s, {2}, add_step{}, x.data(), 1) == graph_step::captured);
  cache.trim(0);
  CHECK(cache.statistics().graphs == 0);
  cache.run(s, {2}, add_step{}, x.data(), 1);
  cache.clear();
  CHECK(cache.statistics().keys.empty());
  CHECK(cache.statistics().retired_graphs == 0);
  CHECK(cache.run(s, {2}, add_step{}, x.data(), 1) == graph_step::captured);
  CHECK(x.fetch(s)[0] == 9);
}

TEST_CASE("graph_cache_options: refuses zeros") {
  ww::graph_cache_options const o;
  CHECK_THROWS_WITH(ww::graph_cache{o.max_entries(0)}, contains("max_entries: 0"));
  CHECK_THROWS_WITH(ww::graph_cache{o.variants(0)}, contains("variants: 0"));
  CHECK_THROWS_WITH(ww::graph_cache{o.replicas(0)}, contains("replicas: 0"));
  CHECK_THROWS_WITH(ww::graph_cache{o.thrash_limit(0)}, contains("thrash_limit: 0"));
}

TEST_CASE("graph_cache: the table and the JSON have the figures") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  for (int i = 0; i < 3; ++i) cache.run(s, {8, 2}, add_step{}, x.data(), 1);
  ww::graph_cache_statistics all = cache.statistics();
  std::string const table = all.to_text();
  CHECK_THAT(table, contains("graph_cache: 3 calls, 2 replayed, 0 eager; 1 built"));
  CHECK_THAT(table, contains("8x2"));
  CHECK_THAT(table, contains("replaying"));
  CHECK(table.find("warning") == std::string::npos);
  std::string json = all.to_json();
  CHECK(json.rfind("{\"calls\": 3, \"replays\": 2, ", 0) == 0);
  CHECK_THAT(json, contains("\"key\": \"8x2\", \"state\": \"replaying\""));
  // Texts are escaped; infinity is null.
  all.keys[0].last_failure = "a \"b\"\\\n";
  all.keys[0].break_even_calls = HUGE_VAL;
  json = all.to_json();
  CHECK_THAT(json, contains("\"last_failure\": \"a \\\"b\\\"\\\\\\u000a\""));
  CHECK_THAT(json, contains("\"break_even_calls\": null"));
  // So are bytes that are not UTF-8, which a file's name may hold.
  all.keys[0].last_failure = "caf\xE9 \xC3\xA9";
  CHECK_THAT(all.to_json(), contains("\"last_failure\": \"caf? \xC3\xA9\""));
  CHECK_THAT(all.to_text(), contains("never"));
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("graph_cache: a replay is one CUDA call and no allocation") {
  namespace testing = ww::testing;
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_entries(8)};
  for (int key = 0; key < 4; ++key) cache.run(s, {key, 9}, add_step{}, x.data(), 1);
  ww::graph_exec bare{ww::capture(s, [&](ww::stream_ref t) { add_step{}(t, x.data(), 1); })};
  // The host runtime allocates in a launch.
  auto const counted = [](auto&& launch) {
    allocations = 0;
    counts_allocations = true;
    for (int i = 0; i < 100; ++i) launch(i);
    counts_allocations = false;
    return allocations;
  };
  int const of_launches = counted([&](int) { bare.launch(s); });
  testing::reset_call_counts();
  int const of_replays = counted([&](int i) { cache.run(s, {i % 4, 9}, add_step{}, x.data(), 1); });
  CHECK(testing::call_count("cudaGraphLaunch") == 100);
  CHECK(testing::total_calls() == 100);
  CHECK(of_replays <= of_launches);
  s.synchronize();
}

TEST_CASE("graph_cache: sampled calls aside, the gate costs no CUDA call") {
  namespace testing = ww::testing;
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache;
  for (int i = 0; i < 200; ++i) {
    cache.run(s, {}, add_step{}, x.data(), 1);
    if (i % 8 == 0) s.synchronize();
  }
  testing::reset_call_counts();
  for (int i = 0; i < 4096; ++i) cache.run(s, {}, add_step{}, x.data(), 1);
  // A launch a call, eager or not, and the samples.
  CHECK(testing::total_calls() < 2 * 4096);
  CHECK(testing::call_count("cudaEventSynchronize") == 0);
  CHECK(testing::call_count("cudaStreamSynchronize") == 0);
  CHECK(testing::call_count("cudaDeviceSynchronize") == 0);
  CHECK(x.fetch(s)[0] == 4296);
}

TEST_CASE("graph_cache: nothing is left after its destruction") {
  namespace testing = ww::testing;
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  testing::host_runtime_stats const before = testing::stats();
  {
    ww::graph_cache cache{ww::graph_cache_options{}.warmups(0).max_entries(3).verify_every(2)};
    for (int i = 0; i < 300; ++i) cache.run(s, {i % 7}, add_step{}, x.data(), i % 3);
  }
  s.synchronize();
  testing::host_runtime_stats const after = testing::stats();
  CHECK(after.graph_execs == before.graph_execs);
  CHECK(after.graphs == before.graphs);
  CHECK(after.events == before.events);
}

#endif

TEST_CASE("an eager call that leaves an error pending throws it") {
  ww::stream s;
  ww::graph_cache cache;
  auto const failing = [](ww::stream_ref) { static_cast<void>(cudaSetDevice(12345)); };
  for (int i = 0; i < 30; ++i) CHECK_THROWS_AS(cache.run(s, {1}, failing), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(cache.statistics().replays == 0);
}
