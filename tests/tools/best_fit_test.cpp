// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/warpwright_replay/best_fit.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

char* at(void* pointer) { return static_cast<char*>(pointer); }

}  // namespace

TEST_CASE(
    "the reference allocates from the smallest free block that fits, and coalesces neighbours") {
  replay::best_fit a;
  CHECK(a.allocate(0, 0) == nullptr);
  a.deallocate(nullptr);
  void* const first = a.allocate(0, 100 * kib);
  void* const between = a.allocate(0, 100);
  void* const second = a.allocate(0, 50 * kib);
  void* const last = a.allocate(0, 100);
  CHECK(a.reserved_bytes() == 2 * mib);
  CHECK(at(between) == at(first) + 100 * kib);
  CHECK(at(second) == at(between) + 256);
  a.deallocate(first);
  a.deallocate(second);
  CHECK(a.allocate(0, 50 * kib) == second);
  CHECK(a.allocate(0, 60 * kib) == first);
  a.deallocate(second);
  a.deallocate(first);
  a.deallocate(between);  // coalesces with both sides
  CHECK(a.allocate(0, 150 * kib + 256) == first);
  a.deallocate(first);
  a.deallocate(last);
  CHECK(a.largest_free_block_bytes() == 2 * mib);
  CHECK(a.allocate(0, 2 * mib) == first);
  CHECK(a.reserved_peak_bytes() == 2 * mib);
}

TEST_CASE("the reference grows in steps of 2 MiB, and separately for each stream") {
  replay::best_fit a;
  void* const one = a.allocate(0, 3 * mib);
  CHECK(a.reserved_bytes() == 4 * mib);
  a.deallocate(one);
  void* const two = a.allocate(1, 3 * mib);
  CHECK(two != one);
  CHECK(a.reserved_bytes() == 8 * mib);
  a.deallocate(two);
  CHECK(a.allocate(0, 4 * mib) == one);
  CHECK(a.allocate(1, 4 * mib) == two);
}

TEST_CASE("the reference frees empty segments before it fails") {
  replay::best_fit a;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  warpwright::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  CHECK(a.allocate(0, ~std::uint64_t{0}) == nullptr);
  CHECK(a.allocate(0, total_bytes + mib) == nullptr);
  std::uint64_t const most = free_bytes / 4 * 3 / (2 * mib) * (2 * mib);
  void* const p = a.allocate(0, most);
  REQUIRE(p != nullptr);
  CHECK(a.allocate(1, most) == nullptr);
  a.deallocate(p);
  void* const q = a.allocate(1, most);  // stream 0's segment was freed
  CHECK(q != nullptr);
  CHECK(a.reserved_bytes() == most);
  // Two that failed, one, two that failed; then cudaMalloc, cudaFree, cudaMalloc.
  CHECK(a.calls() == 8);
}
