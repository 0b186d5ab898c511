// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A short run of the pool's stress test, and tests that its model detects errors.
#include "memory/pool_stress.hpp"

#include "support/catch.hpp"

namespace ww = warpwright;

namespace {

constexpr std::uint64_t operations = 200000;

std::string joined(std::vector<std::string> const& lines) {
  std::string text;
  for (std::string const& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("the model detects memory with two owners") {
  pool_stress::failures found;
  pool_stress::shadow holders{found};
  alignas(256) static unsigned char memory[2048];
  holders.claim(memory, 1000, 1);
  holders.claim(memory + 1024, 256, 2);
  holders.release(memory, 1000, 1);
  holders.claim(memory, 1024, 3);
  CHECK_FALSE(found.any());
  SECTION("an overlap") { holders.claim(memory + 512, 1024, 4); }
  SECTION("a free by somebody else") { holders.release(memory, 1024, 2); }
  SECTION("a graph's memory in other hands") { holders.claim(memory, 256, 5, 5); }
  CHECK(found.texts().size() == 1);
}

TEST_CASE("a pattern detects each changed byte") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  std::size_t const bytes = GENERATE(1, 3, 4, 255, 1001, 100003);
  pool_stress::finding_board board{1};
  void* const p = pool.allocate(s, bytes);
  pool_stress::stamp(s, p, bytes, 0x12345678);
  pool_stress::check(s, p, bytes, 0x12345678, board.at(0));
  s.synchronize();
  CHECK(board.fetch()[0].count == 0);
  ww::check(cudaMemsetAsync(static_cast<char*>(p) + bytes - 1, 0xff, 1, s.get()),
            "cudaMemsetAsync");
  pool_stress::check(s, p, bytes, 0x12345678, board.at(0));
  s.synchronize();
  CHECK(board.fetch()[0].count == 1);
  ww::check(cudaMemsetAsync(p, 0xff, 1, s.get()), "cudaMemsetAsync");
  pool_stress::check(s, p, bytes, 0x12345678, board.at(0));
  s.synchronize();
  CHECK(board.fetch()[0].count == (bytes == 1 || bytes == 4 ? 2 : 3));
  pool.deallocate(s, p, bytes);
}

#if !defined(__SANITIZE_THREAD__)  // which would report the races of this test
TEST_CASE("blocks freed before their streams have completed are detected") {
  pool_stress::options how;
  how.seed = std::random_device{}();
  INFO("seed " << how.seed);
  how.misuse = true;
  how.stamp_every = 1;
  how.operations = 400000;
  pool_stress::totals const t = pool_stress::run(how);
  CHECK(t.mismatches > 0);
  CHECK_THAT(joined(t.failures), contains("words changed before the free"));
}
#endif

TEST_CASE("threads, streams, graphs and caches in any sequence") {
  pool_stress::options how;
  how.seed = std::random_device{}();
  INFO("seed " << how.seed << " and on");
  how.operations = operations;
  how.round_operations = operations / 12;
  pool_stress::totals t;
  // With one seed in 60 the pool never runs out of memory.
  for (int runs = 0; runs < 4 && t.refused == 0; ++runs, ++how.seed) {
    t = pool_stress::run(how);
    INFO(joined(t.failures));
    CHECK(t.failures.empty());
    CHECK(t.operations >= operations);
  }
  CHECK(t.refused > 0);
  CHECK(t.stamps > 0);
  CHECK(t.foreign > 0);
  CHECK(t.shared > 0);
  CHECK(t.captures > 0);
  CHECK(t.launches > 0);
  CHECK(t.replaced > 0);
  CHECK(t.cache_hits > 0);
  if (pool_stress::has_virtual_memory()) CHECK(t.remaps > 0);
}
