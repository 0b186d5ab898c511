// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Adaptors and resources when CUDA calls fail, each in turn, and when the host is out of memory;
// and the number of their CUDA calls.
#include "memory/failing_host_memory.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/testing/fault_adaptor.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace ww = warpwright;
namespace testing = ww::testing;
using test_support::reallocations_left;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

void ignore_damage(void*, ww::guard_damage const&) noexcept {}
void ignore_fallback(void*, ww::fallback_event const&) noexcept {}
void ignore_record(void*, ww::memory_log_record const&) noexcept {}

// Repeats a free until it succeeds.
template <class Memory>
void free_at_last(Memory& memory, ww::stream_ref s, void* pointer, std::size_t bytes) {
  for (int attempts = 0;; ++attempts) {
    try {
      memory.deallocate(s, pointer, bytes);
      return;
    } catch (ww::cuda_error const&) {
      REQUIRE(attempts < 3);
    }
  }
}

// An allocation that falls back, one that does not, a check of the zones, and both frees.
template <class Memory>
int scenario(Memory& memory, ww::stream const& s) {
  int errors = 0;
  for (std::size_t const bytes : {std::size_t{1000}, 3 * mib}) {
    void* pointer = nullptr;
    try {
      pointer = memory.allocate(s, bytes);
      memory.check_blocks(s);
    } catch (ww::cuda_error const&) {
      ++errors;
    } catch (ww::out_of_memory const&) {
      ++errors;
    }
    if (pointer == nullptr) continue;
    try {
      memory.deallocate(s, pointer, bytes);
    } catch (ww::cuda_error const&) {
      ++errors;
      free_at_last(memory, s, pointer, bytes);
    }
  }
  return errors;
}

struct everything {
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(2 * mib).growth_bytes(2 * mib)};
  ww::managed_memory_resource managed{device};
  ww::fallback_adaptor<ww::memory_pool, ww::managed_memory_resource> either{pool, managed,
                                                                            &ignore_fallback};
  ww::limit_adaptor<decltype(either)> part{either, 64 * mib};
  ww::statistics_adaptor<decltype(part)> counted{part};
  ww::tracking_adaptor<decltype(counted)> tracked{counted};
  ww::event_log_adaptor<decltype(tracked)> log{tracked, &ignore_record};
  ww::guard_adaptor<decltype(log)> guarded{log, &ignore_damage};

  void check_empty() const {
    CHECK(pool.statistics().live_bytes == 0);
    CHECK(managed.live_bytes() == 0);
    CHECK(either.statistics().live_blocks == 0);
    CHECK(part.live_bytes() == 0);
    CHECK(counted.statistics().live_bytes == 0);
    CHECK(tracked.outstanding_blocks() == 0);
    CHECK(guarded.damages() == 0);
  }
};

}  // namespace

TEST_CASE("every CUDA call below the adaptors failing in turn loses nothing") {
  testing::reset_host_runtime();
  {
    ww::stream const s;
    everything e;
    CHECK(scenario(e.guarded, s) == 0);
    e.check_empty();
  }
  std::vector<testing::call_record> const calls = testing::calls();
  int errors = 0;
  for (testing::call_record const& call : calls) {
    for (std::uint64_t nth = 1;; ++nth) {
      INFO(call.name << " call " << nth);
      testing::reset_host_runtime();
      std::uint64_t hits = 0;
      {
        ww::stream const s;
        everything e;
        {
          testing::scoped_fault_plan const plan{
              testing::fault_plan{}.fail(call.name, nth, cudaErrorInvalidValue)};
          errors += scenario(e.guarded, s);
          hits = plan.hits();
        }
        e.check_empty();
        CHECK(scenario(e.guarded, s) == 0);
        e.check_empty();
      }
      CHECK(testing::leak_report().empty());
      if (hits == 0) break;
    }
  }
  CHECK(errors > 20);
  testing::reset_host_runtime();
}

TEST_CASE("the host running out of memory at any point loses no block") {
  testing::reset_host_runtime();
  int failures = 0;
  for (int allowed = 0;; ++allowed) {
    INFO(allowed << " reallocations succeed");
    ww::stream const s;
    everything e;
    // The pool's own arrays have grown already; only the adaptors' can fail.
    e.pool.deallocate(s, e.pool.allocate(s, 1000), 1000);
    int failed = 0;
    reallocations_left = allowed;
    for (std::size_t const bytes : {std::size_t{1000}, 3 * mib}) {
      void* pointer = nullptr;
      try {
        pointer = e.guarded.allocate(s, bytes);
      } catch (std::bad_alloc const&) {
        ++failed;
      }
      if (pointer != nullptr) e.guarded.deallocate(s, pointer, bytes);
    }
    bool const enough = reallocations_left > 0;
    reallocations_left = -1;
    failures += failed;
    e.check_empty();
    CHECK(scenario(e.guarded, s) == 0);
    e.check_empty();
    if (enough) break;
  }
  CHECK(failures >= 4);
}

TEST_CASE("without host memory tracking still reports leaks, and a new tag throws") {
  testing::reset_host_runtime();
  ww::stream const s;
  ww::memory_pool pool{device};
  std::string told;
  auto* const tell = +[](void* user, char const* report) noexcept {
    static_cast<std::string*>(user)->append(report);
  };
  {
    ww::tracking_adaptor tracked{pool, tell, &told};
    static_cast<void>(tracked.allocate(s, 77));
    reallocations_left = 0;
    CHECK_THROWS_AS(tracked.to_text(), std::bad_alloc);
  }
  reallocations_left = -1;
  CHECK_THAT(told, contains("the host has no memory for a report"));

  ww::statistics_adaptor counted{pool};
  reallocations_left = 0;
  int refused = 0;
  char const* const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  for (char const* name : names) {
    try {
      auto tag = counted.tagged(name);
      tag.deallocate(s, tag.allocate(s, 10), 10);
    } catch (std::bad_alloc const&) {
      ++refused;
    }
  }
  reallocations_left = -1;
  CHECK(refused ==
        4);  // an array starts with capacity for eight, of which two are the total and untagged
  CHECK(counted.statistics().allocations == 6);
  CHECK(counted.statistics().live_bytes == 0);
}

TEST_CASE("limit, statistics, tracking, faults and locks make no CUDA call") {
  testing::reset_host_runtime();
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::limit_adaptor part{pool, 64 * mib};
  ww::statistics_adaptor counted{part};
  auto tagged = counted.tagged("a tag");
  ww::tracking_adaptor tracked{tagged};
  ww::fault_adaptor flaky{tracked, ww::memory_faults{}.fail_nth(50)};
  ww::thread_safe_adaptor safe{flaky};
  ww::managed_memory_resource managed{device};
  ww::fallback_adaptor either{safe, managed, &ignore_fallback};
  either.deallocate(s, either.allocate(s, 1000), 1000);
  testing::reset_call_counts();
  for (int i = 0; i < 40; ++i) either.deallocate(s, either.allocate(s, 1000), 1000);
  CHECK(testing::total_calls() == 0);
}

TEST_CASE("records do not grow with the number of calls") {
  testing::reset_host_runtime();
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::tracking_adaptor tracked{pool};
  tracked.deallocate(s, tracked.allocate(s, 100), 100);
  reallocations_left = 0;
  int failures = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      tracked.deallocate(s, tracked.allocate(s, 100), 100);
    } catch (std::bad_alloc const&) {
      ++failures;
    }
  }
  reallocations_left = -1;
  CHECK(failures == 0);
}

TEST_CASE("an event log queries a raw handle's id once, and its upstream does not repeat it") {
  testing::reset_host_runtime();
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::event_log_adaptor log{pool, &ignore_record};
  log.deallocate(s, log.allocate(s, 100), 100);
  testing::reset_call_counts();
  log.deallocate(s, log.allocate(s, 100), 100);
  CHECK(testing::total_calls() == 0);
  log.deallocate(s.get(), log.allocate(s.get(), 100), 100);
  CHECK(testing::call_count("cudaStreamGetId") == 2);
  CHECK(testing::total_calls() == 2);
}

TEST_CASE("managed memory that cannot be allocated is out of memory, other errors are thrown") {
  testing::reset_host_runtime(testing::host_runtime_options{}.with_memory_bytes(64 * mib));
  ww::stream const s;
  ww::managed_memory_resource managed{device};
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail_from("cudaMallocManaged", 1, cudaErrorMemoryAllocation)};
    CHECK(managed.try_allocate(s, mib) == nullptr);
    CHECK_THROWS_WITH(managed.allocate(s, mib), contains("requested 1048576 bytes"));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  testing::scoped_fault_plan const plan{
      testing::fault_plan{}.fail_from("cudaMallocManaged", 1, cudaErrorInvalidValue)};
  CHECK_THROWS_AS(managed.try_allocate(s, mib), ww::cuda_error);
  CHECK(managed.live_bytes() == 0);
  testing::reset_host_runtime();
}
