// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Failing CUDA calls, at every call that a prefetcher and a result_collector make.
#include "stream/prefetch_support.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/stream/collect.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <map>
#include <string>

namespace ww = warpwright;
using namespace test_support;

namespace {

struct outcome {
  bool constructed = false;
  std::size_t errors = 0;
  std::size_t batches = 0;
  std::size_t results = 0;
  std::size_t wrong = 0;
};

// Copies each batch to a result; goes on after errors.
outcome run(feeding& f, std::size_t count) {
  outcome seen;
  try {
    ww::prefetcher<std::uint32_t> batches{f.pool, f.pinned, 100,
                                          [count](std::uint32_t* to, std::size_t i) -> std::size_t {
                                            if (i >= count) return 0;
                                            fill_batch(to, i, 100);
                                            to[0] = static_cast<std::uint32_t>(i);
                                            return 100;
                                          },
                                          ww::prefetch_options{}.workers(2)};
    ww::result_collector<std::uint32_t> results{
        f.pool, f.pinned, 100, [&](std::uint32_t const* from, std::size_t size, std::size_t) {
          ++seen.results;
          for (std::size_t i = 1; i < size; ++i) {
            seen.wrong += from[i] != element(from[0], i) ? 1U : 0U;
          }
        }};
    seen.constructed = true;
    for (bool more = true; more;) {
      try {
        ww::prefetched<std::uint32_t> const batch = batches.next(f.stream);
        more = static_cast<bool>(batch);
        if (!more) break;
        ++seen.batches;
        ww::result_slot<std::uint32_t> const out = results.next(f.stream);
        ww::check(cudaMemcpyAsync(out.data(), batch.data(), 400, cudaMemcpyDeviceToDevice,
                                  f.stream.get()),
                  "cudaMemcpyAsync");
      } catch (ww::cuda_error const&) {
        ++seen.errors;
        REQUIRE(seen.errors < 1000);
      }
    }
    try {
      results.finish();
    } catch (ww::cuda_error const&) {
      ++seen.errors;
    }
  } catch (ww::cuda_error const&) {
    ++seen.errors;
  } catch (ww::out_of_memory const&) {
    ++seen.errors;
  }
  return seen;
}

// All functions that a run calls, and how often.
std::map<std::string, std::uint64_t> calls_of_a_run() {
  feeding f;
  ww::testing::reset_call_counts();
  static_cast<void>(run(f, 6));
  std::map<std::string, std::uint64_t> counts;
  for (char const* name : {"cudaStreamCreateWithFlags",
                           "cudaStreamCreateWithPriority",
                           "cudaStreamGetId",
                           "cudaStreamDestroy",
                           "cudaEventCreate",
                           "cudaEventCreateWithFlags",
                           "cudaEventDestroy",
                           "cudaEventRecord",
                           "cudaEventQuery",
                           "cudaEventSynchronize",
                           "cudaEventElapsedTime",
                           "cudaStreamWaitEvent",
                           "cudaStreamSynchronize",
                           "cudaStreamQuery",
                           "cudaStreamIsCapturing",
                           "cudaMemcpyAsync",
                           "cudaGetDevice",
                           "cudaSetDevice",
                           "cudaHostAlloc",
                           "cudaHostRegister",
                           "cudaMalloc",
                           "cudaThreadExchangeStreamCaptureMode"}) {
    if (std::uint64_t const n = ww::testing::call_count(name)) counts[name] = n;
  }
  return counts;
}

}  // namespace

TEST_CASE("prefetch: every call may fail once, and nothing is lost but what the errors name") {
  std::map<std::string, std::uint64_t> const calls = calls_of_a_run();
  CHECK(calls.size() > 10);
  for (auto const& call : calls) {
    for (std::uint64_t nth = 1; nth <= std::min<std::uint64_t>(call.second, 24);
         nth = test_support::next_failing(nth)) {
      CAPTURE(call.first, nth);
      feeding f;
      outcome seen;
      {
        ww::testing::scoped_fault_plan const fault{
            ww::testing::fault_plan{}.fail(call.first, nth, cudaErrorUnknown)};
        seen = run(f, 6);
      }
      CHECK(f.all_given_back());
      CHECK(seen.wrong == 0);
      if (seen.constructed && seen.errors == 0) {
        CHECK(seen.batches == 6);
        CHECK(seen.results == 6);
      }
      CHECK(seen.errors <= 9);  // the collector's is thrown by every later call
      // The stream's work is done, and the next run is right.
      f.stream.synchronize();
      outcome const next = run(f, 6);
      CHECK(next.errors == 0);
      CHECK(next.results == 6);
      CHECK(next.wrong == 0);
    }
  }
}

TEST_CASE("prefetch: after a failing call all memory can be allocated again") {
  constexpr std::size_t all = std::size_t{64} << 20U;
  constexpr std::size_t most = std::size_t{60} << 20U;
  for (auto const& call : calls_of_a_run()) {
    for (std::uint64_t nth = 1; nth <= std::min<std::uint64_t>(call.second, 12);
         nth = test_support::next_failing(nth)) {
      CAPTURE(call.first, nth);
      ww::stream s;
      ww::memory_pool pool{ww::current_device(), ww::memory_pool_options{}.maximum_bytes(all)};
      ww::pinned_pool pinned{ww::pinned_pool_options{}.maximum_bytes(all)};
      try {
        ww::testing::scoped_fault_plan const fault{
            ww::testing::fault_plan{}.fail(call.first, nth, cudaErrorUnknown)};
        ww::prefetcher<std::uint32_t> batches{
            pool, pinned, all / 32,
            [](std::uint32_t*, std::size_t i) -> std::size_t { return i < 5 ? 8 : 0; },
            ww::prefetch_options{}.workers(1).depth(4)};
        while (batches.next(s)) {
        }
      } catch (std::exception const&) {
      }
      s.synchronize();
      void* const device = pool.allocate(s, most);
      pool.deallocate(s, device, most);
      void* const host = pinned.allocate(most);
      pinned.deallocate(host, most);
      s.synchronize();
    }
  }
}

TEST_CASE("prefetch: a copy that fails is thrown in place of its batch") {
  feeding f;
  ww::prefetcher<std::uint32_t> batches{f.pool, f.pinned, 100,
                                        [](std::uint32_t* to, std::size_t i) -> std::size_t {
                                          if (i >= 12) return 0;
                                          wait_a_little(2000);
                                          fill_batch(to, i, 100);
                                          return 100;
                                        },
                                        ww::prefetch_options{}.workers(1)};
  CHECK(batches.next(f.stream).index() == 0);
  std::size_t errors = 0;
  {
    ww::testing::scoped_fault_plan const fault{
        ww::testing::fault_plan{}.fail("cudaMemcpyAsync", 2, cudaErrorUnknown)};
    for (std::size_t i = 1; i < 12; ++i) {
      try {
        std::size_t const index = batches.next(f.stream).index();
        CHECK(index == i);
      } catch (ww::cuda_error const& e) {
        ++errors;
        CHECK_THAT(e.what(), contains("cudaMemcpyAsync"));
      }
    }
  }
  CHECK(errors == 1);
  CHECK_FALSE(batches.next(f.stream));
}

TEST_CASE("collect: a copy that fails is thrown by finish, and later results are dropped") {
  feeding f;
  std::size_t calls = 0;
  ww::result_collector<std::uint32_t> results{
      f.pool, f.pinned, 10, [&](std::uint32_t const*, std::size_t, std::size_t) { ++calls; },
      ww::prefetch_options{}.depth(8)};
  static_cast<void>(results.next(f.stream));
  results.finish();
  {
    ww::testing::scoped_fault_plan const fault{
        ww::testing::fault_plan{}.fail("cudaMemcpyAsync", 1, cudaErrorUnknown)};
    static_cast<void>(results.next(f.stream));
  }
  CHECK_THROWS_WITH(results.finish(), contains("cudaMemcpyAsync"));
  CHECK_THROWS_WITH(results.next(f.stream), contains("cudaMemcpyAsync"));
  CHECK_THROWS_WITH(results.finish(), contains("cudaMemcpyAsync"));
  CHECK(calls == 1);
}

TEST_CASE("prefetch: a sticky error is thrown by every call, and the destructor returns") {
  for (char const* call : {"cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent"}) {
    CAPTURE(call);
    {
      feeding f;
      ww::prefetcher<std::uint32_t> batches{
          f.pool, f.pinned, 10, [](std::uint32_t*, std::size_t) -> std::size_t { return 10; }};
      static_cast<void>(batches.next(f.stream));
      ww::testing::scoped_fault_plan const fault{
          ww::testing::fault_plan{}.poison(call, 1, cudaErrorIllegalAddress)};
      std::size_t errors = 0;
      for (int i = 0; i < 20; ++i) {
        try {
          static_cast<void>(batches.next(f.stream));
        } catch (ww::cuda_error const&) {
          ++errors;
        }
      }
      CHECK(errors >= 10);
    }
    ww::testing::reset_host_runtime();
  }
}

TEST_CASE("collect: a stream that is destroyed before its slot is named as the cause") {
  feeding f;
  std::size_t calls = 0;
  ww::result_collector<std::uint32_t> results{
      f.pool, f.pinned, 10, [&](std::uint32_t const*, std::size_t, std::size_t) { ++calls; }};
  {
    ww::result_slot<std::uint32_t> slot;
    ww::stream const own;
    slot = results.next(own);
  }
  CHECK_THROWS_WITH(results.finish(), contains("cudaErrorInvalidResourceHandle") &&
                                          contains("probably the stream was destroyed"));
  CHECK(calls == 0);
}

TEST_CASE("collect: a result whose event cannot be recorded is waited for, and arrives") {
  feeding f;
  std::size_t wrong = 1000;
  ww::result_collector<std::uint32_t> results{
      f.pool, f.pinned, 1000, [&](std::uint32_t const* from, std::size_t size, std::size_t) {
        wrong = 0;
        for (std::size_t i = 0; i < size; ++i) wrong += from[i] != 0x07070707U ? 1U : 0U;
      }};
  {
    ww::result_slot<std::uint32_t> slot = results.next(f.stream);
    for (int i = 0; i < 20; ++i) pause(f.stream);
    fill(f.stream, slot.data(), 7, 4000);
    ww::testing::scoped_fault_plan const fault{
        ww::testing::fault_plan{}.fail("cudaEventRecord", 1, cudaErrorUnknown)};
    slot.reset();
    CHECK(fault.hits() == 1);
  }
  results.finish();
  CHECK(wrong == 0);
}

TEST_CASE("collect: a copy whose event cannot be recorded is waited for") {
  feeding f;
  gate hold{f.stream};
  std::thread opener;
  {
    ww::result_collector<std::uint32_t> results{
        f.pool, f.pinned, 10, [](std::uint32_t const*, std::size_t, std::size_t) {}};
    ww::result_slot<std::uint32_t> slot = results.next(f.stream);
    opener = std::thread{[&] { hold.open_late(); }};
    // Those before it are behind the work, and around the copy, which is timed.
    ww::testing::scoped_fault_plan const fault{
        ww::testing::fault_plan{}.fail("cudaEventRecord", 4, cudaErrorUnknown)};
    slot.reset();
    CHECK(fault.hits() == 1);
    CHECK(f.stream.done());
    CHECK_THROWS_WITH(results.finish(), contains("cudaEventRecord"));
  }
  opener.join();
}

TEST_CASE("prefetch: streams and events of both ways are destroyed") {
  ww::testing::reset_host_runtime();
  {
    feeding f;
    CHECK(run(f, 20).results == 20);
  }
  CHECK(ww::testing::leak_report().empty());
}

TEST_CASE("prefetch: a batch that cannot be ordered does not lose its slot") {
  feeding f;
  ww::prefetcher<std::uint32_t> batches{
      f.pool, f.pinned, 10, [](std::uint32_t*, std::size_t) -> std::size_t { return 10; },
      ww::prefetch_options{}.workers(1).depth(2).maximum_bytes(0)};
  for (int i = 0; i < 2; ++i) {
    ww::testing::scoped_fault_plan const fault{
        ww::testing::fault_plan{}.fail("cudaStreamWaitEvent", 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(batches.next(f.stream), contains("cudaStreamWaitEvent"));
  }
  CHECK(batches.next(f.stream).index() == 2);
}
