// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Objects in a pool's memory on default streams: of other threads and devices than those in which
// they end, or grow.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/memory/scalar.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

namespace ww = warpwright;
using test_support::all_are;
using test_support::fetch;
using test_support::fill;
using test_support::gate;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

void make_current(int ordinal) { ww::check(cudaSetDevice(ordinal), "cudaSetDevice"); }

// Runs in another thread, whose per-thread default stream is another one.
template <class F>
void elsewhere(F const& f) {
  std::thread{f}.join();
}

}  // namespace

TEST_CASE("a buffer of one thread's default stream may end in another thread") {
  ww::memory_pool pool{device};
  ww::stream_ref const own = ww::stream_ref::per_thread();
  void const* old = nullptr;
  bool reused = true;
  {
    gate hold{own};
    auto end = [&, buffer = ww::device_buffer<unsigned char>{pool, own, mib}]() mutable {
      old = buffer.data();
      buffer = ww::device_buffer<unsigned char>{};
      // The memory is free for the stream of this thread only behind that of the other one.
      void* const next = pool.allocate(ww::stream_ref::per_thread(), mib);
      reused = next == old;
      pool.deallocate(ww::stream_ref::per_thread(), next, mib);
    };
    std::thread{std::move(end)}.join();
  }
  CHECK_FALSE(reused);
  CHECK(pool.statistics().live_bytes == 0);
}

// The C library gives a new thread the pthread_t of one that has ended.
TEST_CASE("a buffer of an ended thread's default stream may end in a new thread") {
  ww::memory_pool pool{device};
  ww::device_buffer<unsigned char> buffer;
  std::unique_ptr<gate> hold;
  elsewhere([&] {
    ww::stream_ref const own = ww::stream_ref::per_thread();
    buffer = ww::device_buffer<unsigned char>{pool, own, mib};
    hold = std::make_unique<gate>(own);
  });
  bool reused = true;
  elsewhere([&] {
    void const* const old = buffer.data();
    buffer = ww::device_buffer<unsigned char>{};
    void* const next = pool.allocate(ww::stream_ref::per_thread(), mib);
    reused = next == old;
    pool.deallocate(ww::stream_ref::per_thread(), next, mib);
  });
  CHECK_FALSE(reused);
  hold->open();
  ww::stream_ref::legacy_default().synchronize();  // the gate's own stream is the ended thread's
}

TEST_CASE("a scalar of one thread's default stream may end in another thread") {
  ww::memory_pool pool{device};
  ww::stream_ref const own = ww::stream_ref::per_thread();
  bool reused = true;
  {
    gate hold{own};
    auto end = [&, scalar = ww::device_scalar<int>{pool, own}]() mutable {
      void const* const old = scalar.data();
      { ww::device_scalar<int> const ended{std::move(scalar)}; }
      ww::device_scalar<int> const next{pool, ww::stream_ref::per_thread()};
      reused = next.data() == old;
    };
    std::thread{std::move(end)}.join();
  }
  CHECK_FALSE(reused);
}

TEST_CASE("a buffer of one thread's default stream may grow in another thread") {
  ww::memory_pool pool{device};
  ww::stream_ref const own = ww::stream_ref::per_thread();
  ww::device_buffer<unsigned char> buffer{pool, own, mib};
  fill(own, buffer.data(), 1, mib);
  {
    gate hold{own};
    fill(own, buffer.data(), 2, mib);
    std::thread opens{[&] { hold.open_late(); }};
    elsewhere([&] { buffer.resize(2 * mib); });
    opens.join();
  }
  ww::stream_ref::legacy_default().synchronize();
  CHECK(all_are(fetch(own, buffer.data(), mib), 2));
}

TEST_CASE("a buffer of a default stream is on that of the device that was current") {
  if (ww::device_count() < 2) return;
  for (ww::stream_ref const s : {ww::stream_ref::legacy_default(), ww::stream_ref::per_thread()}) {
    make_current(1);
    ww::memory_pool pool{ww::device_id{1}};
    ww::stream other{ww::device_id{1}};
    gate hold{s};
    void const* old = nullptr;
    {
      ww::device_buffer<unsigned char> buffer{pool, s, mib};
      old = buffer.data();
      make_current(0);
      buffer.resize(2 * mib);
      buffer.reallocate(mib);
    }
    int current = -1;
    ww::check(cudaGetDevice(&current), "cudaGetDevice");
    CHECK(current == 0);
    make_current(1);
    void* const next = pool.allocate(other, mib);
    CHECK(next != old);
    pool.deallocate(other, next, mib);
    hold.open();
    s.synchronize();
    CHECK(pool.statistics().live_bytes == 0);
    CHECK(pool.trim() > 0);
    CHECK(pool.statistics().reserved_bytes == 0);
  }
  make_current(0);
}

// The miss waits on the host, for work that may in turn wait for what the free's thread does next.
TEST_CASE("a free on a thread's default stream does not wait for another thread's miss") {
  constexpr std::size_t count = 64;  // an event is due
  ww::stream const first;
  ww::stream const second;
  ww::memory_pool pool{device, ww::memory_pool_options{}
                                   .source(ww::memory_source::cuda_malloc)
                                   .max_bytes(20 * mib)
                                   .growth_bytes(0)
                                   .max_wait_seconds(0)};
  void* const low = pool.allocate(first, 8 * mib);
  void* const high = pool.allocate(first, 8 * mib);
  std::atomic<bool> allocated{false};
  std::atomic<bool> waits{false};
  std::atomic<bool> freed{false};
  std::thread frees{[&] {
    ww::stream_ref const own = ww::stream_ref::per_thread();
    void* blocks[count];
    for (void*& block : blocks) block = pool.allocate(own, 256);
    allocated = true;
    while (!waits) std::this_thread::yield();
    for (void* const block : blocks) pool.deallocate(own, block, 256);
    freed = true;
  }};
  while (!allocated) std::this_thread::yield();
  gate hold{first};
  pool.deallocate(first, low, 8 * mib);
  pool.deallocate(first, high, 8 * mib);
  void* whole = nullptr;  // of both blocks' memory, which has to go back to CUDA first
  std::thread misses{[&] { whole = pool.allocate(second, 16 * mib); }};
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  waits = true;
  for (int i = 0; i < 2000 && !freed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  CHECK(freed);
  hold.open();
  misses.join();
  frees.join();
  pool.deallocate(second, whole, 16 * mib);
}

TEST_CASE("beside a capture of a blocking stream a buffer of another thread's stream is freed") {
  ww::memory_pool pool{device};
  ww::device_buffer<unsigned char> buffer{pool, ww::stream_ref::per_thread(), mib};
  cudaStream_t blocking = nullptr;
  ww::check(cudaStreamCreate(&blocking), "cudaStreamCreate");
  ww::graph const g = ww::capture(
      ww::stream_ref{blocking}, [&](ww::stream_ref) { elsewhere([&] { buffer = {}; }); },
      ww::capture_mode::relaxed);
  CHECK(g.get() != nullptr);
  CHECK(pool.statistics().live_bytes == 0);
  ww::check(cudaStreamDestroy(blocking), "cudaStreamDestroy");
}
