// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A graph_cache used by several threads, on several devices.
#include "cache_support.hpp"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

using namespace test_support;
using ww::graph_step;

TEST_CASE("graph_cache: threads with their own streams and memory share a cache") {
  constexpr int threads = 4;
  constexpr int steps = 300;
  for (bool const gate : {false, true}) {
    ww::graph_cache cache{
        ww::graph_cache_options{}.warmups(1).cost_gate(gate).max_entries(3).variants(2)};
    std::atomic<int> wrong{0};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        ww::stream s;
        device_array<int> x{std::vector<int>(16, 0)};
        long long expected = 0;
        for (int i = 0; i < steps; ++i) {
          int const amount = 1 + (i / 40 + t) % 2;
          cache.run(s, {i / 10 % 4}, add_step{}, x.data(), amount);
          expected += amount;
        }
        for (int const value : x.fetch(s)) wrong += value != expected ? 1 : 0;
      });
    }
    for (std::thread& t : all) t.join();
    CHECK(wrong == 0);
    ww::graph_cache_statistics const counted = cache.statistics();
    CHECK(counted.calls == threads * steps);
    CHECK(counted.eager + counted.replays + counted.builds + counted.updates + counted.rebuilds ==
          counted.calls);
  }
}

TEST_CASE("graph_cache: threads that launch the same graph") {
  constexpr int threads = 4;
  constexpr int steps = 200;
  for (unsigned const replicas : {1U, 3U}) {
    ww::graph_cache cache{at_once().replicas(replicas)};
    device_array<int> x{std::vector<int>(threads * 16, 0)};
    std::vector<std::thread> all;
    // The work of each thread is the same memory: adds of a graph that is launched on several
    // streams do not overlap; with replicas they might, so each thread waits for its own.
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        ww::stream s;
        for (int i = 0; i < steps; ++i) {
          if (replicas == 1) {
            cache.run(s, {}, add_step{}, x.data(), 1);
          } else {
            cache.run(s, {}, add_step{}, x.data() + 16 * t, 1);
          }
        }
        s.synchronize();
      });
    }
    for (std::thread& t : all) t.join();
    ww::stream s;
    std::vector<int> const values = x.fetch(s);
    if (replicas == 1) {
      CHECK(values[0] == threads * steps);
    } else {
      for (int const v : values) REQUIRE(v == steps);
    }
  }
}

TEST_CASE("graph_cache: statistics, trim and prewarm beside running threads") {
  ww::graph_cache cache{at_once().max_entries(2)};
  std::atomic<bool> stop{false};
  std::thread other{[&] {
    ww::stream s;
    device_array<int> y{std::vector<int>(16, 0)};
    for (int i = 0; !stop; ++i) {
      static_cast<void>(cache.statistics().to_json());
      if (i % 3 == 0) cache.trim(0);
      cache.prewarm(s, ww::shape_key{100 + i % 3}, add_step{}, y.data(), 1);
    }
  }};
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  for (int i = 0; i < 500; ++i) cache.run(s, {i % 3}, add_step{}, x.data(), 1);
  stop = true;
  other.join();
  CHECK(x.fetch(s)[0] == 500);
}

TEST_CASE("graph_cache: other threads' captures do not disturb it, in any mode") {
  ww::graph_cache cache{ww::graph_cache_options{}.warmups(0).max_entries(1)};
  std::atomic<bool> stop{false};
  std::atomic<int> broken{0};
  std::thread other{[&] {
    ww::stream s;
    device_array<int> y{std::vector<int>(16, 0)};
    while (!stop) {
      try {
        ww::graph const g = ww::capture(s, [&](ww::stream_ref t) { add_step{}(t, y.data(), 1); });
      } catch (ww::cuda_error const&) {
        ++broken;
      }
    }
  }};
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  for (int i = 0; i < 400; ++i) cache.run(s, {i % 2}, add_step{}, x.data(), i % 5);
  stop = true;
  other.join();
  CHECK(broken == 0);
  CHECK(x.fetch(s)[0] == 800);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("graph_cache: streams of several devices have graphs of their own") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    ww::graph_cache cache{ww::graph_cache_options{}.warmups(1)};
    std::unique_ptr<ww::stream> streams[2];
    std::unique_ptr<device_array<int>> memory[2];
    for (int d = 0; d < 2; ++d) {
      ww::scoped_device const scope{ww::device_id{d}};
      streams[d] = std::make_unique<ww::stream>();
      memory[d] = std::make_unique<device_array<int>>(std::vector<int>(16, 0));
    }
    auto const step = [](ww::stream_ref t, int* p, int device) {
      ww::scoped_device const scope{ww::device_id{device}};
      ww::for_each_index(t, 16, add_amount{p, 1});
    };
    for (int i = 0; i < 100; ++i) {
      for (int d = 0; d < 2; ++d) cache.run(*streams[d], {}, step, memory[d]->data(), d);
    }
    for (int d = 0; d < 2; ++d) {
      ww::scoped_device const scope{ww::device_id{d}};
      CHECK(memory[d]->fetch(*streams[d])[0] == 100);
    }
    // The same bindings on streams of two devices: a graph each.
    ww::graph_cache same{at_once()};
    auto const nothing = [](ww::stream_ref t, int) {
      ww::check(cudaLaunchHostFunc(
                    t, [](void*) {}, nullptr),
                "cudaLaunchHostFunc");
    };
    CHECK(same.run(*streams[0], {}, nothing, 1) == graph_step::captured);
    CHECK(same.run(*streams[1], {}, nothing, 1) == graph_step::captured);
    CHECK(same.run(*streams[0], {}, nothing, 1) == graph_step::replayed);
    CHECK(same.run(*streams[1], {}, nothing, 1) == graph_step::replayed);
    CHECK(ww::current_device() == ww::device_id{0});
    // A device's graphs take none of the variants of another one.
    ww::graph_cache two{at_once().variants(2)};
    for (int i = 0; i < 40; ++i) {
      for (int d = 0; d < 2; ++d) two.run(*streams[d], {}, nothing, i % 2);
    }
    CHECK(two.statistics().builds == 4);
    CHECK(two.statistics().replays == 76);
    for (auto& s : streams) s->synchronize();
  }
  ww::testing::reset_host_runtime();
}

#endif
