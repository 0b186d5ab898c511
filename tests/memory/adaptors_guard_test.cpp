// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The guard adaptor: red zones, their check, and fill patterns.
#include "memory/adaptors_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors/guard.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/resources.hpp>

#include <cstring>
#include <string>
#include <vector>

namespace ww = warpwright;
using test_support::all_are;
using test_support::fetch;
using test_support::fill;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

void collect(void* user, ww::guard_damage const& damage) noexcept {
  static_cast<std::vector<ww::guard_damage>*>(user)->push_back(damage);
}
void ignore_damage(void*, ww::guard_damage const&) noexcept {}

char* at(void* pointer) { return static_cast<char*>(pointer); }

}  // namespace

TEST_CASE("undamaged blocks pass the guard, whatever is written inside") {
  ww::stream const s;
  ww::memory_pool pool{device};
  std::vector<ww::guard_damage> damages;
  ww::guard_adaptor guarded{pool, &collect, &damages};
  for (std::size_t const bytes :
       {std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{1000}, mib + 3}) {
    void* const p = guarded.allocate(s, bytes);
    fill(s, p, 0, bytes);
    CHECK(guarded.check_blocks(s) == 0);
    CHECK(all_are(fetch(s, p, bytes), 0));
    guarded.deallocate(s, p, bytes);
  }
  CHECK(damages.empty());
  CHECK(guarded.damages() == 0);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("one byte behind a block is detected when it is freed, and the block is freed") {
  ww::stream const s;
  ww::memory_pool pool{device};
  std::vector<ww::guard_damage> damages;
  ww::guard_adaptor guarded{pool, &collect, &damages};
  void* const p = guarded.allocate(s, 1000);
  std::string const allocated = "adaptors_guard_test.cpp:" + std::to_string(__LINE__ - 1);
  fill(s, at(p) + 1000, 7, 1);
  guarded.deallocate(s, p, 1000);
  std::string const freed = "adaptors_guard_test.cpp:" + std::to_string(__LINE__ - 1);
  REQUIRE(damages.size() == 1);
  CHECK(damages[0].pointer() == p);
  CHECK(damages[0].bytes() == 1000);
  CHECK(damages[0].offset_bytes() == 1000);
  CHECK(damages[0].damaged_bytes() == 1);
  std::string const text = damages[0].what();
  CHECK_THAT(text, contains(freed + ": guard_adaptor: bytes overwritten behind the block"));
  CHECK_THAT(text, contains("of 1000 bytes, allocated at "));
  CHECK_THAT(text, contains(allocated));
  CHECK_THAT(text, contains(": 1; the first lies 0 bytes behind its end and holds 7;"));
  CHECK(guarded.damages() == 1);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("bytes before a block are detected, and each side is reported separately") {
  ww::stream const s;
  ww::memory_pool pool{device};
  std::vector<ww::guard_damage> damages;
  ww::guard_adaptor guarded{pool, &collect, &damages};
  void* const p = guarded.allocate(s, 64);
  fill(s, at(p) - 8, 0, 8);
  fill(s, at(p) + 64 + 255, 0, 1);  // the last byte of the zone
  guarded.deallocate(s, p, 64);
  REQUIRE(damages.size() == 2);
  CHECK(damages[0].offset_bytes() == -8);
  CHECK(damages[0].damaged_bytes() == 8);
  CHECK_THAT(std::string{damages[0].what()}, contains("the first lies 8 bytes before its start"));
  CHECK(damages[1].offset_bytes() == 64 + 255);
  CHECK(damages[1].damaged_bytes() == 1);
}

TEST_CASE("zones have the requested size on both sides at every alignment") {
  ww::stream const s;
  ww::memory_pool pool{device};
  std::vector<ww::guard_damage> damages;
  ww::guard_adaptor guarded{pool, &collect, &damages, ww::guard_options{}.zone_bytes(768)};
  for (std::size_t alignment = 1; alignment <= 2 * mib; alignment *= 2) {
    void* const odd = guarded.allocate(s, 300);
    void* const p = guarded.allocate(s, 100, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    fill(s, at(p) - 768, 1, 1);
    fill(s, at(p) + 100 + 767, 1, 1);
    guarded.deallocate(s, p, 100);
    guarded.deallocate(s, odd, 300);
    REQUIRE(damages.size() == 2);
    CHECK(damages[0].offset_bytes() == -768);
    CHECK(damages[1].offset_bytes() == 100 + 767);
    damages.clear();
  }
  CHECK(pool.statistics().live_bytes == 0);
  for (std::size_t const bad : {std::size_t{0}, std::size_t{3}, std::size_t{384}}) {
    CHECK_THROWS_WITH(guarded.allocate(s, 100, bad), contains("is not a power of two"));
  }
  CHECK_THROWS_WITH(guarded.allocate(s, 100, 2048 * mib), contains("is not a power of two"));
  CHECK_THROWS_AS(guarded.allocate(s, ~std::size_t{0}), ww::out_of_memory);
  CHECK_THROWS_AS(guarded.allocate(s, ~std::size_t{0} - 1000), ww::out_of_memory);
  CHECK(guarded.try_allocate(s, ~std::size_t{0} - 1536) == nullptr);
}

TEST_CASE("live blocks can be checked, to find the code that does the damage") {
  ww::stream const s;
  ww::memory_pool pool{device};
  std::vector<ww::guard_damage> damages;
  ww::guard_adaptor guarded{pool, &collect, &damages};
  void* const p = guarded.allocate(s, 100);
  void* const q = guarded.allocate(s, 200);
  CHECK(guarded.check_blocks(s) == 0);
  fill(s, at(q) + 200, 0, 4);
  CHECK(guarded.check_blocks(s) == 1);
  REQUIRE(damages.size() == 1);
  CHECK(damages[0].pointer() == q);
  CHECK(damages[0].damaged_bytes() == 4);
  CHECK_THAT(std::string{damages[0].what()},
             contains("adaptors_guard_test.cpp:" + std::to_string(__LINE__ - 5)));
  guarded.deallocate(s, p, 100);
  guarded.deallocate(s, q, 200);  // reported again
  CHECK(guarded.damages() == 2);
}

TEST_CASE("a write that is still queued is detected when the block is freed on its stream") {
  ww::stream const s;
  ww::memory_pool pool{device};
  std::vector<ww::guard_damage> damages;
  ww::guard_adaptor guarded{pool, &collect, &damages};
  void* const p = guarded.allocate(s, 100);
  test_support::pause(s);
  fill(s, at(p) + 100, 0, 1);
  guarded.deallocate(s, p, 100);
  CHECK(damages.size() == 1);
}

TEST_CASE("new and freed blocks are filled with patterns, unless that is disabled") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::guard_adaptor guarded{pool, &ignore_damage};
  void* const p = guarded.allocate(s, 1000);
  std::vector<unsigned char> const fresh = fetch(s, p, 1000);
  CHECK(all_are(fresh, 0xFF));
  float number = 0.0F;
  std::memcpy(&number, fresh.data(), sizeof number);
  CHECK(number != number);
  fill(s, p, 5, 1000);
  guarded.deallocate(s, p, 1000);
  // The pool still owns the memory, so that the test may read it.
  CHECK(all_are(fetch(s, p, 1000), 0xFE));

  ww::guard_adaptor plain{pool, &ignore_damage, nullptr,
                          ww::guard_options{}.poison_new(false).poison_freed(false)};
  void* const q = plain.allocate(s, 1000);
  REQUIRE(q == p);
  CHECK(all_are(fetch(s, q, 1000), 0xFE));
  fill(s, q, 5, 1000);
  plain.deallocate(s, q, 1000);
  CHECK(all_are(fetch(s, q, 1000), 5));
}

TEST_CASE("a guard rejects unknown pointers, wrong sizes and invalid options") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::guard_adaptor guarded{pool, &ignore_damage};
  void* const p = guarded.allocate(s, 100);
  CHECK_THROWS_WITH(guarded.deallocate(s, p, 101), contains("100 bytes were allocated at"));
  CHECK_THROWS_WITH(guarded.deallocate(s, at(p) - 256, 100), contains("not a live block"));
  guarded.deallocate(s, p, 100);
  CHECK_THROWS_AS(guarded.deallocate(s, p, 100), std::invalid_argument);
  CHECK(guarded.check_blocks(s) == 0);

  for (std::size_t const bad : {std::size_t{0}, std::size_t{100}, std::size_t{4352}}) {
    CHECK_THROWS_WITH(ww::guard_options{}.zone_bytes(bad),
                      contains("is not a multiple of 256 from 256 to 4096"));
  }
  ww::guard_adaptor<ww::memory_pool>::callback const none = nullptr;
  CHECK_THROWS_WITH(ww::guard_adaptor(pool, none), contains("the callback is null"));
}

TEST_CASE("a guard rejects a capturing stream, and the capture stays valid") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::guard_adaptor guarded{pool, &ignore_damage};
  void* const p = guarded.allocate(s, 100);
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal), "begin");
  CHECK_THROWS_WITH(guarded.allocate(s, 100), contains("cannot allocate on a capturing stream"));
  CHECK_THROWS_WITH(guarded.deallocate(s, p, 100), contains("cannot deallocate on a capturing"));
  CHECK_THROWS_WITH(guarded.check_blocks(s), contains("cannot check blocks on a capturing"));
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  guarded.deallocate(s, p, 100);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("a guard works over managed and page-locked memory") {
  ww::stream const s;
  std::vector<ww::guard_damage> damages;
  ww::managed_memory_resource managed{device};
  ww::guard_adaptor over_managed{managed, &collect, &damages};
  void* const p = over_managed.allocate(s, 100);
  fill(s, at(p) + 100, 0, 1);
  over_managed.deallocate(s, p, 100);
  CHECK(damages.size() == 1);
  CHECK(managed.live_bytes() == 0);

  ww::pinned_pool pool;
  ww::pinned_memory_resource pinned{pool};
  ww::guard_adaptor over_pinned{pinned, &collect, &damages};
  void* const q = over_pinned.allocate(s, 100);
  s.synchronize();
  at(q)[-1] = 0;  // written by the host
  over_pinned.deallocate(s, q, 100);
  CHECK(damages.size() == 2);
  CHECK(pool.statistics().live_bytes == 0);
}
