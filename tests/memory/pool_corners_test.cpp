// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Interactions of a pool's parts: graphs and eager work, blocks with several streams, per-thread
// default streams, captures of other threads, a full device.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <thread>

namespace ww = warpwright;
namespace testing = ww::testing;
using test_support::all_are;
using test_support::fetch;
using test_support::fill;
using test_support::gate;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

template <class Condition>
bool eventually(Condition const& condition) {
  for (int i = 0; i < 300; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

// A call that reclaims the memory of destroyed graphs.
void look(ww::memory_pool& pool, ww::stream const& s) {
  try {
    pool.deallocate(s, pool.try_allocate(s, 256, 512), 256);
  } catch (...) {
  }
}

ww::memory_pool_options small() {
  return ww::memory_pool_options{}.max_bytes(4 * mib).max_wait_seconds(0.0);
}

}  // namespace

TEST_CASE("a free in a capture waits for eager work of its stream") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device, small()};
  void* const p = pool.allocate(s, 2 * mib);
  gate hold{s};
  fill(s, p, 1, 2 * mib);  // runs when the gate opens
  {
    ww::capture_watch const watch{pool};
    static_cast<void>(ww::capture(s, [&](ww::stream_ref c) { pool.deallocate(c, p, 2 * mib); }));
  }
  // The graph was never launched and is destroyed; the fill has not run.
  CHECK(eventually([&] {
    look(pool, other);
    return pool.statistics().graph_bytes == 0;
  }));
  void* const q = pool.allocate(other, 2 * mib);
  fill(other, q, 2, 2 * mib);
  void* const r = pool.try_allocate(other, 1 * mib);
  if (r != nullptr) fill(other, r, 2, mib);
  hold.open_late();
  s.synchronize();
  CHECK(all_are(fetch(other, q, 2 * mib), 2));
  if (r != nullptr) CHECK(all_are(fetch(other, r, mib), 2));
}

TEST_CASE("a block with record_use() is not freed in a capture") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::stream user;
  ww::memory_pool pool{device, small()};
  void* const p = pool.allocate(s, 2 * mib);
  pool.record_use(user, p);
  {
    ww::capture_watch const watch{pool};
    static_cast<void>(ww::capture(s, [&](ww::stream_ref c) {
      CHECK_THROWS_WITH(pool.deallocate(c, p, 2 * mib), contains("record_use"));
    }));
  }
  CHECK(pool.statistics().live_bytes == 2 * mib);
  pool.deallocate(s, p, 2 * mib);
  CHECK(pool.statistics().live_bytes == 0);
  // No later block may inherit the record.
  std::uint64_t const before = pool.statistics().event_records;
  for (int i = 0; i < 4; ++i) pool.deallocate(s, pool.allocate(s, 256), 256);
  CHECK(pool.statistics().event_records == before);
}

TEST_CASE("a graph's block with record_use() waits for both") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::stream other;
  ww::stream user;
  ww::memory_pool pool{device, small()};
  void* p = nullptr;
  {
    ww::capture_watch const watch{pool};
    ww::graph const g = ww::capture(s, [&](ww::stream_ref c) { p = pool.allocate(c, 2 * mib); });
    pool.record_use(user, p);
    CHECK(g.get() != nullptr);
    gate hold{user};
    fill(user, p, 1, 2 * mib);
    pool.deallocate(s, p, 2 * mib);
    CHECK(pool.statistics().graph_bytes == 2 * mib);
  }
  // As above, with the graph destroyed while the second stream's work waits.
  {
    ww::capture_watch const watch{pool};
    static_cast<void>(ww::capture(s, [&](ww::stream_ref c) { p = pool.allocate(c, 2 * mib); }));
  }
  pool.record_use(user, p);
  gate hold{user};
  fill(user, p, 1, 2 * mib);
  pool.deallocate(s, p, 2 * mib);
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  look(pool, other);
  std::thread late{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    hold.open();
  }};
  void* const q = pool.try_allocate(other, 3 * mib);
  if (q != nullptr) fill(other, q, 2, 3 * mib);
  late.join();
  user.synchronize();
  if (q != nullptr) CHECK(all_are(fetch(other, q, 3 * mib), 2));
  CHECK(eventually([&] {
    look(pool, other);
    static_cast<void>(pool.trim(~std::size_t{0}));
    return pool.statistics().graph_bytes == 0;
  }));
  // No later block may inherit the record.
  std::uint64_t const before = pool.statistics().event_records;
  for (int i = 0; i < 4; ++i) pool.deallocate(s, pool.allocate(s, 256), 256);
  CHECK(pool.statistics().event_records == before);
}

TEST_CASE("a stream that freed in a capture is retired before the graph is destroyed") {
  for (bool const raw : {false, true}) {
    testing::reset_host_runtime();
    auto s = std::make_unique<ww::stream>();
    ww::stream other;
    ww::memory_pool pool{device, small()};
    void* const p = pool.allocate(other, 2 * mib);
    std::unique_ptr<ww::graph> g;
    {
      ww::capture_watch const watch{pool};
      g = std::make_unique<ww::graph>(ww::capture(*s, [&](ww::stream_ref c) {
        pool.deallocate(raw ? ww::stream_ref{c.get()} : c, p, 2 * mib);
      }));
    }
    pool.retire(*s);
    s.reset();
    CHECK(pool.statistics().graph_bytes == 2 * mib);
    g.reset();
    CHECK(eventually([&] {
      look(pool, other);
      static_cast<void>(pool.trim(~std::size_t{0}));
      return pool.statistics().graph_bytes == 0;
    }));
    void* const q = pool.allocate(other, 4 * mib);
    pool.deallocate(other, q, 4 * mib);
    static_cast<void>(pool.trim());
    CHECK(pool.statistics().reserved_bytes == 0);
  }
}

TEST_CASE("a graph is destroyed while its block is freed outside") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device};
  void* p = nullptr;
  std::unique_ptr<ww::graph> g;
  {
    ww::capture_watch const watch{pool};
    g = std::make_unique<ww::graph>(
        ww::capture(s, [&](ww::stream_ref c) { p = pool.allocate(c, 2 * mib); }));
  }
  {
    auto const slow = std::chrono::milliseconds{200};
    testing::scoped_fault_plan const plan{testing::fault_plan{}.delay("cudaEventRecord", slow)};
    std::thread freeing{[&] { pool.deallocate(s, p, 2 * mib); }};
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    g.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    look(pool, other);
    freeing.join();
  }
  CHECK(pool.statistics().live_bytes == 0);
  static_cast<void>(pool.trim());
  CHECK(pool.statistics().reserved_bytes == 0);
}

TEST_CASE("record_use() of a per-thread default stream, freed by another thread") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device, small()};
  void* const p = pool.allocate(s, 2 * mib);
  std::atomic<int> step{0};
  bool good = true;
  std::thread user{[&] {
    ww::stream_ref const mine = ww::stream_ref::per_thread();
    pool.record_use(mine, p);
    gate hold{mine};
    fill(mine, p, 1, 2 * mib);
    step = 1;
    while (step != 2) std::this_thread::yield();
    hold.open_late();
    mine.synchronize();
    step = 3;
  }};
  while (step != 1) std::this_thread::yield();
  std::thread late{[&] {  // in case the free or the allocation waits, which is legal
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
    int expected = 1;
    step.compare_exchange_strong(expected, 2);
  }};
  pool.deallocate(s, p, 2 * mib);
  void* const q = pool.try_allocate(other, 3 * mib);
  if (q != nullptr) fill(other, q, 2, 3 * mib);
  late.join();
  while (step != 3) std::this_thread::yield();
  user.join();
  if (q != nullptr) good = all_are(fetch(other, q, 3 * mib), 2);
  CHECK(good);
}

TEST_CASE("a capture coalesces its freed blocks with adjacent ready memory") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::memory_pool pool{device};
  ww::capture_watch const watch{pool};
  ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
    void* const p = pool.allocate(c, mib);  // half a granule
    pool.deallocate(c, p, mib);
    void* const q = pool.try_allocate(c, 2 * mib);  // exactly the granule
    CHECK(q != nullptr);
    pool.deallocate(c, q, 2 * mib);
  });
}

TEST_CASE("a pool's destructor waits for running work although the device is full") {
  testing::reset_host_runtime();
  ww::stream s;
  struct flags {
    std::atomic<bool> open{false};
    std::atomic<bool> ran{false};
  } both;
  auto pool = std::make_unique<ww::memory_pool>(device);
  pool->deallocate(s, pool->allocate(s, mib), mib);
  auto* const work = +[](void* f) {
    while (!static_cast<flags*>(f)->open) std::this_thread::yield();
    static_cast<flags*>(f)->ran = true;
  };
  ww::check(cudaLaunchHostFunc(s.get(), work, &both), "cudaLaunchHostFunc");
  std::thread opener{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    both.open = true;
  }};
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail_from("cudaMalloc", 1, cudaErrorMemoryAllocation)};
    pool.reset();
  }
  CHECK(both.ran);
  opener.join();
  s.synchronize();
}

TEST_CASE("hits while a graph is alive") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::memory_pool pool{device};
  ww::graph_exec exec;
  {
    ww::capture_watch const watch{pool};
    ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
      void* const p = pool.allocate(c, mib);
      fill(c, p, 1, mib);
      pool.deallocate(c, p, mib);
    });
    exec = ww::graph_exec{g};
  }
  pool.deallocate(s, pool.allocate(s, 5 * mib), 5 * mib);
  std::uint64_t const before = pool.statistics().hits;
  for (int i = 0; i < 100; ++i) pool.deallocate(s, pool.allocate(s, 5 * mib), 5 * mib);
  CHECK(pool.statistics().hits - before >= 99);
}

TEST_CASE("a per-thread default stream does not accumulate events") {
  testing::reset_host_runtime();
  ww::memory_pool pool{device};
  ww::stream_ref const mine = ww::stream_ref::per_thread();
  for (int i = 0; i < 64 * 100; ++i) {
    pool.deallocate(mine, pool.allocate(mine, 4096), 4096);
    if (i % 64 == 0) mine.synchronize();
  }
  std::uint64_t creations = 0;
  for (testing::call_record const& call : testing::calls()) {
    if (call.name == "cudaEventCreateWithFlags") creations = call.count;
  }
  CHECK(creations <= 8);
}

TEST_CASE("a memory_cache does not query the id of a capturing stream") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::memory_pool pool{device};
  ww::memory_cache cache = pool.make_cache(s.ref());
  ww::capture_watch const watch{pool};
  cudaStream_t const raw = s.get();
  ww::check(cudaStreamBeginCapture(raw, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  void* p = nullptr;
  CHECK_NOTHROW(p = cache.allocate(ww::stream_ref{raw}, mib));
  CHECK_NOTHROW(cache.deallocate(ww::stream_ref{raw}, p, mib));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(raw, &graph) == cudaSuccess);
  if (graph != nullptr) ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

TEST_CASE("trim with blocks of another thread's default stream invalidates no capture") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::memory_pool pool{device};
  std::atomic<int> step{0};
  std::thread other{[&] {
    ww::stream_ref const mine = ww::stream_ref::per_thread();
    pool.deallocate(mine, pool.allocate(mine, mib), mib);
    step = 1;
    while (step != 2) std::this_thread::yield();
  }};
  while (step != 1) std::this_thread::yield();
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  CHECK_NOTHROW(pool.trim());
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  if (graph != nullptr) ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  CHECK(pool.statistics().reserved_bytes == 0);
  step = 2;
  other.join();
}

TEST_CASE("large alignments in a pool with a low limit") {
  testing::reset_host_runtime();
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(8 * mib)};
  for (std::size_t a = 256; a <= ww::memory_pool::max_alignment_bytes; a *= 2) {
    void* const p = pool.try_allocate(s, 256, a);
    CHECK(p != nullptr);
    pool.deallocate(s, p, 256);
  }
}

TEST_CASE("initial memory up to a limit that is not a multiple of a granule") {
  testing::reset_host_runtime();
  CHECK_NOTHROW(ww::memory_pool(
      device, ww::memory_pool_options{}.max_bytes(5 * mib + 256).initial_bytes(5 * mib + 256)));
}

TEST_CASE("a miss on the legacy default stream while a blocking stream captures") {
  testing::reset_host_runtime();
  cudaStream_t blocking = nullptr;
  ww::check(cudaStreamCreate(&blocking), "cudaStreamCreate");
  ww::memory_pool pool{device};
  ww::stream_ref const legacy = ww::stream_ref::legacy_default().resolved();
  void* const p = pool.allocate(legacy, mib);
  ww::check(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), "begin");
  CHECK_NOTHROW(pool.allocate(legacy, 4 * mib));
  {
    ww::capture_watch const watch{pool};
    CHECK_NOTHROW(pool.deallocate(legacy, p, mib));
  }
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaSuccess);
  if (graph != nullptr) ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  ww::check(cudaStreamDestroy(blocking), "cudaStreamDestroy");
}

TEST_CASE("a child of fork() ends a pool whose locks the parent's threads hold") {
  testing::reset_host_runtime();
  auto const options =
      ww::memory_pool_options{}.on_destruction([](void*, ww::pool_statistics const&) noexcept {});
  auto pool = std::make_unique<ww::memory_pool>(device, options);
  ww::stream const s;
  pool->deallocate(s, pool->allocate(s, mib), mib);
  std::atomic<bool> end{false};
  std::thread holds_locks{[&] {
    while (!end) static_cast<void>(pool->statistics());
  }};
  bool ended = true;
  for (int i = 0; i < 10 && ended; ++i) {
    pid_t const child = fork();
    if (child == 0) {
      pool.reset();
      _exit(0);
    }
    int status = 0;
    ended = child > 0 && eventually([&] { return waitpid(child, &status, WNOHANG) != 0; });
    if (child > 0 && !ended) {
      static_cast<void>(kill(child, SIGKILL));
      static_cast<void>(waitpid(child, &status, 0));
    }
  }
  end = true;
  holds_locks.join();
  CHECK(ended);
}
