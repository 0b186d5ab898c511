// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How a matrix is partitioned: which threads compute which elements, each of them once.
#include <warpwright/kernel/detail/plan/row_partition.hpp>
#include <warpwright/kernel/detail/rows/row_functions.hpp>

#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
using ew::detail::operand;
using ew::detail::plan_rows;
using ew::detail::row_plan;
using ew::detail::row_strategy;
using ew::detail::with_clusters;

namespace {

constexpr unsigned vector = 4;
constexpr unsigned vectors = 4;

operand array(std::uint64_t address, std::uint64_t count) {
  operand o;
  o.element_bytes = 4;
  o.aligned_bytes = 16;
  o.natural_bytes = 4;
  o.address = address;
  o.count = count;
  return o;
}

row_plan plan_of(std::uint64_t rows, std::uint64_t cols, std::uint64_t offset = 0,
                 unsigned cached_bytes = 0) {
  operand const all[] = {array(4096 + offset, rows * cols), array(65536 + offset, rows * cols)};
  return plan_rows(all, 2, rows, cols, vector, vectors, cached_bytes);
}

// Whether the row and the number of each thread of a block are those of a division.
bool threads_are_numbered(row_plan const& plan) {
  if (plan.partition.rows_per_block != plan.threads / plan.partition.threads) return false;
  for (unsigned t = 0; t < plan.threads; ++t) {
    if (plan.partition.row_of_thread(t) != t / plan.partition.threads) return false;
    if (plan.partition.thread_in_row(t) != t % plan.partition.threads) return false;
  }
  return true;
}

// Whether the threads of every row compute each of its elements once, and the vectors are aligned
// to 16 bytes.
bool covers(row_plan const& plan, std::uint64_t offset) {
  std::uint64_t const cols = plan.partition.cols;
  for (std::uint64_t row = 0; row < plan.partition.rows; ++row) {
    ew::detail::row_span const s = plan.partition.span<vector>(row);
    std::vector<int> taken(cols, 0);
    if (s.begin != row * cols || s.edge > plan.partition.threads) return false;
    if (s.vectors != 0 && (s.vector_begin() * 4 + offset) % 16 != 0) return false;
    for (unsigned t = 0; t < plan.partition.threads; ++t) {
      if (t < s.edge) ++taken[t < s.head ? t : s.vectors * vector + t];
      std::uint64_t v = t;
      for (unsigned u = 0; u < vectors || plan.strategy == row_strategy::streamed; ++u) {
        if (v >= s.vectors) break;
        for (unsigned j = 0; j < vector; ++j) ++taken[s.head + v * vector + j];
        v += plan.partition.threads;
      }
    }
    for (int const times : taken) {
      if (times != 1) return false;
    }
  }
  return true;
}

// Whether the mean of a row is the quotient, rounded as that.
template <class R>
void check_mean(std::uint64_t seed) {
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  std::size_t wrong = 0;
  for (int k = 0; k < 200000; ++k) {
    auto const cols = static_cast<R>(1 + random.below(k % 2 == 0 ? 5000 : 0x80000000U));
    R const value = static_cast<R>(random.unit() - 0.5) * static_cast<R>(random.below(1000) + 1);
    ew::detail::row_width<R> const width{cols, 1 / cols};
    wrong += width.divide_by_cols(value) != value / cols;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a mean by the reciprocal of cols is rounded as the quotient is") {
  check_mean<float>(41);
  check_mean<double>(43);
}

TEST_CASE("a thread keeps as many vectors of a row as memory needs in flight") {
  using ew::detail::vectors_of_row;
  CHECK(vectors_of_row(4, 4, 4) == 4);   // float
  CHECK(vectors_of_row(8, 2, 4) == 4);   // 16-bit floats: 32 values
  CHECK(vectors_of_row(2, 8, 8) == 4);   // double
  CHECK(vectors_of_row(16, 1, 4) == 2);  // fp8: 32 values
  CHECK(vectors_of_row(4, 8, 4) == 4);   // the sum of two float arrays
  CHECK(vectors_of_row(8, 4, 4) == 2);   // and of two 16-bit arrays
  CHECK(vectors_of_row(4, 2, 4) == 8);   // 16-bit in, float out
  CHECK(vectors_of_row(4, 64, 4) == 1);  // sixteen arrays
  CHECK(vectors_of_row(8, 2, 8) == 1);   // 16-bit floats as double
  CHECK(vectors_of_row(16, 1, 8) == 1);  // more values than are kept
  CHECK(vectors_of_row(1, 0, 4) == 8);   // no arrays
}

TEST_CASE("other arrays are loaded in batches that fit registers") {
  using ew::detail::batch_of;
  CHECK(batch_of(32, 4) == 4);
  CHECK(batch_of(33, 4) == 2);
  CHECK(batch_of(128, 4) == 1);
  CHECK(batch_of(1000, 2) == 1);
  CHECK(batch_of(16, 8, 64) == 4);
  CHECK(batch_of(0, 8, 64) == 8);
}

TEST_CASE("the length of a row selects parts of a warp, warps or blocks") {
  CHECK(plan_of(0, 10).strategy == row_strategy::none);
  CHECK(plan_of(10, 0).strategy == row_strategy::none);
  CHECK(plan_of(10, 0).blocks == 0);
  auto const check = [](std::uint64_t cols, row_strategy strategy, unsigned threads) {
    CAPTURE(cols);
    row_plan const plan = plan_of(100000, cols);
    CHECK(plan.strategy == strategy);
    CHECK(plan.partition.threads == threads);
    unsigned const of_many = threads == 64 ? 128 : threads;  // two rows a block
    CHECK(plan.threads == (strategy == row_strategy::warp ? 256U : of_many));
    CHECK(plan.blocks == (100000 - 1) / (plan.threads / threads) + 1);
  };
  check(4, row_strategy::warp, 1);
  check(8, row_strategy::warp, 2);
  check(32, row_strategy::warp, 8);
  check(128, row_strategy::warp, 8);
  check(132, row_strategy::warp, 16);
  check(256, row_strategy::warp, 16);
  check(512, row_strategy::warp, 32);
  check(516, row_strategy::block, 64);
  check(1024, row_strategy::block, 64);
  CHECK(plan_of(1024, 1024).threads == 64);
  CHECK(plan_of(1025, 1024).threads == 128);
  check(4096, row_strategy::block, 256);
  check(5000, row_strategy::block, 320);
  check(8192, row_strategy::block, 512);
  check(8196, row_strategy::streamed, 512);
  check(1000000, row_strategy::streamed, 512);
  // Rows with elements in no vector have a thread for each of these.
  check(1, row_strategy::warp, 1);
  check(3, row_strategy::warp, 4);
  check(5, row_strategy::warp, 8);
  check(33, row_strategy::warp, 8);
  check(513, row_strategy::warp, 32);
}

TEST_CASE("a streamed row is cached as far as memory suffices, if that is at least half") {
  using ew::detail::with_cached_vectors;
  constexpr std::uint64_t memory = 227 * 1024 - 128;  // an H100's, less what the reductions take
  auto const cached = [](std::uint64_t cols, std::uint64_t bytes) {
    return with_cached_vectors(plan_of(3, cols), vector, 16, bytes).cached;
  };
  CHECK(cached(8195, memory) == 0);  // kept in registers
  CHECK(cached(8196, memory) == 5);
  CHECK(cached(10240, memory) == 5);
  CHECK(cached(10241, memory) == 6);
  CHECK(cached(50257, memory) == 25);
  CHECK(cached(57343, memory) == 28);
  CHECK(cached(57344, memory) == 28);
  CHECK(cached(57345, memory) == 28);
  CHECK(cached(65536, memory) == 28);
  CHECK(cached(114688, memory) == 28);
  CHECK(cached(114689, memory) == 0);
  CHECK(cached(std::uint64_t{1} << 31U, memory) == 0);
  CHECK(cached(16384, 65536) == 8);
  CHECK(cached(16384, 65535) == 7);
  CHECK(cached(8196, 8191) == 0);
  CHECK(cached(8196, 0) == 0);
  CHECK(with_cached_vectors(plan_of(512, 20000), vector, 16, memory).copied);
  CHECK_FALSE(with_cached_vectors(plan_of(511, 20000), vector, 16, memory).copied);
  CHECK(with_cached_vectors(plan_of(3, 20000), vector, 128, memory).cached == 0);
  CHECK(with_cached_vectors(plan_of(3, 14000), vector, 128, memory).cached == 0);
  CHECK(with_cached_vectors(plan_of(3, 12000), vector, 128, memory).cached == 3);
  for (std::uint64_t cols = 8196; cols < 130000; cols += 509) {
    row_plan const plan = plan_of(5, cols, 4);
    unsigned const k = with_cached_vectors(plan, vector, 16, memory).cached;
    REQUIRE(std::uint64_t{k} * plan.partition.threads * 16 <= memory);
    bool whole = true;
    for (std::uint64_t row = 0; row < 5; ++row) {
      whole = whole && plan.partition.span<vector>(row).vectors <= k * plan.partition.threads;
    }
    REQUIRE((cols > 57344 || whole));
  }
}

TEST_CASE("a streamed row that has an SM to itself has twice as many threads") {
  auto const threads = [](std::uint64_t cols, unsigned cached_bytes, unsigned most) {
    operand const all[] = {array(4096, 3 * cols), array(65536, 3 * cols)};
    return plan_rows(all, 2, 3, cols, vector, vectors, cached_bytes, most).threads;
  };
  CHECK(threads(8192, 16, 1024) == 512);  // kept in registers
  CHECK(threads(8196, 16, 1024) == 256);
  CHECK(threads(9640, 16, 1024) == 256);  // a sixth of an SM's shared memory
  CHECK(threads(9644, 16, 1024) == 512);
  CHECK(threads(28928, 16, 1024) == 512);  // 113 KiB
  CHECK(threads(28932, 16, 1024) == 1024);
  CHECK(threads(14464, 32, 1024) == 512);
  CHECK(threads(14468, 32, 1024) == 1024);
  CHECK(threads(std::uint64_t{1} << 31U, 16, 1024) == 1024);
  CHECK(threads(28932, 16, 512) == 512);  // of doubles
}

TEST_CASE("a row of 16-bit floats has 32 values a thread") {
  auto const plan = [](std::uint64_t cols) {
    operand const all[] = {array(4096, 3 * cols), array(65536, 3 * cols)};
    return plan_rows(all, 2, 3, cols, 8, 4, 16, 1024);
  };
  CHECK(plan(8192).strategy == row_strategy::block);
  CHECK(plan(8192).threads == 256);
  CHECK(plan(8200).strategy == row_strategy::streamed);
  CHECK(plan(8200).threads == 256);
  CHECK(plan(19280).threads == 256);
  CHECK(plan(19288).threads == 512);
  CHECK(plan(57864).threads == 1024);
  CHECK(plan(16).partition.threads == 1);
  CHECK(plan(32).partition.threads == 2);
  CHECK(plan(40).partition.threads == 4);
  CHECK(plan(64).partition.threads == 4);
  CHECK(plan(128).partition.threads == 4);
  CHECK(plan(136).partition.threads == 8);
  CHECK(plan(100).partition.threads == 4);   // each row has 4 elements in no vector
  CHECK(plan(102).partition.threads == 8);   // 6
  CHECK(plan(101).partition.threads == 16);  // 5 or 13
}

TEST_CASE("a cluster computes a row where rows are few, or too long for a block") {
  auto const plan = [](std::uint64_t rows, std::uint64_t cols, unsigned limit) {
    return with_clusters(plan_of(rows, cols), cols / vector / 4, 16 * (cols / vector), 226 * 1024,
                         512, limit);
  };
  CHECK(plan(4, 128000, 8).partition.blocks == 8);
  CHECK(plan(4, 128000, 8).partition.threads == 4096);
  CHECK(plan(4, 128000, 8).threads == 512);
  CHECK(plan(4, 128000, 8).blocks == 32);
  CHECK(plan(4, 64000, 8).partition.blocks == 8);  // the last block has some loads
  CHECK(plan(4, 56000, 8).partition.blocks == 4);
  CHECK(plan(4, 20000, 8).partition.blocks == 2);  // or threads would have less than one load
  CHECK(plan(64, 128000, 8).partition.blocks == 4);
  CHECK(plan(256, 57856, 8).partition.blocks == 1);
  CHECK(plan(256, 57860, 8).partition.blocks == 4);
  CHECK(plan(256, 65536, 8).partition.blocks == 4);  // 64 KiB each
  CHECK(plan(256, 65540, 8).partition.blocks == 8);
  CHECK(plan(256, 131072, 8).partition.blocks == 8);
  CHECK(plan(256, 200000, 8).threads == 320);
  CHECK(plan(256, 1000000, 8).partition.blocks == 8);
  CHECK(plan(256, 1000000, 8).threads == 512);  // whose blocks have an SM each
  CHECK(plan(256, 131072, 4).partition.blocks == 4);
  CHECK(plan(256, 131072, 8).threads == 320);
  CHECK(plan(4, 8192, 8).partition.blocks == 1);  // kept in registers
  CHECK(plan(4, 128000, 1).partition.threads == plan_of(4, 128000).partition.threads);
}

TEST_CASE("a kept row has a thread for each element in no vector, a reduced one for the most") {
  CHECK(plan_of(9, 7, 0, 16).partition.threads == 4);  // 3 of each row
  CHECK(plan_of(9, 7).partition.threads == 8);
}

TEST_CASE("few short rows go to small blocks") {
  CHECK(plan_of(64, 32).threads == 32);
  CHECK(plan_of(64, 32).blocks == 16);
  CHECK(plan_of(1017, 512).threads == 256);
  CHECK(plan_of(1016, 512).threads == 128);
  CHECK(plan_of(1, 4).blocks == 1);
}

TEST_CASE("long rows are a block each") {
  CHECK(plan_of(std::uint64_t{1} << 30U, 4096).blocks == std::uint64_t{1} << 30U);
  CHECK(plan_of(std::uint64_t{1} << 40U, 4).blocks == std::uint64_t{1} << 32U);
}

TEST_CASE("every element is computed by one thread, and vectors are aligned") {
  for (std::uint64_t offset = 0; offset < 16; offset += 4) {
    for (std::uint64_t cols = 1; cols <= 80; ++cols) {
      for (unsigned const cached_bytes : {0U, 16U}) {
        row_plan const plan = plan_of(9, cols, offset, cached_bytes);
        CAPTURE(offset, cols, cached_bytes, plan.partition.threads, plan.partition.head);
        REQUIRE(covers(plan, offset));
        REQUIRE(threads_are_numbered(plan));
        REQUIRE(plan.partition.ragged == (offset != 0 || cols % 4 != 0));
      }
    }
    for (std::uint64_t const cols : {509U, 512U, 515U, 4095U, 4096U, 8191U, 8193U, 8200U, 20003U}) {
      CAPTURE(offset, cols);
      REQUIRE(covers(plan_of(5, cols, offset), offset));
      REQUIRE(threads_are_numbered(plan_of(5, cols, offset)));
    }
  }
}

TEST_CASE("a misaligned operand alone is moved element by element") {
  std::uint64_t const n = 8 * 64;
  operand const all[] = {array(4096, n), array(65536 + 4, n), array(131072, n)};
  row_plan const plan = plan_rows(all, 3, 8, 64, vector, vectors);
  CHECK_FALSE(plan.partition.ragged);
  CHECK_FALSE(plan.partition.all_wide);
  CHECK(plan.partition.wide == 5);
}

TEST_CASE("a row() or col() of another row length is not on the fast path") {
  for (ew::detail::access_pattern const kind :
       {ew::detail::access_pattern::row, ew::detail::access_pattern::column}) {
    for (std::uint64_t const cols : {32U, 64U, 128U}) {
      operand all[] = {array(4096, 512), array(65536, 512), array(131072, cols)};
      all[2].kind = kind;
      row_plan const plan = plan_rows(all, 3, 8, 64, vector, vectors);
      CAPTURE(cols);
      CHECK(plan.partition.wide == 7);
      CHECK(plan.partition.all_wide == (cols == 64));
      CHECK(plan.partition.same_length == (cols == 64));
    }
  }
}

TEST_CASE("plans are made at compile time, too") {
  constexpr operand none[] = {operand{}};
  constexpr row_plan plan = plan_rows(none, 1, 0, 5, vector, vectors);
  static_assert(plan.strategy == row_strategy::none, "no rows");
  static_assert(ew::detail::vectors_of_row(4, 4, 4) == 4, "float");
  CHECK(plan.blocks == 0);
}
