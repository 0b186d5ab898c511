// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Resources when CUDA calls fail, each in turn, when device or host memory runs out, and the number
// of their CUDA calls.
#include "memory/failing_host_memory.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/resources.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace ww = warpwright;
namespace testing = ww::testing;
using test_support::reallocations_left;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

// Runs a scenario with every call that it makes failing in turn. The scenario returns the number of
// its errors and frees what it has allocated.
template <class Scenario>
void fail_every_call(Scenario&& scenario) {
  testing::reset_host_runtime();
  CHECK(scenario() == 0);
  std::vector<testing::call_record> const calls = testing::calls();
  int errors = 0;
  for (testing::call_record const& call : calls) {
    for (cudaError_t const code : {cudaErrorInvalidValue, cudaErrorMemoryAllocation}) {
      for (std::uint64_t nth = 1;; ++nth) {
        INFO(call.name << " call " << nth << " " << cudaGetErrorName(code));
        testing::reset_host_runtime();
        std::uint64_t hits = 0;
        {
          testing::scoped_fault_plan const plan{testing::fault_plan{}.fail(call.name, nth, code)};
          errors += scenario();
          hits = plan.hits();
        }
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        bool const lost_by_the_fault =  // what could not be destroyed cannot be destroyed again
            call.name == "cudaMemPoolDestroy" || call.name == "cudaStreamDestroy";
        if (!lost_by_the_fault) CHECK(testing::leak_report().empty());
        if (hits == 0) break;
      }
    }
  }
  CHECK(errors > 5);
  testing::reset_host_runtime();
}

// Allocates and frees with two alignments; frees again what a fault has kept.
template <class Resource>
int use(Resource& memory) {
  int errors = 0;
  ww::stream const s;
  for (std::size_t const alignment : {std::size_t{256}, std::size_t{4096}}) {
    void* p = nullptr;
    try {
      p = memory.allocate(s, 1000, alignment);
    } catch (ww::cuda_error const&) {
      ++errors;
    } catch (ww::out_of_memory const&) {
      ++errors;
    }
    CHECK(memory.live_bytes() == (p == nullptr ? 0 : 1000));
    if (p == nullptr) continue;
    for (int attempt = 0;; ++attempt) {
      try {
        memory.deallocate(s, p, 1000);
        break;
      } catch (ww::cuda_error const&) {
        ++errors;
        CHECK(memory.live_bytes() == 1000);
        REQUIRE(attempt < 3);
      }
    }
    CHECK(memory.live_bytes() == 0);
  }
  return errors;
}

}  // namespace

TEST_CASE("every call of cuda_malloc_resource failing in turn loses nothing") {
  fail_every_call([] {
    try {
      ww::cuda_malloc_resource memory{device};
      return use(memory);
    } catch (ww::cuda_error const&) {
      return 1;  // the stream
    }
  });
}

TEST_CASE("every call of managed_memory_resource failing in turn loses nothing") {
  fail_every_call([] {
    try {
      ww::managed_memory_resource memory{device};
      return use(memory);
    } catch (ww::cuda_error const&) {
      return 1;
    }
  });
}

TEST_CASE("every call of cuda_malloc_async_resource failing in turn loses nothing") {
  fail_every_call([] {
    try {
      ww::cuda_malloc_async_resource memory{
          device, ww::cuda_malloc_async_options{}.initial_bytes(mib).max_bytes(64 * mib)};
      int const errors = use(memory);
      static_cast<void>(memory.reserved_bytes());
      memory.trim();
      return errors;
    } catch (ww::cuda_error const&) {
      return 1;
    } catch (ww::out_of_memory const&) {
      return 1;
    }
  });
}

TEST_CASE("every call over a default pool failing in turn loses nothing") {
  fail_every_call([] {
    try {
      auto memory = ww::cuda_malloc_async_resource::from_default_pool(device);
      return use(memory);
    } catch (ww::cuda_error const&) {
      return 1;
    }
  });
}

TEST_CASE("a device that is full is out of memory, and usable afterwards") {
  testing::reset_host_runtime(testing::host_runtime_options{}.with_memory_bytes(64 * mib));
  {
    ww::stream const s;
    ww::cuda_malloc_resource plain{device};
    ww::cuda_malloc_async_resource pool{device};
    void* const p = plain.allocate(s, 40 * mib);
    CHECK(plain.try_allocate(s, 40 * mib) == nullptr);
    CHECK(pool.try_allocate(s, 40 * mib) == nullptr);
    CHECK_THROWS_AS(pool.allocate(s, 40 * mib), ww::out_of_memory);
    CHECK_THROWS_AS(ww::cuda_malloc_async_resource(
                        device, ww::cuda_malloc_async_options{}.initial_bytes(40 * mib)),
                    ww::out_of_memory);
    plain.deallocate(s, p, 40 * mib);
    void* const q = pool.allocate(s, 40 * mib);
    CHECK(plain.try_allocate(s, 40 * mib) == nullptr);
    pool.deallocate(s, q, 40 * mib);
    s.synchronize();
    plain.deallocate(s, plain.allocate(s, 40 * mib), 40 * mib);
  }
  CHECK(testing::leak_report().empty());
  testing::reset_host_runtime();
}

TEST_CASE("without host memory a large alignment is refused before anything is allocated") {
  testing::reset_host_runtime();
  {
    ww::stream const s;
    ww::cuda_malloc_resource plain{device};
    ww::cuda_malloc_async_resource pool{device};
    reallocations_left = 0;
    CHECK_THROWS_AS(plain.allocate(s, 100, 4096), std::bad_alloc);
    CHECK_THROWS_AS(pool.try_allocate(s, 100, 4096), std::bad_alloc);
    void* const p = plain.allocate(s, 100);  // needs none
    reallocations_left = -1;
    plain.deallocate(s, p, 100);
    CHECK(plain.live_bytes() == 0);
    CHECK(pool.live_bytes() == 0);
  }
  CHECK(testing::leak_report().empty());
}

TEST_CASE("a pool that could not be prepared is destroyed") {
  testing::reset_host_runtime();
  for (char const* call : {"cudaMemPoolSetAttribute", "cudaMallocFromPoolAsync", "cudaFreeAsync",
                           "cudaStreamSynchronize", "cudaStreamCreateWithPriority"}) {
    INFO(call);
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail(call, 1, cudaErrorInvalidValue)};
    CHECK_THROWS_AS(
        ww::cuda_malloc_async_resource(device, ww::cuda_malloc_async_options{}.initial_bytes(mib)),
        ww::cuda_error);
    CHECK(testing::stats().memory_pools == 0);
  }
}

TEST_CASE("a pool makes one CUDA call a call") {
  testing::reset_host_runtime();
  ww::stream const s;
  ww::cuda_malloc_async_resource memory{device};
  testing::reset_call_counts();
  void* const p = memory.allocate(s, 1000);
  CHECK(testing::total_calls() == 1);
  memory.deallocate(s, p, 1000);
  CHECK(testing::total_calls() == 2);
}

TEST_CASE("what is not freed in stream order waits for its stream, and for no other") {
  testing::reset_host_runtime();
  ww::stream const s;
  ww::cuda_malloc_resource plain{device};
  ww::managed_memory_resource managed{device};
  void* const p = plain.allocate(s, 1000);
  void* const q = managed.allocate(s, 1000);
  testing::reset_call_counts();
  plain.deallocate(s, p, 1000);
  CHECK(testing::call_count("cudaStreamSynchronize") == 1);
  managed.deallocate(s, q, 1000);
  CHECK(testing::call_count("cudaStreamSynchronize") == 2);
  CHECK(testing::call_count("cudaDeviceSynchronize") == 0);
}

TEST_CASE("the memory is that of the resource's device, and the current device stays") {
  testing::reset_host_runtime(testing::host_runtime_options{}.with_devices(2));
  {
    ww::device_id const second{1};
    ww::stream const s{second};
    ww::cuda_malloc_resource plain{second};
    ww::cuda_malloc_async_resource pool{second, ww::cuda_malloc_async_options{}.initial_bytes(mib)};
    void* const p = plain.allocate(s, 100);
    void* const q = pool.allocate(s, 100);
    for (void* pointer : {p, q}) {
      cudaPointerAttributes attributes{};
      ww::check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
      CHECK(attributes.device == 1);
    }
    plain.deallocate(s, p, 100);
    pool.deallocate(s, q, 100);
    CHECK(ww::current_device() == device);
  }
  testing::reset_host_runtime();
}

TEST_CASE("blocks outlive the pool that they came from") {
  testing::reset_host_runtime();
  ww::stream const s;
  void* p = nullptr;
  {
    ww::cuda_malloc_async_resource memory{device};
    p = memory.allocate(s, 1000);
  }
  test_support::fill(s, p, 3, 1000);
  CHECK(test_support::all_are(test_support::fetch(s, p, 1000), 3));
  ww::check(cudaFreeAsync(p, s), "cudaFreeAsync");
  s.synchronize();
}
