// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Page-locked memory of default streams: of other devices and threads than those that free it, and
// beside captures; and the wait at the limit for what other threads free meanwhile.
#include "memory/pinned_support.hpp"
#include "support/catch.hpp"

#include <warpwright/interop/pmr.hpp>
#include <warpwright/memory/staging.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ww = warpwright;
using test_support::exactly;
using test_support::gate;
using test_support::kib;
using test_support::mib;

namespace {

void make_current(int device) { ww::check(cudaSetDevice(device), "cudaSetDevice"); }

// Whether one of as many blocks as the pool can have is this one.
bool is_handed_out(ww::pinned_pool& pool, void const* block, std::size_t bytes) {
  std::vector<void*> all;
  bool found = false;
  for (;;) {
    void* const p = ww::detail::pinned_access::core(pool).try_allocate_now(
        bytes, ww::source_location::current());
    if (p == nullptr) break;
    found = found || p == block;
    all.push_back(p);
  }
  for (void* const p : all) pool.deallocate(p, bytes);
  return found;
}

}  // namespace

TEST_CASE("pinned: a buffer of a default stream is that of the device that was current") {
  if (ww::device_count() < 2) return;
  for (ww::stream_ref const s : {ww::stream_ref::legacy_default(), ww::stream_ref::per_thread()}) {
    make_current(1);
    ww::pinned_pool pool{exactly(4 * mib).growth_bytes(mib)};
    gate hold{s};
    void const* block = nullptr;
    {
      ww::pinned_buffer<char> const buffer{pool, s, mib};
      block = buffer.data();
      make_current(0);
    }
    CHECK_FALSE(is_handed_out(pool, block, mib));
    int current = -1;
    ww::check(cudaGetDevice(&current), "cudaGetDevice");
    CHECK(current == 0);
    make_current(1);
    hold.open();
    ww::check(cudaStreamSynchronize(s.get()), "cudaStreamSynchronize");
  }
  make_current(0);
}

TEST_CASE("pinned: a buffer of one thread's default stream may end in another thread") {
  ww::pinned_pool pool{exactly(4 * mib)};
  ww::pinned_buffer<char> buffer;
  std::atomic<bool> made{false};
  std::atomic<bool> end{false};
  std::thread other{[&] {
    ww::stream_ref const own = ww::stream_ref::per_thread();
    gate hold{own};
    buffer = ww::pinned_buffer<char>{pool, own, mib};
    made = true;
    while (!end) std::this_thread::yield();
  }};
  while (!made) std::this_thread::yield();
  void const* const block = buffer.data();
  buffer = {};
  CHECK_FALSE(is_handed_out(pool, block, mib));
  end = true;
  other.join();
}

// The C library gives a new thread the pthread_t of one that has ended.
TEST_CASE("pinned: a buffer of an ended thread's default stream may end in a new thread") {
  ww::pinned_pool pool{exactly(4 * mib).growth_bytes(mib)};
  ww::pinned_buffer<char> buffer;
  std::unique_ptr<gate> hold;
  std::thread{[&] {
    ww::stream_ref const own = ww::stream_ref::per_thread();
    buffer = ww::pinned_buffer<char>{pool, own, mib};
    hold = std::make_unique<gate>(own);
  }}.join();
  void const* const block = buffer.data();
  bool reused = true;
  std::thread{[&] {
    buffer = {};
    reused = is_handed_out(pool, block, mib);  // records what it may have to wait for
    ww::stream_ref::per_thread().synchronize();
    reused = reused || is_handed_out(pool, block, mib);
  }}.join();
  CHECK_FALSE(reused);
  hold->open();
  ww::stream_ref::legacy_default().synchronize();  // the gate's own stream is the ended thread's
}

TEST_CASE("pinned: a buffer of a default stream may end while a blocking stream captures") {
  ww::pinned_pool pool{exactly(4 * mib)};
  cudaStream_t blocking = nullptr;
  ww::check(cudaStreamCreate(&blocking), "cudaStreamCreate");
  for (bool const of_other_thread : {true, false}) {
    ww::pinned_buffer<char> buffer;
    std::thread{[&] {
      buffer = ww::pinned_buffer<char>{
          pool, of_other_thread ? ww::stream_ref::per_thread() : ww::stream_ref::legacy_default(),
          mib};
    }}.join();
    ww::check(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal),
              "cudaStreamBeginCapture");
    buffer = {};
    CHECK(pool.statistics().live_blocks == 0);
    void* const all = pool.try_allocate(4 * mib);  // its stream cannot be waited for now
    CHECK(all == nullptr);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(blocking, &graph) == cudaSuccess);
    ww::detail::discard(cudaGraphDestroy(graph));
    void* const later = pool.allocate(4 * mib);
    CHECK(later != nullptr);
    pool.deallocate(later, 4 * mib);
  }
  ww::detail::discard(cudaStreamDestroy(blocking));
}

TEST_CASE("pmr: a default stream is that of the device and thread of the resource") {
  ww::stream_ref const per_thread = ww::stream_ref::per_thread();
  for (ww::stream_ref const s : {ww::stream_ref::legacy_default(), per_thread}) {
    bool const by_device = s == ww::stream_ref::legacy_default();
    if (by_device && ww::device_count() < 2) continue;
    if (by_device) make_current(1);
    ww::pinned_pool pool{exactly(4 * mib)};
    ww::pmr_pinned_resource resource{pool, s};
    gate hold{s};
    void* const block = resource.allocate(mib);
    auto const end = [&] {
      CHECK_FALSE(resource.is_equal(ww::pmr_pinned_resource{pool, s}));
      resource.deallocate(block, mib);
    };
    if (by_device) {
      make_current(0);
      end();
    } else {
      std::thread{end}.join();
    }
    CHECK(pool.statistics().live_blocks == 0);
    CHECK_FALSE(is_handed_out(pool, block, mib));
    if (by_device) make_current(1);
    CHECK(resource.is_equal(ww::pmr_pinned_resource{pool, s}));
    hold.open();
    ww::check(cudaStreamSynchronize(s.get()), "cudaStreamSynchronize");
    make_current(0);
  }
}

TEST_CASE("pinned: at the limit what other threads free meanwhile is noticed, in few blocks too") {
  ww::stream slow;
  ww::stream idle;
  ww::pinned_pool pool{exactly(mib)};
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(pool.allocate(64 * kib));
  gate hold{slow};
  pool.deallocate(slow.ref(), blocks[0], 64 * kib);
  std::thread other{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    pool.deallocate(idle.ref(), blocks[1], 64 * kib);
  }};
  void* const p = pool.allocate(64 * kib);
  CHECK(p == blocks[1]);
  CHECK_FALSE(slow.done());
  other.join();
  pool.deallocate(p, 64 * kib);
  for (int i = 2; i < 16; ++i) pool.deallocate(blocks[static_cast<std::size_t>(i)], 64 * kib);
}

TEST_CASE("pinned: a free on the legacy stream beside a capture of a blocking stream") {
  ww::pinned_pool pool{exactly(mib)};
  cudaStream_t blocking = nullptr;
  ww::check(cudaStreamCreate(&blocking), "cudaStreamCreate");
  void* const p = pool.allocate(64 * kib);
  ww::stream_ref const legacy = ww::stream_ref::legacy_default();
  ww::stream_ref const with_id = legacy.resolved();
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed),
            "cudaStreamBeginCapture");
  SECTION("is accepted from a stream_ref that carries its id") {
    pool.deallocate(with_id, p, 64 * kib);
    CHECK(cudaStreamEndCapture(blocking, &graph) == cudaSuccess);
    ww::detail::discard(cudaGraphDestroy(graph));
  }
  SECTION("fails otherwise, because CUDA refuses to tell the id, and the block stays live") {
    CHECK_THROWS_AS(pool.deallocate(legacy, p, 64 * kib), ww::cuda_error);
    CHECK(pool.statistics().live_bytes == 64 * kib);
    CHECK(cudaStreamEndCapture(blocking, &graph) == cudaErrorStreamCaptureInvalidated);
    ww::detail::discard(cudaGetLastError());
    pool.deallocate(legacy, p, 64 * kib);
  }
  ww::detail::discard(cudaStreamDestroy(blocking));
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.trim() == mib);
}

TEST_CASE("staging: a default stream is that of the object's device, also whether it captures") {
  if (ww::device_count() < 2) return;
  ww::pinned_pool pool;
  ww::staging staging{pool, ww::staging_options{}.threads(2)};
  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, mib), "cudaMalloc");
  std::vector<char> const host(mib, 1);
  ww::stream_ref const s = ww::stream_ref::per_thread();
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  make_current(1);
  CHECK_THROWS_AS(staging.copy_to_device(s, memory, host.data(), 4 * kib), std::invalid_argument);
  make_current(0);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  ww::detail::discard(cudaFree(memory));
}

TEST_CASE("staging: progress is not called again when it has ended the copy") {
  ww::stream s;
  ww::pinned_pool pool;
  // The caller alone has four chunks in flight when the first arrives.
  ww::staging staging{pool,
                      ww::staging_options{}.threads(2).slot_bytes(64 * kib).slots_per_thread(4)};
  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, mib), "cudaMalloc");
  std::vector<char> host(mib);
  int calls = 0;
  static_cast<void>(
      staging.copy_to_host(s, host.data(), memory, mib, [&](std::size_t, std::size_t) {
        ++calls;
        return false;
      }));
  CHECK(calls == 1);
  calls = 0;
  CHECK_THROWS_AS(staging.copy_to_host(s, host.data(), memory, mib,
                                       [&](std::size_t, std::size_t) -> bool {
                                         ++calls;
                                         throw std::runtime_error{"no"};
                                       }),
                  std::runtime_error);
  CHECK(calls == 1);
  ww::detail::discard(cudaFree(memory));
}
