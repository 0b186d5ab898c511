// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pinned pool with CUDA calls that fail, and without host memory.
#include "memory/failing_host_memory.hpp"
#include "memory/pinned_support.hpp"
#include "support/catch.hpp"

#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace ww = warpwright;
namespace testing = ww::testing;
using test_support::allocate_many;
using test_support::exactly;
using test_support::free_many;
using test_support::gate;
using test_support::growing_by_256_kib;
using test_support::kib;
using test_support::mib;
using test_support::reallocations_left;

namespace {

std::function<void()> after_query;  // of an event, once
void* registered_last = nullptr;

/// Every kind of call that makes CUDA calls.
void use_everything(ww::pinned_pool& pool, ww::stream const& s) {
  for (int i = 0; i < 4; ++i) {
    ww::pinned_buffer<char> const a{pool, s, 200 * kib};
    ww::pinned_buffer<char> const b{pool, 100 * kib};
    ww::pinned_buffer<char> const c{pool, ww::stream_ref{s.get()}, 100};
    ww::pinned_buffer<char> const d{pool, ww::stream_ref::per_thread(), 100};
  }
  for (int i = 0; i < 300; ++i) ww::pinned_buffer<char> const a{pool, s, 256};
  s.synchronize();
  void* const all = pool.allocate(512 * kib);
  pool.deallocate(all, 512 * kib);
  { ww::pinned_buffer<char> const a{pool, s, 256}; }
  pool.retire(s);
  static_cast<void>(pool.trim());
}

}  // namespace

// The linker sends this program's calls here.
extern "C" {
cudaError_t __real_cudaEventQuery(cudaEvent_t event);
cudaError_t __wrap_cudaEventQuery(cudaEvent_t event);
cudaError_t __wrap_cudaEventQuery(cudaEvent_t event) {
  cudaError_t const result = __real_cudaEventQuery(event);
  std::function<void()> const call = std::exchange(after_query, nullptr);
  if (call) call();
  return result;
}
cudaError_t __real_cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags);
cudaError_t __wrap_cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags);
cudaError_t __wrap_cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  registered_last = pointer;
  return __real_cudaHostRegister(pointer, bytes, flags);
}
}

TEST_CASE("pinned: every call failing in turn leaves no leak and a pool that works") {
  auto const options = growing_by_256_kib(512 * kib).mapped();
  testing::reset_host_runtime();
  {
    ww::stream const s;
    ww::pinned_pool pool{options};
    use_everything(pool, s);
  }
  std::vector<testing::call_record> const calls = testing::calls();
  std::size_t failures = 0;
  for (testing::call_record const& call : calls) {
    for (std::uint64_t nth = 1;; ++nth) {
      INFO(call.name << " call " << nth);
      testing::reset_host_runtime();
      std::uint64_t hits = 0;
      {
        ww::stream const s;
        ww::pinned_pool pool{options};
        {
          testing::scoped_fault_plan const plan{
              testing::fault_plan{}.fail(call.name, nth, cudaErrorUnknown)};
          try {
            use_everything(pool, s);
          } catch (ww::cuda_error const& e) {
            ++failures;
            CHECK(e.code() == cudaErrorUnknown);
          } catch (std::invalid_argument const&) {  // a stream that may be capturing
            ++failures;
          } catch (ww::out_of_memory const&) {
            ++failures;
          }
          hits = plan.hits();
        }
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        CHECK(pool.statistics().live_bytes == 0);
        CHECK_NOTHROW(use_everything(pool, s));
        CHECK(pool.statistics().reserved_bytes == 0);
        s.synchronize();
      }
      CHECK(testing::leak_report().empty());
      if (hits == 0) break;
      if (nth >= 12) nth += 5;  // those of a loop
    }
  }
  CHECK(failures > 10);
}

TEST_CASE("pinned: an event that cannot be recorded leaves the blocks for a later one") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail_from("cudaEventRecord", 1, cudaErrorUnknown)};
    std::vector<void*> const blocks = allocate_many(pool, 256, 4 * kib);
    testing::reset_call_counts();
    CHECK_NOTHROW(free_many(pool, s, blocks, 4 * kib));
    CHECK(testing::call_count("cudaEventRecord") >= 1);
    CHECK(testing::call_count("cudaEventRecord") < 20);
    CHECK(pool.statistics().pending_bytes == mib);
    CHECK_THROWS_WITH(pool.allocate(4 * kib), contains("cudaEventRecord"));
    CHECK_THROWS_WITH(pool.retire(s), contains("cudaEventRecord"));
    CHECK_THROWS_WITH(pool.trim(), contains("cudaEventRecord"));
    CHECK(pool.statistics().pending_bytes == mib);
  }
  void* const all = pool.allocate(mib);
  CHECK(all != nullptr);
  pool.deallocate(all, mib);
}

TEST_CASE("pinned: after failed records, 512 frees need one event again") {
  ww::stream s;
  ww::pinned_pool pool{exactly(16 * mib)};
  std::vector<void*> const blocks = allocate_many(pool, 5 * 512, 256);
  std::size_t next = 0;
  auto const free_next = [&](std::size_t count) {
    for (; count != 0; --count) pool.deallocate(s, blocks[next++], 256);
  };
  {
    testing::scoped_fault_plan const plan{testing::fault_plan{}
                                              .fail("cudaEventRecord", 1, cudaErrorUnknown)
                                              .fail("cudaEventRecord", 2, cudaErrorUnknown)
                                              .fail("cudaEventRecord", 3, cudaErrorUnknown)};
    free_next(4 * 512);
    CHECK(plan.hits() == 3);
  }
  CHECK(pool.statistics().event_records == 1);
  free_next(512);
  CHECK(pool.statistics().event_records == 2);
}

TEST_CASE("pinned: a batch that comes back during its query is not taken for the next one") {
  ww::stream s;
  std::unique_ptr<ww::pinned_pool> pool;
  {
    // With the runtime's functions, which the test sees.
    testing::scoped_fault_plan const plan{testing::fault_plan{}.fail_from(
        "cudaGetDriverEntryPointByVersion", 1, cudaErrorNotSupported)};
    pool = std::make_unique<ww::pinned_pool>(exactly(2 * mib));
  }
  void* const first = pool->allocate(512 * kib);
  void* const second = pool->allocate(512 * kib);
  {
    gate hold{s};
    pool->deallocate(s, first, 512 * kib);  // of this size each has an event
  }
  std::unique_ptr<gate> hold;
  after_query = [&] {
    // As threads of the same shard do meanwhile.
    static_cast<void>(pool->trim(2 * mib));
    hold = std::make_unique<gate>(s);
    pool->deallocate(s, second, 512 * kib);
  };
  void* const third = pool->allocate(256 * kib);
  REQUIRE(hold != nullptr);
  CHECK(pool->statistics().pending_bytes == 512 * kib);
  CHECK_FALSE(s.done());
  hold->open();
  pool->deallocate(third, 256 * kib);
}

TEST_CASE("pinned: a block that is freed while another thread fails to record the event is kept") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  void* const last = pool.allocate(4 * kib);
  free_many(pool, s, allocate_many(pool, 10, 4 * kib), 4 * kib);
  {
    // The query before the record takes long enough for a free.
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}
            .delay("cudaStreamIsCapturing", 1, std::chrono::milliseconds{60})
            .fail("cudaEventRecord", 1, cudaErrorUnknown)};
    std::thread other{[&] { CHECK_THROWS_AS(pool.allocate(mib), ww::cuda_error); }};
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    pool.deallocate(s, last, 4 * kib);
    other.join();
  }
  CHECK(pool.statistics().pending_bytes == 11 * 4 * kib);
  void* const all = pool.allocate(mib);
  CHECK(all != nullptr);
  pool.deallocate(all, mib);
}

TEST_CASE("pinned: a stream is retired while another thread records the event behind its frees") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  free_many(pool, s, allocate_many(pool, 10, 4 * kib), 4 * kib);
  void* all = nullptr;
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.delay("cudaEventRecord", 1, std::chrono::milliseconds{60})};
    std::thread other{[&] { all = pool.try_allocate(mib); }};
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    CHECK_NOTHROW(pool.retire(s));
    other.join();
  }
  CHECK(all != nullptr);
  pool.deallocate(all, mib);
}

TEST_CASE("pinned: a query that fails is reported where its blocks are needed") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  {
    gate hold{s};
    free_many(pool, s, allocate_many(pool, 256, 4 * kib), 4 * kib);
  }
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail_from("cudaEventQuery", 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(pool.allocate(mib), contains("cudaEventQuery"));
  }
  void* const all = pool.allocate(mib);
  CHECK(all != nullptr);
  pool.deallocate(all, mib);
}

TEST_CASE("pinned: a stream that cannot be registered leaves the block live") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  void* const p = pool.allocate(1000);
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail_from("cudaStreamIsCapturing", 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(pool.deallocate(s, p, 1000), contains("cudaStreamIsCapturing"));
  }
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail_from("cudaStreamGetId", 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(pool.deallocate(s.get(), p, 1000), contains("cudaStreamGetId"));
  }
  CHECK(pool.statistics().live_blocks == 1);
  pool.deallocate(s, p, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, p, 1000), contains("double free"));
}

TEST_CASE("pinned: pages go back to the system") {
  testing::reset_host_runtime();
  auto const is_mapped = [] { return msync(registered_last, 4096, MS_ASYNC) == 0; };
  {
    ww::pinned_pool pool{growing_by_256_kib(mib)};
    {
      testing::scoped_fault_plan const plan{
          testing::fault_plan{}
              .fail_from("cudaHostRegister", 1, cudaErrorMemoryAllocation)
              .fail_from("cudaHostAlloc", 1, cudaErrorMemoryAllocation)};
      CHECK(pool.try_allocate(1000) == nullptr);
      CHECK_FALSE(is_mapped());
    }
    pool.deallocate(pool.allocate(1000), 1000);
    CHECK(is_mapped());
    CHECK(pool.trim() != 0);
    CHECK_FALSE(is_mapped());
    pool.deallocate(pool.allocate(1000), 1000);
    CHECK(is_mapped());
  }
  CHECK_FALSE(is_mapped());
  CHECK(testing::leak_report().empty());
}

TEST_CASE("pinned: a buffer that waits for its stream breaks no other stream's capture") {
  ww::stream s;
  ww::stream captured;
  ww::pinned_pool pool{exactly(mib)};
  ww::pinned_buffer<char> buffer{pool, s, 1000};
  ww::check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal),
            "cudaStreamBeginCapture");
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail("cudaStreamGetDevice", 1, cudaErrorUnknown)};
    buffer = {};
    CHECK(plan.hits() == 1);
  }
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("pinned: memory that cannot be released stays in the pool") {
  ww::pinned_pool pool{exactly(mib)};
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail("cudaHostUnregister", 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(pool.trim(), contains("cudaHostUnregister"));
  }
  CHECK(pool.statistics().reserved_bytes == mib);
  void* const all = pool.allocate(mib);
  pool.deallocate(all, mib);
  CHECK(pool.trim() == mib);
}

TEST_CASE("pinned: the destructor waits for a stream, with an event or without") {
  // Of another device than that of the memory, whose release waits for its own.
  testing::reset_host_runtime(testing::host_runtime_options{}.with_devices(2));
  for (bool const with_event : {true, false}) {
    ww::stream s{ww::device_id{1}};
    auto pool = std::make_unique<ww::pinned_pool>(exactly(mib));
    gate hold{s};
    free_many(*pool, s, allocate_many(*pool, 10, 4 * kib), 4 * kib);
    testing::fault_plan faults;
    if (!with_event) faults = faults.fail_from("cudaEventRecord", 1, cudaErrorUnknown);
    testing::scoped_fault_plan const plan{faults};
    std::thread opener{[&] { hold.open_late(); }};
    pool.reset();
    CHECK(s.done());
    opener.join();
  }
  testing::reset_host_runtime();
}

TEST_CASE("pinned: a sticky error ends in exceptions, not in a crash") {
  testing::reset_host_runtime();
  {
    ww::stream s;
    ww::pinned_pool pool{growing_by_256_kib(mib)};
    free_many(pool, s, allocate_many(pool, 10, 4 * kib), 4 * kib);
    testing::poison_device(0, cudaErrorIllegalAddress);
    CHECK_THROWS_AS(pool.allocate(512 * kib), ww::cuda_error);
    CHECK_THROWS_AS(pool.trim(), ww::cuda_error);
  }
  testing::reset_host_runtime();
}

TEST_CASE("pinned: a lack of host memory loses no block") {
  testing::reset_host_runtime();
  int failed = 0;
  for (int left = 0; left < 60; ++left) {
    INFO("after " << left);
    std::vector<ww::stream> const streams(12);
    ww::pinned_pool pool{growing_by_256_kib(ww::pinned_pool_options::unlimited)};
    struct block {
      void* pointer;
      std::size_t bytes;
    };
    std::vector<block> live;
    live.reserve(1000);
    auto const attempt = [&](auto const& call) {
      try {
        call();
      } catch (std::bad_alloc const&) {
        ++failed;
      }
    };
    reallocations_left = left;
    for (std::size_t i = 0; i < 60; ++i) {
      std::size_t const bytes = 256 + 4096 * (i % 13);
      attempt([&] { live.push_back(block{pool.allocate(bytes), bytes}); });
    }
    std::size_t const allocated = live.size();
    for (std::size_t i = 0; i < allocated / 2; ++i) {
      attempt([&] {
        pool.deallocate(streams[i % streams.size()], live.back().pointer, live.back().bytes);
        live.pop_back();
      });
    }
    for (ww::stream const& s : streams) attempt([&] { pool.retire(s); });
    attempt([&] {
      void* const large = pool.allocate(mib);
      live.push_back(block{large, mib});
    });
    reallocations_left = -1;
    CHECK(pool.statistics().live_blocks == live.size());
    for (block const& b : live) pool.deallocate(b.pointer, b.bytes);
    std::uint64_t const reserved = pool.statistics().reserved_bytes;
    CHECK(pool.trim() == reserved);
    CHECK(pool.statistics().live_bytes == 0);
  }
  CHECK(failed > 60);
  CHECK(testing::leak_report().empty());
}

TEST_CASE("pinned: a segment for which there is no host memory is forgotten") {
  int forgotten = 0;
  for (int left = 0; left < 20; ++left) {
    INFO("after " << left);
    ww::pinned_pool pool{growing_by_256_kib(mib)};
    registered_last = nullptr;
    reallocations_left = left;
    bool failed = false;
    try {
      pool.deallocate(pool.allocate(1000), 1000);
    } catch (std::bad_alloc const&) {
      failed = true;
    }
    reallocations_left = -1;
    if (!failed || registered_last == nullptr || pool.statistics().reserved_bytes != 0) continue;
    ++forgotten;
    CHECK_THROWS_WITH(pool.deallocate(registered_last, 1000), contains("not from this pool"));
  }
  CHECK(forgotten != 0);
}

TEST_CASE("pinned: streams that come and go need no more host memory") {
  ww::pinned_pool pool{exactly(16 * mib)};
  auto const use_streams = [&pool](int count) {
    for (int i = 0; i < count; ++i) {
      ww::stream s;
      pool.deallocate(s.ref(), pool.allocate(4 * kib), 4 * kib);
      pool.retire(s);
      s.synchronize();
    }
  };
  use_streams(100);
  reallocations_left = 0;
  CHECK_NOTHROW(use_streams(1000));
  reallocations_left = -1;
}
