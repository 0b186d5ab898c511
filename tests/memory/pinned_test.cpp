// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/pinned.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::gate;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

ww::pinned_pool_options small(std::size_t maximum) {
  return ww::pinned_pool_options{}.maximum_bytes(maximum).growth_bytes(256 * kib);
}

}  // namespace

static_assert(!std::is_move_constructible<ww::pinned_pool>::value, "buffers point to their pool");
static_assert(!std::is_copy_constructible<ww::pinned_buffer<int>>::value, "one owner");
static_assert(std::is_nothrow_move_assignable<ww::pinned_buffer<int>>::value, "");

TEST_CASE("a pinned pool allocates page-locked memory without rounding up to powers of two") {
  ww::pinned_pool pool;
  void* const p = pool.allocate(1000);
  std::memset(p, 1, 1000);
  cudaPointerAttributes attributes{};
  ww::check(cudaPointerGetAttributes(&attributes, p), "cudaPointerGetAttributes");
  CHECK(attributes.type == cudaMemoryTypeHost);
  ww::pinned_statistics const live = pool.statistics();
  CHECK(live.live_bytes == 1024);
  CHECK(live.reserved_bytes == 32 * mib);
  CHECK(live.largest_hole_bytes == 32 * mib - 1024);
  pool.deallocate(p, 1000);
  CHECK(pool.allocate(1000) == p);
  pool.deallocate(p, 1000);
  ww::pinned_statistics const after = pool.statistics();
  CHECK(after.live_bytes == 0);
  CHECK(after.allocations == 2);
  CHECK(after.deallocations == 2);
  CHECK(after.hits == 1);
  CHECK(after.hit_rate() == 0.5);
  CHECK(after.upstream_allocations == 1);
  CHECK(pool.trim() == 32 * mib);
  CHECK(pool.statistics().upstream_deallocations == 1);
}

TEST_CASE("pinned: 0 bytes, absurd sizes, alignments") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.growth_bytes(mib)};
  CHECK(pool.allocate(0) == nullptr);
  pool.deallocate(nullptr, 0);
  CHECK(pool.statistics().allocations == 0);
  for (std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} - 300, std::size_t{1} << 60U}) {
    CHECK(pool.try_allocate(bytes) == nullptr);
    CHECK_THROWS_AS(pool.allocate(bytes), ww::out_of_memory);
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  void* const odd = pool.allocate(1);
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void* const p = pool.allocate(10, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    pool.deallocate(p, 10);
  }
  pool.deallocate(odd, 1);
  for (std::size_t bad : {std::size_t{0}, std::size_t{24}, std::size_t{8192}}) {
    CHECK_THROWS_WITH(pool.allocate(10, bad), contains("is not a power of two from 1 to 4096"));
  }
}

TEST_CASE("pinned: the limit holds and is reported") {
  ww::pinned_pool pool{small(mib)};
  CHECK(pool.limit_bytes() == mib);
  void* const p = pool.allocate(700 * kib);
  try {
    static_cast<void>(pool.allocate(400 * kib));
    FAIL("more than the limit");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().requested_bytes == 400 * kib);
    CHECK(e.report().live_bytes == 700 * kib);
    CHECK(e.report().limit_bytes == mib);
    CHECK_THAT(std::string{e.what()}, contains("page-locked memory"));
  }
  pool.deallocate(p, 700 * kib);
  void* const all = pool.allocate(mib);
  CHECK(all != nullptr);
  CHECK(pool.statistics().reserved_bytes <= mib);
  pool.deallocate(all, mib);
  CHECK_THROWS_AS(ww::pinned_pool(small(mib).initial_bytes(2 * mib)), ww::out_of_memory);
}

TEST_CASE("pinned: initial memory serves without a call") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(mib)};
  CHECK(pool.statistics().reserved_bytes == mib);
#if WARPWRIGHT_HOST_RUNTIME
  ww::testing::reset_call_counts();
#endif
  void* const p = pool.allocate(mib);
  pool.deallocate(p, mib);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == 0);
#endif
  CHECK(pool.statistics().hits == 1);
}

TEST_CASE("pinned: a block in flight is not reused") {
  ww::stream s;
  ww::pinned_pool pool{small(ww::pinned_pool_options::unlimited)};
  void* const p = pool.allocate(256 * kib);
  {
    gate hold{s};
    pool.deallocate(s, p, 256 * kib);
    void* const q = pool.allocate(256 * kib);
    CHECK(q != p);
    pool.deallocate(q, 256 * kib);
    CHECK(pool.statistics().live_bytes == 0);
  }
  // The stream has completed: both blocks are coalesced.
  CHECK(pool.trim() == 512 * kib);
}

TEST_CASE("pinned: at the limit it waits for the block in flight") {
  ww::stream s;
  ww::pinned_pool pool{small(256 * kib)};
  void* const p = pool.allocate(256 * kib);
  gate hold{s};
  pool.deallocate(s, p, 256 * kib);
  std::thread opener{[&] { hold.open_late(); }};
  void* const q = pool.allocate(256 * kib);
  CHECK(s.done());  // it has waited
  opener.join();
  CHECK(q == p);
  pool.deallocate(q, 256 * kib);
}

TEST_CASE("pinned: a stream may be destroyed after its blocks were freed") {
  ww::pinned_pool pool{small(256 * kib)};
  for (int i = 0; i < 20; ++i) {
    ww::stream s;
    void* const p = pool.allocate(200 * kib);
    pool.deallocate(s, p, 200 * kib);
  }
  CHECK(pool.statistics().event_records == 20);
  CHECK(pool.statistics().reserved_bytes == 256 * kib);
}

TEST_CASE("pinned: at the limit it waits for the stream that suffices, not for a slower one") {
  ww::stream slow;
  ww::stream fast;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(8 * mib).maximum_bytes(8 * mib)};
  void* const a = pool.allocate(4 * mib);
  void* const b = pool.allocate(4 * mib);
  test_support::gate held{slow};
  test_support::gate opened{fast};
  pool.deallocate(slow.ref(), a, 4 * mib);
  pool.deallocate(fast.ref(), b, 4 * mib);
  std::thread opener{[&] { opened.open_late(); }};
  void* const c = pool.allocate(4 * mib);
  CHECK(c == b);
  CHECK_FALSE(slow.done());
  opener.join();
  pool.deallocate(c, 4 * mib);
}

TEST_CASE("pinned: frees on other streams break no capture, of this thread or another") {
  ww::stream captured;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(mib)};
  for (auto const mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
    std::vector<ww::stream> const streams(4);
    auto const free_many = [&] {
      for (ww::stream const& s : streams) {
        for (int i = 0; i < 100; ++i) pool.deallocate(s.ref(), pool.allocate(256), 256);
      }
    };
    ww::check(cudaStreamBeginCapture(captured.get(), mode), "cudaStreamBeginCapture");
    free_many();
    std::thread{free_many}.join();
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess);
    ww::detail::discard(cudaGraphDestroy(graph));
  }
}

TEST_CASE("pinned: at the limit a block that is freed without a stream is noticed") {
  ww::stream slow;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(8 * mib).maximum_bytes(8 * mib)};
  void* const a = pool.allocate(4 * mib);
  void* const b = pool.allocate(4 * mib);
  test_support::gate held{slow};
  pool.deallocate(slow.ref(), a, 4 * mib);
  std::thread other{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.deallocate(b, 4 * mib);
  }};
  void* const c = pool.allocate(4 * mib);
  CHECK_FALSE(slow.done());
  other.join();
  pool.deallocate(c, 4 * mib);
}

TEST_CASE("pinned: at the limit it does not wait for blocks that are freed later") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(8 * mib).maximum_bytes(8 * mib)};
  void* const first = pool.allocate(3 * mib);
  void* const middle = pool.allocate(mib);
  void* const last = pool.allocate(3 * mib);
  pool.deallocate(first, 3 * mib);
  pool.deallocate(last, 3 * mib);  // 7 MiB are free, and no 5 of them in a row
  std::atomic<bool> stop{false};
  std::thread other{[&] {
    ww::stream s;
    while (!stop) {
      pool.deallocate(s.ref(), pool.allocate(4096), 4096);
      s.synchronize();
    }
  }};
  for (int i = 0; i < 5; ++i) CHECK(pool.try_allocate(5 * mib) == nullptr);
  stop = true;
  other.join();
  pool.deallocate(middle, mib);
}

TEST_CASE("pinned: blocks freed on an idle stream leave few events") {
  ww::stream s;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(64 * mib)};
#if WARPWRIGHT_HOST_RUNTIME
  ww::testing::reset_call_counts();
#endif
  for (int i = 0; i < 20000; ++i) {
    pool.deallocate(s.ref(), pool.allocate(4096), 4096);
    if (i % 100 == 0) s.synchronize();
  }
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::call_count("cudaEventCreateWithFlags") < 1000);
  CHECK(ww::testing::call_count("cudaEventQuery") < 3000);
#endif
}

TEST_CASE("pinned: streams that come and go leave nothing behind") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(64 * mib)};
  auto const use_streams = [&pool](int count) {
    for (int i = 0; i < count; ++i) {
      ww::stream s;
      pool.deallocate(s.ref(), pool.allocate(4096), 4096);
      s.synchronize();
    }
  };
  use_streams(50);
#if WARPWRIGHT_HOST_RUNTIME
  auto const events = ww::testing::stats().events;
#endif
  use_streams(3000);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::stats().events <= events);
#endif
  CHECK(pool.statistics().reserved_bytes == 64 * mib);
}

TEST_CASE("pinned: misuse is reported") {
  ww::stream s;
  ww::pinned_pool pool{small(mib)};
  void* const p = pool.allocate(1000);
  CHECK_THROWS_WITH(pool.deallocate(p, 999), contains("wrong size: 1000 bytes were allocated"));
  CHECK_THROWS_WITH(pool.deallocate(s, p, 999), contains("wrong size"));
  CHECK_THROWS_WITH(pool.deallocate(static_cast<char*>(p) + 256, 1000), contains("double free"));
  int on_the_stack = 0;
  CHECK_THROWS_WITH(pool.deallocate(&on_the_stack, 4), contains("not from this pool"));
  pool.deallocate(s, p, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, p, 1000), contains("double free"));
  CHECK_THROWS_WITH(pool.deallocate(p, 1000), contains("double free"));
  CHECK(pool.statistics().deallocations == 1);
}

TEST_CASE("pinned: a capturing stream is rejected, and its capture stays valid") {
  ww::stream s;
  ww::pinned_pool pool{small(mib)};
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  void* const p = pool.allocate(1000);  // legal, and grows
  CHECK_THROWS_WITH(pool.deallocate(s, p, 1000), contains("on a capturing stream"));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  pool.deallocate(s, p, 1000);
}

TEST_CASE(
    "pinned: pools and buffers that are created and destroyed during a capture do not disturb it") {
  ww::stream s;
  ww::stream other;
  auto old_pool = std::make_unique<ww::pinned_pool>(small(mib));
  old_pool->deallocate(other, old_pool->allocate(1000), 1000);
  ww::pinned_pool pool{small(mib)};
  auto buffer = std::make_unique<ww::pinned_buffer<int>>(pool, s, 100);
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  old_pool.reset();
  ww::pinned_pool const another{ww::pinned_pool_options{}.initial_bytes(mib)};
  buffer.reset();  // its stream cannot be waited for now: the block stays live
  CHECK(pool.statistics().live_blocks == 1);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
}

TEST_CASE("a pinned buffer owns its elements") {
  ww::stream s;
  ww::pinned_pool pool{small(4 * mib)};
  {
    ww::pinned_buffer<int> x{pool, 100};
    CHECK(x.size() == 100);
    CHECK(x.size_bytes() == 400);
    int i = 0;
    for (int& v : x) v = i++;
    CHECK(x[99] == 99);
    ww::pinned_buffer<int> y{std::move(x)};
    CHECK(x.empty());
    CHECK(y[5] == 5);
    x = std::move(y);
    CHECK(x[5] == 5);
    CHECK(y.empty());
  }
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(pool.statistics().event_records == 0);
  { ww::pinned_buffer<int> const x{pool, s, 100}; }
  CHECK(pool.statistics().event_records == 1);
  {
    ww::pinned_buffer<int> x{pool, s, 100};
    x.clear_stream();
  }
  CHECK(pool.statistics().event_records == 1);
  CHECK(pool.statistics().live_blocks == 0);
  ww::pinned_buffer<int> const none;
  CHECK(none.empty());
  CHECK_THROWS_AS(ww::pinned_buffer<int>(pool, ~std::size_t{0} / 4 + 1), ww::out_of_memory);
}

TEST_CASE("pinned: random use by threads and streams neither overlaps nor corrupts blocks") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  constexpr std::size_t thread_count = 6;
  std::vector<ww::stream> streams(3);
  ww::pinned_pool pool{small(mib)};
  std::vector<std::string> errors(thread_count);
  std::atomic<std::uint64_t> allocations{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random{seed + t};
      struct block {
        unsigned char* p;
        std::size_t bytes;
        unsigned char tag;
      };
      std::vector<block> live;
      try {
        for (int step = 0; step < 2000 || !live.empty(); ++step) {
          if (step < 2000 && random() % 100 < 53) {
            std::size_t const bytes = 1 + random() % (std::size_t{1} << (random() % 16));
            auto* const p = static_cast<unsigned char*>(pool.try_allocate(bytes));
            if (p != nullptr) {
              auto const tag = static_cast<unsigned char>(random());
              std::memset(p, tag, bytes);
              live.push_back(block{p, bytes, tag});
              ++allocations;
              continue;
            }
          }
          if (live.empty()) continue;
          std::size_t const i = random() % live.size();
          block const b = live[i];
          live[i] = live.back();
          live.pop_back();
          for (std::size_t k = 0; k < b.bytes; ++k) {
            if (b.p[k] != b.tag) errors[t] = "a block was overwritten";
          }
          if (random() % 2 == 0) {
            pool.deallocate(b.p, b.bytes);
          } else {
            // The stream still writes into it: the next user must run later.
            ww::stream const& s = streams[random() % streams.size()];
            ww::check(cudaMemsetAsync(b.p, 0, b.bytes, s.get()), "cudaMemsetAsync");
            pool.deallocate(s, b.p, b.bytes);
          }
        }
      } catch (std::exception const& e) {
        errors[t] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::string const& e : errors) CHECK(e == "");
  ww::pinned_statistics const s = pool.statistics();
  CHECK(s.live_bytes == 0);
  CHECK(s.allocations == allocations);
  CHECK(s.deallocations == allocations);
  CHECK(s.reserved_peak_bytes <= mib);
  CHECK(pool.trim() == s.reserved_bytes);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("pinned: a stream of another device, whichever is current, is not waited for") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    ww::pinned_pool pool;
    ww::stream s{ww::device_id{1}};
    for (int i = 0; i < 3; ++i) {
      test_support::gate held{s};
      ww::testing::reset_call_counts();
      { ww::pinned_buffer<char> const buffer{pool, s.ref(), 1000}; }
      CHECK(ww::testing::call_count("cudaStreamSynchronize") == 0);
      CHECK(ww::current_device().value() == 0);
    }
    CHECK(pool.statistics().event_records == 3);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  ww::testing::reset_host_runtime();
}

TEST_CASE("pinned: every call failing in turn leaves no leak and a pool that works") {
  namespace testing = ww::testing;
  auto const scenario = [](ww::pinned_pool& pool, ww::stream const& s) {
    for (int i = 0; i < 4; ++i) {
      ww::pinned_buffer<char> const a{pool, s, 200 * kib};
      ww::pinned_buffer<char> const b{pool, 100 * kib};
    }
    static_cast<void>(pool.trim());
  };
  testing::reset_host_runtime();
  {
    ww::stream const s;
    ww::pinned_pool pool{small(512 * kib)};
    scenario(pool, s);
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
        ww::pinned_pool pool{small(512 * kib)};
        {
          testing::scoped_fault_plan const plan{
              testing::fault_plan{}.fail(call.name, nth, cudaErrorUnknown)};
          try {
            scenario(pool, s);
          } catch (ww::cuda_error const& e) {
            ++failures;
            CHECK(e.code() == cudaErrorUnknown);
          }
          hits = plan.hits();
        }
        CHECK(pool.statistics().live_bytes == 0);
        CHECK_NOTHROW(scenario(pool, s));
        CHECK(pool.statistics().reserved_bytes == 0);
        s.synchronize();
      }
      CHECK(testing::leak_report().empty());
      if (hits == 0) break;
    }
  }
  CHECK(failures > 3);
}

#endif
