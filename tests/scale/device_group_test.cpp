// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/scale/device_group.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using ww::device_schedule;
using ww::detail::device_scheduler;

namespace {

constexpr auto schedules = {device_schedule::round_robin, device_schedule::least_loaded,
                            device_schedule::fastest};

// On the host runtime there are so many devices; leaks of a test before are its own.
void have([[maybe_unused]] int devices) {
#if WARPWRIGHT_HOST_RUNTIME
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(devices));
#endif
}

void call(ww::stream_ref stream, void (*f)(void*), void* argument) {
  ww::check(cudaLaunchHostFunc(stream.get(), f, argument), "cudaLaunchHostFunc");
}

// Takes `milliseconds` of a stream, of any device.
void occupy(ww::stream_ref stream, double milliseconds) {
  auto const sleep = [](void* us) {
    std::this_thread::sleep_for(std::chrono::microseconds{reinterpret_cast<std::intptr_t>(us)});
  };
  auto const microseconds = static_cast<std::intptr_t>(1e3 * milliseconds);
  call(stream, sleep, reinterpret_cast<void*>(microseconds));
}

struct fill {
  float* to;
  std::size_t first;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    to[i] = static_cast<float>(first + i);
  }
};

// Devices that run one piece after another, on a clock of its own.
struct simulation {
  struct piece {
    double items, seconds, end;
  };
  simulation(std::size_t devices, device_schedule rule, unsigned max_pieces = 8)
      : scheduler{devices, {rule, 1, max_pieces}}, queues(devices), ends(devices) {}

  template <class Seconds>
  std::size_t run(double items, Seconds const& seconds_of) {
    for (;; now += 0.05) {
      for (std::size_t i = 0; i < queues.size(); ++i) {
        for (; !queues[i].empty() && queues[i].front().end <= now; queues[i].pop_front()) {
          scheduler.end(i, queues[i].front().items, queues[i].front().seconds);
        }
      }
      std::size_t const i = scheduler.begin(items);
      if (i == device_scheduler::none) continue;
      double const begin = std::max(now, ends[i]), seconds = items * seconds_of(i, begin);
      if (seconds < 0.0) scheduler.end(i, items, seconds);
      if (seconds < 0.0) return device_scheduler::none;
      queues[i].push_back({items, seconds, ends[i] = begin + seconds});
      return i;
    }
  }
  double end() const { return *std::max_element(ends.begin(), ends.end()); }

  device_scheduler scheduler;
  std::vector<std::deque<piece>> queues;
  std::vector<double> ends;
  double now = 0.0;
};

}  // namespace

TEST_CASE("devices of any speeds reach nearly the sum of their speeds") {
  unsigned const seed = std::random_device{}();
  std::mt19937 random{seed};
  std::uniform_real_distribution<double> uniform{0.0, 1.0};
  for (int t = 0; t < test_support::rounds(300); ++t) {
    std::size_t const devices = 1 + random() % 8;
    CAPTURE(seed, t, devices);
    simulation s{devices, device_schedule::fastest};
    std::vector<double> pace(devices);
    double speeds = 0.0, items = 0.0;
    for (double& p : pace) speeds += 1.0 / (p = std::exp2(2.0 * uniform(random)));
    for (std::size_t k = 0; k < 500 * devices; ++k) {
      double const piece = 1.0 + 3.0 * uniform(random);
      items += piece;
      s.run(piece, [&](std::size_t i, double) { return pace[i] * (0.8 + 0.4 * uniform(random)); });
    }
    CHECK(items / speeds / s.end() > 0.95);
  }
}

TEST_CASE("two devices of 2:1 reach the sum of their speeds, unless they get pieces in turn") {
  for (device_schedule const rule : schedules) {
    simulation s{2, rule};
    auto const seconds_of = [](std::size_t i, double) { return i == 0 ? 1.0 : 2.0; };
    for (int k = 0; k < 3000; ++k) s.run(1.0, seconds_of);
    double const share = 3000.0 / 1.5 / s.end();
    CHECK((rule == device_schedule::round_robin ? share < 0.7 : share > 0.98));
  }
}

TEST_CASE("a device that becomes slower, and fast again, gets what it can do") {
  simulation s{2, device_schedule::fastest};
  double items = 0.0;
  auto const seconds_of = [](std::size_t i, double at) {
    return i == 0 && at > 1000.0 && at < 2000.0 ? 500.0 : 1.0;
  };
  for (; s.now < 3000.0; items += 1.0) s.run(1.0, seconds_of);
  CHECK(items > 0.95 * (2000.0 + 1000.0 + 2000.0));
}

TEST_CASE("a device that fails rests while others work, and works again") {
  for (device_schedule const rule : schedules) {
    simulation s{3, rule};
    int failed = 0;
    double items = 0.0;
    bool broken = true;
    auto const seconds_of = [&](std::size_t i, double) { return i == 1 && broken ? -1.0 : 1.0; };
    for (; s.now < 1000.0;) s.run(1.0, seconds_of) == device_scheduler::none ? ++failed : ++items;
    CHECK((failed < 20 && items > 1950.0));
    broken = false;
    for (items = 0.0; s.now < 5000.0; ++items) s.run(1.0, seconds_of);
    CHECK(items > 10500.0);
  }
}

TEST_CASE("pieces that run at once are one sample") {
  device_scheduler s{2, {device_schedule::fastest, 2, 8}};
  for (int k = 0; k < 8; ++k) s.begin(1.0, k % 2 == 0 ? 0 : 1);
  for (int k = 0; k < 4; ++k) {
    s.end(0, 1.0, k % 2 == 0 ? 4.0 : 0.0);
    s.end(1, 1.0, 2.0);
  }
  ww::device_part parts[2];
  s.divide(100, parts);
  CHECK(parts[0].count == 50);
}

TEST_CASE("a batch is divided by speeds, which may change") {
  device_scheduler s{2, {device_schedule::fastest, 1, 8}};
  ww::device_part parts[2];
  double pace = 1.0;                           // of the first; the other's: 2
  auto const split = [&](std::size_t items) {  // returns the share of the sum of the speeds
    s.divide(items, parts);
    CHECK(parts[1].first + parts[1].count == items);
    auto const first = double(parts[0].count), second = double(parts[1].count);
    if (first > 0.0) s.end(s.begin(first, 0), first, first * pace);
    if (second > 0.0) s.end(s.begin(second, 1), second, second * 2.0);
    return double(items) / (1.0 / pace + 0.5) / std::max(first * pace, second * 2.0);
  };
  CHECK(split(3000) < 0.8);  // in equal parts
  for (double const changed : {1.0, 8.0, 1.0}) {
    pace = changed;
    for (int k = 0; k < 7; ++k) split(7000);
    CHECK(split(7000) > 0.95);
  }
  for (pace = 1e4; parts[0].count > 0;) split(70);
  pace = 1.0;
  for (int tries = 0; parts[0].count < 40 && tries < 1000000; ++tries) split(70);
  CHECK(parts[0].count >= 40);  // it is tried again
}

TEST_CASE("the parts of a split are gathered on a device and on the host") {
  have(2);
  ww::device_group group;
  ww::pinned_pool pinned;
  ww::pinned_buffer<float> host{pinned, 2000};
  std::vector<float*> results(group.size());
  std::vector<ww::device_buffer<float>> memory;
  auto const parts = group.split(1000, [&](ww::device_slot& d, std::size_t first, std::size_t n) {
    CHECK(ww::current_device() == d.device);
    occupy(d.stream, 5.0);
    memory.emplace_back(d.pool, d.stream, 2 * n);
    results[d.index] = memory.back().data();
    ww::for_each_index(d.stream, 2 * n, fill{memory.back().data(), 2 * first});
  });
  for (std::size_t home = 0; home <= group.size(); ++home) {  // the last time: the host
    std::size_t const i = home % group.size();
    ww::device_buffer<float> all{group.pool(i), group.stream(i), 2000};
    group.gather(group.stream(i), parts, home == i ? all.data() : host.data(), results, 2);
    if (home == i) all.copy_to(group.stream(i), host.data(), 2000);
    group.stream(i).synchronize();
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < 2000; ++k) {
      wrong += host.data()[k] != static_cast<float>(k);
      host.data()[k] = -1.0F;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a gather waits for what its stream does with the target, and the stream for it") {
  have(2);
  ww::device_group group;
  ww::stream const stream{group.device(0)};
  ww::device_buffer<float> all{group.pool(0), stream, 100}, part{group.pool(0), stream, 100};
  ww::for_each_index(stream, 100, fill{part.data(), 0});
  stream.synchronize();
  for (bool const late_part : {false, true}) {
    occupy(stream, 20.0);
    ww::for_each_index(stream, 100, fill{all.data(), 1000});  // earlier: overwritten by the gather
    if (late_part) occupy(group.stream(0), 40.0);
    group.gather(stream, {{0, 0, 100}}, all.data(), std::vector<float*>{part.data()});
    float copy[100];
    all.copy_to(stream, copy, 100);
    stream.synchronize();
    for (int i = 0; i < 100; ++i) CHECK(copy[i] == static_cast<float>(i));
  }
}

TEST_CASE("several threads run pieces, and the current device stays") {
  have(2);
  ww::device_group group{ww::device_group_options{}.max_pieces(3)};
  std::atomic<int> run{0}, wrong{0};
  auto const pieces = [&] {
    ww::scoped_device const current{group.device(group.size() - 1)};
    for (int k = 0; k < 50; ++k) {
      group.run(1.0 + k % 3, [&](ww::device_slot& d) {
        wrong += ww::current_device() != d.device || group.device(d.index) != d.device;
        ww::device_buffer<float> const x{d.pool, d.stream, 1000};
        ++run;
      });
      wrong += ww::current_device() != group.device(group.size() - 1);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) threads.emplace_back(pieces);
  for (std::thread& t : threads) t.join();
  group.wait();
  CHECK((run == 300 && wrong == 0));
}

TEST_CASE("a device has at most max_pieces()") {
  have(2);
  std::atomic<int> ended{0};
  auto const end = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
  ww::device_group group{ww::device_group_options{}.max_pieces(2)};
  for (int begun = 1; begun <= 20; ++begun) {
    group.run([&](ww::device_slot& d) { occupy(d.stream, 3.0), call(d.stream, end, &ended); });
    CHECK(begun - ended <= 2 * static_cast<int>(group.size()));
  }
}

TEST_CASE("what a function throws is passed on") {
  ww::device_group group;
  auto const part = [](ww::device_slot&, std::size_t, std::size_t) { throw 1; };
  CHECK_THROWS_AS(group.split(100, part), int);
  CHECK_THROWS_AS(group.run([](ww::device_slot&) { throw 1; }), int);
}

TEST_CASE("links are measured between each pair of devices") {
  have(3);
  ww::device_group group;
  std::vector<ww::device_link> const links = group.links(1 << 16);
  CHECK(links.size() == group.size() * (group.size() - 1));
  for (ww::device_link const& link : links) {
    CHECK((link.from != link.to && link.bytes_per_second > 0.0 && link.latency_seconds > 0.0));
  }
  if (!links.empty()) CHECK_THAT(ww::to_text(links), contains("device 0 -> 1  "));
}

TEST_CASE("wrong arguments throw with the remedy") {
  have(2);
  using devices = std::vector<ww::device_id>;
  using options = ww::device_group_options;
  devices const first{ww::device_id{0}}, missing{ww::device_id{ww::device_count()}};
  CHECK_THROWS_WITH((ww::device_group{missing}), contains("does not exist"));
  CHECK_THROWS_WITH((ww::device_group{devices{}}), contains("0 devices"));
  CHECK_THROWS_WITH((ww::device_group{first, options{}.streams(0)}), contains("give at least 1"));
  CHECK_THROWS_WITH((ww::device_group{first, options{}.max_pieces(0)}), contains("at least 1"));
  ww::device_group group{first};
  for (double const items : {0.0, -1.0, std::nan("")}) {
    CHECK_THROWS_WITH(group.run(items, [](ww::device_slot&) {}), contains("give items above 0"));
  }
  CHECK(group.split(0, [](ww::device_slot&, std::size_t, std::size_t) { FAIL(); })[0].count == 0);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a long piece does not hold up others of its device") {
  ww::device_group group{{ww::device_id{0}}, ww::device_group_options{}.max_pieces(3)};
  struct held {
    std::atomic<bool> open{false}, in_vain{false};
  } h;
  auto const hold = [](void* p) {
    held& own = *static_cast<held*>(p);
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    while (!own.open && !own.in_vain) {
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > end) own.in_vain = true;
    }
  };
  group.run([&](ww::device_slot& d) { call(d.stream, hold, &h); });
  for (int k = 0; k < 3; ++k) group.run([](ww::device_slot& d) { occupy(d.stream, 1.0); });
  h.open = true;
  group.wait();
  CHECK_FALSE(h.in_vain);
}

TEST_CASE("a split learns the speeds of the devices") {
  have(2);
  ww::device_group group;
  std::vector<ww::device_part> parts;
  for (int k = 0; k < 5; ++k) {
    parts = group.split(60, [&](ww::device_slot& d, std::size_t, std::size_t count) {
      occupy(d.stream, (d.index == 1 ? 4.0 : 2.0) * static_cast<double>(count));
    });
    group.wait();
  }
  if (!test_support::sanitized) CHECK(std::fabs(double(parts[0].count) - 40.0) < 8.0);
}

TEST_CASE("events are used again, and a piece takes few calls") {
  have(1);
  ww::device_group group{ww::device_group_options{}.max_pieces(2)};
  auto const piece = [](ww::device_slot& d) { occupy(d.stream, 1.0); };
  for (int k = 0; k < 8; ++k) group.run(piece);
  ww::testing::reset_call_counts();
  for (int k = 0; k < 20; ++k) group.run(piece);
  CHECK(ww::testing::call_count("cudaEventCreateWithFlags") == 0);
  CHECK(ww::testing::call_count("cudaEventRecord") <= 40);
  CHECK(ww::testing::call_count("cudaEventElapsedTime") <= 22);
}

// Each kind of call of a group.
void use_all() {
  ww::device_group group{ww::device_group_options{}.max_pieces(1)};
  for (int k = 0; k < 5; ++k) group.run([](ww::device_slot& d) { occupy(d.stream, 0.1); });
  ww::device_buffer<float> x{group.pool(0), group.stream(0), 8},
      y{group.pool(1), group.stream(1), 8};
  group.split(8, [&](ww::device_slot& d, std::size_t, std::size_t) { occupy(d.stream, 0.1); });
  group.gather(group.stream(1), {{0, 0, 8}}, y.data(), std::vector<float*>{x.data()});
  group.wait();
  static_cast<void>(group.links(64));
}

TEST_CASE("captures of other threads are not disturbed") {
  have(2);
  ww::stream const captured{ww::device_id{0}};
  REQUIRE(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal) == cudaSuccess);
  std::thread{use_all}.join();
  CHECK(ww::testing::call_count("cudaDeviceEnablePeerAccess") == 2);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("whichever call fails, its name is told and nothing leaks") {
  have(2);
  use_all();
  for (ww::testing::call_record const& call : ww::testing::calls()) {
    bool frees = false;  // where that fails, nothing else can be done
    for (char const* const part : {"Destroy", "Free", "Unmap", "Release"}) {
      frees = frees || call.name.find(part) != std::string::npos;
    }
    for (std::uint64_t nth = 1; nth <= call.count; nth = test_support::next_failing(nth)) {
      have(2);
      CAPTURE(call.name, nth);
      ww::testing::scoped_fault_plan const faults{
          ww::testing::fault_plan{}.fail(call.name, nth, cudaErrorMemoryAllocation)};
      try {
        use_all();
      } catch (ww::cuda_error const& error) {
        CHECK_THAT(error.what(), contains(error.api()));
        CHECK(std::string{error.api()}.substr(0, 4) != "warp");
      } catch (std::bad_alloc const&) {
      }
      bool const cleared = cudaGetLastError() == cudaSuccess;
      CHECK((cleared || call.name == "cudaGetLastError"));
      if (!frees) CHECK(ww::testing::leak_report() == std::vector<std::string>{});
    }
  }
}

TEST_CASE("a lost device fails its pieces, and the others work") {
  have(2);
  ww::device_group group;
  group.run([](ww::device_slot&) {});
  ww::testing::poison_device(1, cudaErrorIllegalAddress);
  int failed = 0, on_first = 0;
  for (int k = 0; k < 100; ++k) {
    try {
      on_first += group.run([](ww::device_slot& d) { occupy(d.stream, 0.1); }) == 0 ? 1 : 0;
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorIllegalAddress);
      ++failed;
    }
  }
  CHECK((failed > 0 && failed < 10));
  CHECK_THROWS_AS(group.wait(), ww::cuda_error);
  CHECK(on_first > 90);
}
#endif
