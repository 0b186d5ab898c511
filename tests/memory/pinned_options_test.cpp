// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pinned pool: where its memory comes from, each option, and what the system refuses.
#include "memory/pinned_support.hpp"
#include "support/catch.hpp"

#include <warpwright/core/launch.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
namespace testing = warpwright::testing;
#endif

namespace ww = warpwright;
using options = ww::pinned_pool_options;
using test_support::exactly;
using test_support::kib;
using test_support::mib;

namespace {

cudaMemoryType type_of(void const* pointer) {
  cudaPointerAttributes attributes{};
  ww::check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  return attributes.type;
}

struct fill_with_index {
  std::uint32_t* values;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    values[i] = static_cast<std::uint32_t>(i);
  }
};

void check_usable(ww::pinned_pool& pool) {
  ww::stream s;
  void* const p = pool.allocate(100 * kib);
  std::memset(p, 7, 100 * kib);
  void* device = nullptr;
  ww::check(cudaMalloc(&device, 100 * kib), "cudaMalloc");
  ww::check(cudaMemcpyAsync(device, p, 100 * kib, cudaMemcpyHostToDevice, s.get()),
            "cudaMemcpyAsync");
  CHECK(test_support::all_are(test_support::fetch(s, device, 100 * kib), 7));
  ww::check(cudaFree(device), "cudaFree");
  pool.deallocate(s, p, 100 * kib);
  pool.retire(s);
}

}  // namespace

TEST_CASE("pinned: a large segment is faulted in by several threads, and all of it is usable") {
  // The last thread's part is not a multiple of a huge page, or of a page.
  constexpr std::size_t bytes = 37 * mib + 5 * kib + 256;
#if WARPWRIGHT_HOST_RUNTIME
  testing::reset_call_counts();
#endif
  ww::pinned_pool pool{exactly(bytes)};
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(testing::call_count("cudaHostAlloc") == 0);
#endif
  CHECK(pool.statistics().reserved_bytes == bytes);
  auto* const p = static_cast<unsigned char*>(pool.allocate(bytes));
  CHECK(type_of(p) == cudaMemoryTypeHost);
  CHECK(type_of(p + bytes - 1) == cudaMemoryTypeHost);
  std::memset(p, 9, bytes);
  CHECK(p[0] == 9);
  CHECK(p[bytes - 1] == 9);
  pool.deallocate(p, bytes);
  check_usable(pool);
  CHECK(pool.trim() == bytes);
}

TEST_CASE("pinned: a large pool grows by a part of its size") {
  ww::pinned_pool pool{options{}.initial_bytes(32 * mib).growth_bytes(mib)};
  void* const all = pool.allocate(32 * mib);
  void* const more = pool.allocate(kib);
  CHECK(pool.statistics().reserved_bytes == 36 * mib);
  void* const largest = pool.allocate(10 * mib);
  CHECK(pool.statistics().reserved_bytes == 46 * mib);
  pool.deallocate(all, 32 * mib);
  pool.deallocate(more, kib);
  pool.deallocate(largest, 10 * mib);
  CHECK(pool.statistics().reserved_peak_bytes == 46 * mib);
}

TEST_CASE("pinned: write-combined memory") {
  ww::pinned_pool pool{options{}.growth_bytes(mib).write_combined()};
  check_usable(pool);
  void* const p = pool.allocate(kib);
  unsigned flags = 0;
  ww::check(cudaHostGetFlags(&flags, p), "cudaHostGetFlags");
  CHECK((flags & cudaHostAllocWriteCombined) != 0);
  CHECK((flags & cudaHostAllocPortable) != 0);
  pool.deallocate(p, kib);
  CHECK(pool.trim() == mib);
}

TEST_CASE("pinned: kernels use mapped memory through the host's pointer") {
  for (bool const write_combined : {false, true}) {
    ww::stream s;
    ww::pinned_pool pool{options{}.growth_bytes(mib).mapped().write_combined(write_combined)};
    constexpr std::size_t count = 1000;
    ww::pinned_buffer<std::uint32_t> buffer{pool, s, count};
    void* device = nullptr;
    ww::check(cudaHostGetDevicePointer(&device, buffer.data(), 0), "cudaHostGetDevicePointer");
    CHECK(device == buffer.data());
    ww::for_each_index(s, count, fill_with_index{buffer.data()});
    s.synchronize();
    CHECK(buffer[0] == 0);
    CHECK(buffer[count - 1] == count - 1);
  }
}

TEST_CASE("pinned: options that exclude each other") {
  CHECK_THROWS_WITH(ww::pinned_pool(options{}.mapped().pageable_fallback()),
                    contains("mapped() with pageable_fallback()"));
  CHECK_THROWS_WITH(ww::pinned_pool(options{}.write_combined().numa_node(3)),
                    contains("write_combined() with numa_node(3)"));
  CHECK_NOTHROW(ww::pinned_pool(options{}.mapped().pageable_fallback(false).write_combined()));
}

TEST_CASE("pinned: a NUMA node") {
  for (int const missing : {1023, 1024, 100000, -2}) {
    CHECK_THROWS_WITH(ww::pinned_pool(options{}.numa_node(missing)),
                      contains("numa_node(" + std::to_string(missing) + ") is refused by mbind: "));
  }
  CHECK_NOTHROW(ww::pinned_pool(options{}.numa_node(options::any_numa_node)));
  try {
    ww::pinned_pool pool{options{}.numa_node(0).growth_bytes(16 * mib)};
    check_usable(pool);
    void* const p = pool.allocate(16 * mib);
    CHECK(type_of(p) == cudaMemoryTypeHost);
    constexpr unsigned long node_of_address = 3;  // MPOL_F_NODE | MPOL_F_ADDR
    int node = -1;
    if (syscall(SYS_get_mempolicy, &node, nullptr, 0, p, node_of_address) == 0) CHECK(node == 0);
    constexpr unsigned long policy_of_address = 2;  // MPOL_F_ADDR
    int policy = -1;
    if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, p, policy_of_address) == 0) {
      CHECK(policy == 2);  // MPOL_BIND
    }
    pool.deallocate(p, 16 * mib);
  } catch (std::invalid_argument const& e) {
    // A container may forbid it: that must be what the error says.
    CHECK_THAT(std::string{e.what()}, contains("numa_node(0) is refused by mbind: Operation not"));
  }
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("pinned: memory is registered, and not allocated by CUDA") {
  testing::reset_call_counts();
  ww::pinned_pool pool{options{}.initial_bytes(mib)};
  CHECK(testing::call_count("cudaHostRegister") == 1);
  CHECK(testing::call_count("cudaHostAlloc") == 0);
  CHECK(pool.trim() == mib);
  CHECK(testing::call_count("cudaHostUnregister") == 1);
}

TEST_CASE("pinned: mapped() asks every device") {
  testing::reset_host_runtime(testing::host_runtime_options{}.with_devices(2));
  testing::reset_call_counts();
  { ww::pinned_pool const pool{options{}.mapped()}; }
  CHECK(testing::call_count("cudaDeviceGetAttribute") == 4);
  for (char const* const call : {"cudaGetDeviceCount", "cudaDeviceGetAttribute"}) {
    testing::scoped_fault_plan const plan{testing::fault_plan{}.fail(call, 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(ww::pinned_pool(options{}.mapped()), contains(call));
  }
  testing::reset_host_runtime();
}

TEST_CASE("pinned: where registration is refused, cudaHostAlloc serves") {
  for (cudaError_t const refusal : {cudaErrorMemoryAllocation, cudaErrorNotSupported,
                                    cudaErrorOperatingSystem, cudaErrorUnknown}) {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail_from("cudaHostRegister", 1, refusal)};
    ww::pinned_pool pool{options{}.growth_bytes(mib)};
    check_usable(pool);
    void* const p = pool.allocate(kib);
    unsigned flags = 0;
    CHECK(cudaHostGetFlags(&flags, p) == cudaSuccess);
    CHECK((flags & cudaHostAllocPortable) != 0);
    pool.deallocate(p, kib);
    CHECK(pool.statistics().pageable_bytes == 0);
    CHECK(pool.trim() == mib);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("pinned: with a NUMA node, memory of any node does not serve") {
  try {
    ww::pinned_pool pool{options{}.growth_bytes(mib).numa_node(0)};
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}
            .fail("cudaHostRegister", 1, cudaErrorMemoryAllocation)
            .fail("cudaHostRegister", 2, cudaErrorMemoryAllocation)
            .fail_from("cudaHostRegister", 3, cudaErrorUnknown)};
    testing::reset_call_counts();
    CHECK(pool.try_allocate(kib) == nullptr);
    CHECK_THROWS_WITH(pool.allocate(kib), contains("cudaHostRegister"));
    CHECK(testing::call_count("cudaHostAlloc") == 0);
  } catch (std::invalid_argument const&) {  // a container may forbid mbind
  }
}

TEST_CASE("pinned: memory that is not page-locked, where the system locks no more") {
  auto const refused = [](cudaError_t code) {
    return testing::fault_plan{}
        .fail_from("cudaHostRegister", 1, code)
        .fail_from("cudaHostAlloc", 1, code);
  };
  for (cudaError_t const code : {cudaErrorMemoryAllocation, cudaErrorNotSupported,
                                 cudaErrorNotPermitted, cudaErrorOperatingSystem}) {
    testing::scoped_fault_plan const plan{refused(code)};
    ww::pinned_pool without{options{}.growth_bytes(mib)};
    if (code == cudaErrorMemoryAllocation) {
      CHECK(without.try_allocate(kib) == nullptr);
    } else {
      CHECK_THROWS_WITH(without.try_allocate(kib), contains("cudaHostAlloc"));
    }
    CHECK(without.statistics().reserved_bytes == 0);
    ww::pinned_pool pool{options{}.growth_bytes(mib).max_bytes(2 * mib).pageable_fallback()};
    check_usable(pool);
    void* const p = pool.allocate(kib);
    CHECK(type_of(p) == cudaMemoryTypeUnregistered);
    CHECK(pool.statistics().pageable_bytes == mib);
    CHECK(pool.try_allocate(2 * mib) == nullptr);
    CHECK_THROWS_WITH(pool.deallocate(p, 1), contains("wrong size"));
    pool.deallocate(p, kib);
    CHECK(pool.trim() == mib);
    CHECK(pool.statistics().pageable_bytes == 0);
    CHECK_THROWS_AS(pool.allocate(std::size_t{1} << 50U), ww::out_of_memory);
  }
  // Another error is an error.
  testing::scoped_fault_plan const plan{refused(cudaErrorUnknown)};
  ww::pinned_pool pool{options{}.pageable_fallback()};
  CHECK_THROWS_WITH(pool.allocate(kib), contains("cudaHostAlloc"));
  CHECK(pool.statistics().reserved_bytes == 0);
}

TEST_CASE("pinned: the fallback stays with pages that the system locks again") {
  ww::pinned_pool pool{options{}.growth_bytes(mib).pageable_fallback()};
  void* first = nullptr;
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}
            .fail_from("cudaHostRegister", 1, cudaErrorMemoryAllocation)
            .fail_from("cudaHostAlloc", 1, cudaErrorMemoryAllocation)};
    first = pool.allocate(mib);
  }
  void* const second = pool.allocate(mib);
  CHECK(type_of(second) == cudaMemoryTypeHost);
  CHECK(pool.statistics().pageable_bytes == mib);
  CHECK(pool.statistics().reserved_bytes == 2 * mib);
  pool.deallocate(first, mib);
  pool.deallocate(second, mib);
  CHECK(pool.trim() == 2 * mib);
  CHECK(testing::leak_report().empty());
}

#endif
