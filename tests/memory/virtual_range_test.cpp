// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An address range with physical memory that is mapped and moved.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/detail/source/virtual_range.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
namespace testing = warpwright::testing;
#endif

namespace ww = warpwright;
using ww::detail::virtual_range;

namespace {

// 32 granules of addresses. Sizes and addresses below are in granules.
struct small_range {
  ww::stream stream;  // first: it creates the context
  virtual_range range;
  std::uint64_t granule = 0;

  small_range() {
    REQUIRE(range.reserve(ww::device_id{0}, std::uint64_t{64} << 20U));
    granule = range.granule_bytes();
  }
  [[nodiscard]] std::uint64_t at(std::uint64_t granules) const {
    return range.address() + granules * granule;
  }
  [[nodiscard]] std::uint64_t spare() const { return range.spare_bytes() / granule; }
  [[nodiscard]] std::uint64_t physical() const { return range.physical_bytes() / granule; }
  cudaError_t create(std::uint64_t size, std::uint64_t largest) {
    return range.create(size * granule, largest * granule);
  }
  std::uint64_t select(std::uint64_t needed, std::uint64_t room) {
    return range.select(needed * granule, room * granule) / granule;
  }
  cudaError_t map(std::uint64_t address) {
    char const* api = nullptr;
    return range.map(at(address), &api);
  }
  cudaError_t unmap(std::uint64_t address, std::uint64_t size) {
    return range.unmap(at(address), size * granule);
  }
  // Creates one chunk and maps it.
  void add(std::uint64_t address, std::uint64_t size) {
    REQUIRE(create(size, size) == cudaSuccess);
    REQUIRE(select(size, size) == size);
    REQUIRE(map(address) == cudaSuccess);
  }
  [[nodiscard]] bool is_usable(std::uint64_t address, std::uint64_t size) const {
    return test_support::is_usable(stream, at(address), size * granule);
  }
};

}  // namespace

TEST_CASE("a range has whole granules of addresses, and no memory") {
  ww::stream s;
  virtual_range range;
  CHECK_FALSE(range.reserved());
  REQUIRE(range.reserve(ww::device_id{0}, (std::uint64_t{64} << 20U) + 1));
  CHECK(range.reserved());
  CHECK(range.bytes() == (std::uint64_t{64} << 20U) + range.granule_bytes());
  CHECK(range.physical_bytes() == 0);
}

TEST_CASE("a size that no range has is refused") {
  ww::stream s;
  virtual_range range;
  CHECK_FALSE(range.reserve(ww::device_id{0}, ~std::uint64_t{0}));
  CHECK_FALSE(range.reserved());
}

TEST_CASE("chunks are of equal size, but for the last") {
  small_range t;
  CHECK(t.create(5, 2) == cudaSuccess);  // 2, 2, 1
  CHECK(t.range.created() == 3);
  CHECK(t.spare() == 5);
  CHECK(t.physical() == 5);
  CHECK(t.select(1, 1) == 1);
  CHECK(t.range.release_spare(0) == cudaSuccess);
  CHECK(t.create(9, 8) == cudaSuccess);  // 5, 4: not 8, 1
  CHECK(t.range.created() == 5);
  CHECK(t.select(4, 4) == 4);
  CHECK(t.select(5, 5) == 5);
}

TEST_CASE("the fewest chunks are selected: the smallest that suffices, else the largest") {
  small_range t;
  for (std::uint64_t size : {1, 4, 2, 8}) CHECK(t.create(size, size) == cudaSuccess);
  CHECK(t.select(3, 32) == 4);
  CHECK(t.select(2, 32) == 2);
  CHECK(t.select(10, 32) == 10);  // 8 and 2
  CHECK(t.select(15, 15) == 15);
  CHECK(t.select(16, 32) == 0);
  CHECK(t.select(3, 3) == 3);  // 4 does not fit: 2 and 1
  CHECK(t.select(8, 7) == 0);
  CHECK(t.spare() == 15);  // selected ones are spare until they are mapped
}

TEST_CASE("mapped memory can be used, and moves to another address as a whole") {
  small_range t;
  t.add(0, 2);
  CHECK(t.spare() == 0);
  CHECK(t.is_usable(0, 2));
  CHECK(t.unmap(0, 2) == cudaSuccess);
  CHECK(t.spare() == 2);
  CHECK(t.physical() == 2);
  CHECK(t.create(1, 1) == cudaSuccess);
  CHECK(t.select(3, 3) == 3);
  CHECK(t.map(29) == cudaSuccess);  // up to the range's end
  CHECK(t.is_usable(29, 3));
  CHECK(t.range.created() == 2);
}

TEST_CASE("a stretch of addresses has the chunks that lie within it") {
  small_range t;
  t.add(4, 2);
  t.add(6, 1);
  t.add(7, 3);
  auto const whole = [&](std::uint64_t begin, std::uint64_t end) {
    auto const stretch = t.range.whole_chunks(t.at(begin), t.at(end));
    CHECK((stretch.bytes() == 0 || stretch.begin >= t.at(begin)));
    return stretch.bytes() / t.granule;
  };
  CHECK(whole(4, 10) == 6);
  CHECK(whole(5, 10) == 4);
  CHECK(whole(4, 9) == 3);
  CHECK(whole(5, 9) == 1);
  CHECK(whole(8, 9) == 0);
  auto const middle = t.range.whole_chunks(t.at(4) + 256, t.at(7) + 256);
  CHECK(middle.begin == t.at(6));
  CHECK(middle.end == t.at(7));
}

TEST_CASE("several chunks are unmapped with one call") {
  small_range t;
  t.add(0, 1);
  t.add(1, 2);
  t.add(3, 1);
  std::uint64_t const before = t.range.calls();
  CHECK(t.unmap(0, 3) == cudaSuccess);
  CHECK(t.range.calls() == before + 1);
  CHECK(t.spare() == 3);
  CHECK(t.is_usable(3, 1));
}

TEST_CASE("spare chunks are released, the largest first, down to what is kept") {
  small_range t;
  t.add(0, 2);
  for (std::uint64_t size : {1, 4, 2}) CHECK(t.create(size, size) == cudaSuccess);
  CHECK(t.range.release_spare(2 * t.granule) == cudaSuccess);
  CHECK(t.spare() == 2);
  CHECK(t.range.released() == 2);  // of 4 and 1: 2 would leave too little
  CHECK(t.range.release_spare(t.granule) == cudaSuccess);
  CHECK(t.spare() == 2);  // a chunk is not divided
  CHECK(t.range.release_spare(0) == cudaSuccess);
  CHECK(t.spare() == 0);
  CHECK(t.physical() == 2);
  CHECK(t.is_usable(0, 2));
}

TEST_CASE("selected chunks are merged where half as many would do") {
  small_range t;
  CHECK(t.create(4, 1) == cudaSuccess);
  CHECK(t.select(3, 3) == 3);
  CHECK(t.range.merge_selected(2 * t.granule) == cudaSuccess);  // 3 to 2: not worth it
  CHECK(t.range.released() == 0);
  CHECK(t.select(4, 4) == 4);
  CHECK(t.range.merge_selected(2 * t.granule) == cudaSuccess);
  CHECK(t.range.released() == 4);
  CHECK(t.range.created() == 6);
  CHECK(t.physical() == 4);
  CHECK(t.select(4, 4) == 4);
  CHECK(t.map(0) == cudaSuccess);
  CHECK(t.is_usable(0, 4));
}

TEST_CASE("a reset returns memory and addresses, and the range can be reserved again") {
  small_range t;
  t.add(3, 2);
  CHECK(t.create(1, 1) == cudaSuccess);
  t.range.reset();
  CHECK_FALSE(t.range.reserved());
  CHECK(t.range.physical_bytes() == 0);
  CHECK(t.range.spare_bytes() == 0);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(testing::stats().device_memory_bytes == 0);
#endif
  REQUIRE(t.range.reserve(ww::device_id{0}, 32 * t.granule));
  t.add(0, 1);
  CHECK(t.is_usable(0, 1));
  CHECK(t.unmap(0, 1) == cudaSuccess);
#if WARPWRIGHT_HOST_RUNTIME
  testing::reset_call_counts();
  t.range.reset();
  CHECK(testing::call_count("cuMemUnmap") == 0);
  CHECK(testing::call_count("cuMemRelease") == 1);  // what the first reset released is forgotten
#endif
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a device without virtual memory, or without addresses, has no range") {
  for (char const* call :
       {"cuDeviceGetAttribute", "cuMemGetAllocationGranularity", "cuMemAddressReserve"}) {
    virtual_range range;
    testing::scoped_fault_plan const fault{
        testing::fault_plan{}.fail(call, 1, cudaErrorNotSupported)};
    CHECK_FALSE(range.reserve(ww::device_id{0}, std::uint64_t{64} << 20U));
    CHECK_FALSE(range.reserved());
  }
}

TEST_CASE("what was created before the device is full stays spare") {
  small_range t;
  testing::scoped_fault_plan const fault{
      testing::fault_plan{}.fail("cuMemCreate", 3, cudaErrorMemoryAllocation)};
  CHECK(t.create(8, 2) == cudaErrorMemoryAllocation);
  CHECK(t.spare() == 4);
  CHECK(t.physical() == 4);
  CHECK(t.range.created() == 2);
}

TEST_CASE("a mapping that fails has no effect, and names the call") {
  for (bool const at_access : {false, true}) {
    small_range t;
    CHECK(t.create(3, 1) == cudaSuccess);
    CHECK(t.select(3, 3) == 3);
    char const* const call = at_access ? "cuMemSetAccess" : "cuMemMap";
    char const* api = nullptr;
    {
      testing::scoped_fault_plan const fault{
          testing::fault_plan{}.fail(call, at_access ? 1 : 2, cudaErrorUnknown)};
      CHECK(t.range.map(t.at(2), &api) == cudaErrorUnknown);
    }
    CHECK(api == std::string{call});
    CHECK(t.spare() == 3);
    CHECK(t.select(3, 3) == 3);
    CHECK(t.map(2) == cudaSuccess);
    CHECK(t.is_usable(2, 3));
  }
}

TEST_CASE("memory that cannot be unmapped stays mapped") {
  small_range t;
  t.add(0, 2);
  {
    testing::scoped_fault_plan const fault{
        testing::fault_plan{}.fail("cuMemUnmap", 1, cudaErrorUnknown)};
    CHECK(t.unmap(0, 2) == cudaErrorUnknown);
  }
  CHECK(t.spare() == 0);
  CHECK(t.is_usable(0, 2));
  CHECK(t.unmap(0, 2) == cudaSuccess);
}

TEST_CASE("a chunk that cannot be released stays spare") {
  small_range t;
  CHECK(t.create(4, 1) == cudaSuccess);
  {
    testing::scoped_fault_plan const fault{
        testing::fault_plan{}.fail("cuMemRelease", 2, cudaErrorUnknown)};
    CHECK(t.range.release_spare(0) == cudaErrorUnknown);
  }
  CHECK(t.spare() == 3);
  CHECK(t.select(3, 3) == 3);
  CHECK(t.map(0) == cudaSuccess);
  CHECK(t.is_usable(0, 3));
}

TEST_CASE("a merge that fails may leave less memory spare, all of it usable") {
  for (char const* call : {"cuMemRelease", "cuMemCreate"}) {
    small_range t;
    CHECK(t.create(4, 1) == cudaSuccess);
    CHECK(t.select(4, 4) == 4);
    {
      testing::scoped_fault_plan const fault{
          testing::fault_plan{}.fail(call, 2, cudaErrorMemoryAllocation)};
      CHECK(t.range.merge_selected(2 * t.granule) == cudaErrorMemoryAllocation);
    }
    std::uint64_t const left = t.spare();
    CHECK(left < 4);
    CHECK(t.physical() == left);
    CHECK(t.select(left, left) == left);
    CHECK(t.map(0) == cudaSuccess);
    CHECK(t.is_usable(0, left));
  }
}
#endif
