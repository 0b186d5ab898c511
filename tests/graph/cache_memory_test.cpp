// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of a pool that belongs to cached graphs; steps that a capture has no memory for, or that
// are invalid in one; captures without work.
#include "cache_support.hpp"

#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>

using namespace test_support;
using ww::graph_step;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

// Adds 1 to 16 elements, with so much memory of a pool.
struct scratch_step {
  ww::memory_pool* pool;
  void operator()(ww::stream_ref s, int* x, std::size_t bytes) const {
    ww::device_buffer<unsigned char> const scratch{*pool, s, bytes};
    ww::for_each_index(s, 16, add_amount{x, 1});
  }
};

ww::memory_pool_options at_most(std::size_t bytes) {
  return ww::memory_pool_options{}.max_bytes(bytes);
}

}  // namespace

TEST_CASE("graph_cache: a graph takes the memory that the warm-up of its step has freed") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device(), at_most(48 * mib)};
  device_array<int> x{std::vector<int>(16, 0)};
  bool const gate = GENERATE(false, true);
  bool const verify = GENERATE(false, true);
  CAPTURE(gate, verify);
  {
    ww::graph_cache cache{ww::graph_cache_options{}.cost_gate(gate).verify_every(verify ? 1 : 0)};
    scratch_step const step{&pool};
    for (int i = 0; i < 1000; ++i) cache.run(s, {}, step, x.data(), 32 * mib);
    CHECK(x.fetch(s)[0] == 1000);
    ww::graph_key_statistics const k = of_key(cache);
    // There is no memory for a second graph to compare with, nor for eager calls beside a graph.
    if (verify) {
      CHECK(k.eager > 0);
    } else {
      CHECK(k.replays >= 980);
      CHECK(k.failures == 0);
    }
    CHECK_FALSE(s.is_capturing());
  }
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("graph_cache: a step without memory destroys the graphs of keys that are used less") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device(), at_most(48 * mib)};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{ww::graph_cache_options{}.cost_gate(false)};
  scratch_step const step{&pool};
  for (std::size_t i = 0; i < 60; ++i) {
    cache.run(s, ww::shape_key{i / 10 % 2}, step, x.data(), 32 * mib);
  }
  CHECK(x.fetch(s)[0] == 60);
  CHECK(cache.statistics().replays >= 40);
  CHECK(cache.statistics().evictions >= 5);
}

TEST_CASE("graph_cache: a pool without memory destroys no graphs that have none of a pool") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device(), at_most(16 * mib)};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_replay holder{0};
  holder.run(s, [&](ww::stream_ref t) { scratch_step{&pool}(t, x.data(), 8 * mib); });
  ww::graph_cache cache{at_once()};
  auto const step = [](ww::stream_ref t, int* p) { ww::for_each_index(t, 16, add_amount{p, 1}); };
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 4; ++k) cache.run(s, {k}, step, x.data());
    CHECK(pool.try_allocate(s, 12 * mib) == nullptr);
  }
  CHECK(x.fetch(s)[0] == 13);
  CHECK(cache.statistics().evictions == 0);
  CHECK(cache.statistics().graphs == 4);
}

// Sizes that differ from step to step: the peak of live and graphs' memory bounds what is reserved.
TEST_CASE("graph_cache: a pool reserves little more than its cached graphs hold") {
  ww::stream s;
  ww::stream t;
  bool const any_size = GENERATE(false, true);
  bool const two_streams = GENERATE(false, true);
  CAPTURE(any_size, two_streams);
  ww::memory_pool pool{ww::current_device(), ww::memory_pool_options{}.max_wait_seconds(1.0)};
  device_array<int> x{std::vector<int>(16, 0)};
  device_array<int> y{std::vector<int>(16, 0)};  // of the other stream
  ww::graph_cache cache{
      ww::graph_cache_options{}.cost_gate(false).max_entries(4).thrash_limit(1000000)};
  std::mt19937 random{1};
  std::uint64_t peak = 0;
  auto const step = [&](ww::stream_ref at, int* to, std::size_t bytes) {
    ww::device_buffer<unsigned char> const scratch{pool, at, bytes};
    ww::pool_statistics const now = pool.statistics();
    peak = std::max<std::uint64_t>(peak, now.live_bytes + now.graph_bytes);
    ww::for_each_index(at, 16, add_amount{to, 1});
  };
  for (int i = 0; i < 400; ++i) {
    std::size_t const bytes =
        any_size ? 32000 * (1 + random() % 200 * 10) : 8 * mib * (1 + random() % 8);
    ww::stream const& at = two_streams && i % 2 != 0 ? t : s;
    cache.run(at, ww::shape_key{bytes}, step, &at == &t ? y.data() : x.data(), bytes);
    if (i % 4 == 0) at.synchronize();
  }
  auto const most = static_cast<std::uint64_t>(1.15 * static_cast<double>(peak));
  CHECK(pool.statistics().reserved_peak_bytes <= most);
  CHECK(cache.statistics().captures > 50);
}

TEST_CASE("graph_cache: memory that the step itself lacks is the caller's exception") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device(), at_most(48 * mib)};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  CHECK_THROWS_AS(cache.run(s, {}, scratch_step{&pool}, x.data(), 64 * mib), ww::out_of_memory);
  ww::graph_cache strict{at_once().eager_fallback(false)};
  CHECK_THROWS_AS(strict.run(s, {}, scratch_step{&pool}, x.data(), 64 * mib), ww::out_of_memory);
  CHECK(strict.run(s, {}, scratch_step{&pool}, x.data(), mib) == graph_step::captured);
  CHECK(x.fetch(s)[0] == 1);
  CHECK(of_key(strict).failures == 1);
}

TEST_CASE("graph_cache: a step that is invalid only in a capture runs eagerly") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  auto const captures_itself = [](ww::stream_ref t, int* p) {
    ww::graph const inner = ww::capture(t, [&](ww::stream_ref u) {
      ww::for_each_index(u, 16, add_amount{p, 1});
    });
    ww::graph_exec exec{inner};
    exec.launch(t);
  };
  for (int i = 0; i < 10; ++i)
    CHECK(cache.run(s, {}, captures_itself, x.data()) == graph_step::eager);
  CHECK(x.fetch(s)[0] == 10);
  CHECK(of_key(cache).failures == 1);
  auto const invalid = [](ww::stream_ref, int*) { throw std::invalid_argument{"of the step"}; };
  CHECK_THROWS_WITH(cache.run(s, {}, invalid, x.data()), contains("of the step"));
}

TEST_CASE("graph_cache: a step whose work is on another stream is no graph, and runs each time") {
  ww::stream s;
  ww::stream other;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  auto const wrong = [&](ww::stream_ref, int* p) {
    ww::for_each_index(other, 16, add_amount{p, 1});
  };
  for (int i = 0; i < 200; ++i) CHECK(cache.run(s, {}, wrong, x.data()) == graph_step::eager);
  CHECK(x.fetch(other)[0] == 200);
  ww::graph_key_statistics const k = of_key(cache);
  CHECK(k.graphs == 0);
  CHECK(k.eager == 200);
  CHECK(k.failures == 3);  // the first call, and those after pauses of 64 and 128
  CHECK_THAT(k.last_failure, contains("the capture is empty"));
  CHECK(cache.statistics().warnings().size() == 1);
  CHECK(cache.prewarm(s, {1}, wrong, x.data()) == graph_step::eager);
}

TEST_CASE("graph_cache: the pool's memory of graphs is counted, once where a capture reuses it") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  auto const step = [&](ww::stream_ref t, int* p) {
    for (int i = 0; i < 3; ++i) scratch_step{&pool}(t, p, 2 * mib);
    ww::device_buffer<unsigned char> const a{pool, t, mib};
    ww::device_buffer<unsigned char> const b{pool, t, mib};
    ww::for_each_index(t, 16, add_amount{p, 1});
  };
  cache.run(s, {}, step, x.data());
  CHECK(of_key(cache).pool_bytes == 2 * mib);
  cache.run(s, {1}, scratch_step{&pool}, x.data(), 8 * mib);
  CHECK(cache.statistics().pool_bytes == 10 * mib);
  CHECK_THAT(cache.statistics().to_text(), contains("of pools 10.0 MiB"));
  CHECK_THAT(cache.statistics().to_json(), contains("\"pool_bytes\": 10485760"));
  s.synchronize();
}

TEST_CASE("graph_cache: max_pool_bytes bounds what many keys keep of a pool") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_pool_bytes(64 * mib)};
  for (int round = 0; round < 3; ++round) {
    for (int k = 0; k < 100; ++k) {
      cache.run(s, {k}, scratch_step{&pool}, x.data(), 8 * mib);
      CHECK(cache.statistics().pool_bytes <= 64 * mib);
      s.synchronize();
    }
  }
  CHECK(x.fetch(s)[0] == 300);
  CHECK(cache.statistics().graphs == 8);
  CHECK(cache.statistics().evictions > 90);
  // 800 without the limit; the pool grows in larger steps, and takes back what graphs had at a
  // miss.
  CHECK(pool.statistics().reserved_bytes <= 400 * mib);
}

TEST_CASE("graph_cache: a key that needs more than the budget keeps its graph") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().max_pool_bytes(mib)};
  for (int i = 0; i < 10; ++i) cache.run(s, {}, scratch_step{&pool}, x.data(), 8 * mib);
  CHECK(of_key(cache).replays == 9);
  s.synchronize();
}
