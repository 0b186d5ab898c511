// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How rows are dealt out: which threads take which elements, and that each is taken once.
#include <warpwright/kernel/detail/row_kinds.hpp>
#include <warpwright/kernel/detail/row_plan.hpp>

#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
using ew::detail::operand;
using ew::detail::plan_rows;
using ew::detail::row_form;
using ew::detail::row_plan;

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

row_plan plan_of(std::uint64_t rows, std::uint64_t cols, std::uint64_t offset = 0) {
  operand const all[] = {array(4096 + offset, rows * cols), array(65536 + offset, rows * cols)};
  return plan_rows(all, 2, rows, cols, vector, vectors);
}

// Whether each thread of a block finds its row and its place among that row's threads as a division
// would.
bool seated(row_plan const& plan) {
  if (plan.deal.rows_a_block != plan.threads / plan.deal.threads) return false;
  for (unsigned t = 0; t < plan.threads; ++t) {
    unsigned const row = t >> plan.deal.row_shift;
    if (row != t / plan.deal.threads) return false;
    if (t - (row << plan.deal.row_shift) != t % plan.deal.threads) return false;
  }
  return true;
}

// Whether the threads of every row take each of its elements once, and the vectors lie where 16
// bytes begin.
bool covers(row_plan const& plan, std::uint64_t offset) {
  std::uint64_t const cols = plan.deal.cols;
  for (std::uint64_t row = 0; row < plan.deal.rows; ++row) {
    ew::detail::row_span const s = plan.deal.span<vector>(row);
    std::vector<int> taken(cols, 0);
    if (s.first != s.begin + s.head || s.begin != row * cols || s.edge > plan.deal.threads)
      return false;
    if (s.vectors != 0 && (s.first * 4 + offset) % 16 != 0) return false;
    for (unsigned t = 0; t < plan.deal.threads; ++t) {
      if (t < s.edge) ++taken[t < s.head ? t : s.vectors * vector + t];
      std::uint64_t v = t;
      for (unsigned u = 0; u < vectors || plan.form == row_form::passes; ++u) {
        if (v >= s.vectors) break;
        for (unsigned j = 0; j < vector; ++j) ++taken[s.head + v * vector + j];
        v += plan.deal.threads;
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
void check_share(std::uint64_t seed) {
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  std::size_t wrong = 0;
  for (int k = 0; k < 200000; ++k) {
    auto const cols = static_cast<R>(1 + random.below(k % 2 == 0 ? 5000 : 0x80000000U));
    R const value = static_cast<R>(random.unit() - 0.5) * static_cast<R>(random.below(1000) + 1);
    ew::detail::row_width<R> const width{cols, 1 / cols};
    wrong += width.share(value) != value / cols;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a mean by the reciprocal of cols is rounded as the quotient is") {
  check_share<float>(41);
  check_share<double>(43);
}

TEST_CASE("a thread keeps as much of a row as memory wants in flight") {
  using ew::detail::vectors_of_row;
  CHECK(vectors_of_row(4, 4, 4) == 4);   // float
  CHECK(vectors_of_row(8, 2, 4) == 2);   // 16-bit floats: 16 values
  CHECK(vectors_of_row(2, 8, 8) == 4);   // double
  CHECK(vectors_of_row(16, 1, 4) == 1);  // fp8: 16 values
  CHECK(vectors_of_row(4, 8, 4) == 4);   // the sum of two float arrays
  CHECK(vectors_of_row(8, 4, 4) == 2);   // and of two 16-bit arrays
  CHECK(vectors_of_row(4, 2, 4) == 4);   // 16-bit in, float out
  CHECK(vectors_of_row(4, 64, 4) == 1);  // sixteen arrays
  CHECK(vectors_of_row(16, 1, 8) == 1);  // more values than are kept
  CHECK(vectors_of_row(1, 0, 4) == 8);   // no arrays
}

TEST_CASE("what else is read is loaded in batches that registers hold") {
  using ew::detail::batch_of;
  CHECK(batch_of(32, 4) == 4);
  CHECK(batch_of(33, 4) == 2);
  CHECK(batch_of(128, 4) == 1);
  CHECK(batch_of(1000, 2) == 1);
  CHECK(batch_of(16, 8, 64) == 4);
  CHECK(batch_of(0, 8, 64) == 8);
}

TEST_CASE("rows go to lanes, warps and blocks by their length") {
  CHECK(plan_of(0, 10).form == row_form::nothing);
  CHECK(plan_of(10, 0).form == row_form::nothing);
  CHECK(plan_of(10, 0).blocks == 0);
  auto const check = [](std::uint64_t cols, row_form form, unsigned threads) {
    CAPTURE(cols);
    row_plan const plan = plan_of(100000, cols);
    CHECK(plan.form == form);
    CHECK(plan.deal.threads == threads);
    CHECK(plan.threads == (form == row_form::warp ? 256U : threads));
    CHECK(plan.blocks == (100000 - 1) / (plan.threads / threads) + 1);
  };
  check(4, row_form::warp, 1);
  check(8, row_form::warp, 2);
  check(32, row_form::warp, 8);
  check(128, row_form::warp, 8);
  check(132, row_form::warp, 16);
  check(256, row_form::warp, 16);
  check(512, row_form::warp, 32);
  check(516, row_form::block, 64);
  check(1024, row_form::block, 64);
  check(4096, row_form::block, 256);
  check(5000, row_form::block, 320);
  check(8192, row_form::block, 512);
  check(8196, row_form::passes, 512);
  check(1000000, row_form::passes, 512);
  // Rows with ends have a thread for each of these.
  check(1, row_form::warp, 1);
  check(3, row_form::warp, 4);
  check(5, row_form::warp, 8);
  check(33, row_form::warp, 8);
  check(513, row_form::warp, 32);
}

TEST_CASE("of a long row a thread holds what there is memory for, if that is half of it") {
  using ew::detail::holding;
  constexpr std::uint64_t memory = 227 * 1024 - 128;  // an H100's, less what sums meet in
  auto const held = [](std::uint64_t cols, std::uint64_t bytes) {
    return holding(plan_of(3, cols), vector, 16, bytes).held;
  };
  CHECK(held(8195, memory) == 0);  // kept in registers
  CHECK(held(8196, memory) == 5);
  CHECK(held(10240, memory) == 5);
  CHECK(held(10241, memory) == 6);
  CHECK(held(50257, memory) == 25);
  CHECK(held(57343, memory) == 28);
  CHECK(held(57344, memory) == 28);
  CHECK(held(57345, memory) == 28);
  CHECK(held(65536, memory) == 28);
  CHECK(held(114688, memory) == 28);
  CHECK(held(114689, memory) == 0);
  CHECK(held(std::uint64_t{1} << 31U, memory) == 0);
  CHECK(held(16384, 65536) == 8);
  CHECK(held(16384, 65535) == 7);
  CHECK(held(8196, 8191) == 0);
  CHECK(held(8196, 0) == 0);
  CHECK(holding(plan_of(3, 20000), vector, 128, memory).held == 0);
  CHECK(holding(plan_of(3, 14000), vector, 128, memory).held == 0);
  CHECK(holding(plan_of(3, 12000), vector, 128, memory).held == 3);
  for (std::uint64_t cols = 8196; cols < 130000; cols += 509) {
    row_plan const plan = plan_of(5, cols, 4);
    unsigned const k = holding(plan, vector, 16, memory).held;
    REQUIRE(std::uint64_t{k} * plan.deal.threads * 16 <= memory);
    bool whole = true;
    for (std::uint64_t row = 0; row < 5; ++row) {
      whole = whole && plan.deal.span<vector>(row).vectors <= k * plan.deal.threads;
    }
    REQUIRE((cols > 57344 || whole));
  }
}

TEST_CASE("a long row that has an SM to itself has twice as many threads") {
  auto const threads = [](std::uint64_t cols, unsigned held_bytes, unsigned most) {
    operand const all[] = {array(4096, 3 * cols), array(65536, 3 * cols)};
    return plan_rows(all, 2, 3, cols, vector, vectors, held_bytes, most).threads;
  };
  CHECK(threads(8192, 16, 1024) == 512);  // kept in registers
  CHECK(threads(8196, 16, 1024) == 512);
  CHECK(threads(28928, 16, 1024) == 512);  // 113 KiB
  CHECK(threads(28932, 16, 1024) == 1024);
  CHECK(threads(14464, 32, 1024) == 512);
  CHECK(threads(14468, 32, 1024) == 1024);
  CHECK(threads(std::uint64_t{1} << 31U, 16, 1024) == 1024);
  CHECK(threads(28932, 16, 512) == 512);  // of doubles
}

TEST_CASE("few short rows are spread over small blocks") {
  CHECK(plan_of(64, 32).threads == 32);
  CHECK(plan_of(64, 32).blocks == 16);
  CHECK(plan_of(1017, 512).threads == 256);
  CHECK(plan_of(1016, 512).threads == 128);
  CHECK(plan_of(1, 4).blocks == 1);
}

TEST_CASE("many rows are as many blocks") {
  CHECK(plan_of(std::uint64_t{1} << 30U, 4096).blocks == std::uint64_t{1} << 30U);
  CHECK(plan_of(std::uint64_t{1} << 40U, 4).blocks == std::uint64_t{1} << 32U);
}

TEST_CASE("every element has one thread, and vectors are aligned") {
  for (std::uint64_t offset = 0; offset < 16; offset += 4) {
    for (std::uint64_t cols = 1; cols <= 80; ++cols) {
      row_plan const plan = plan_of(9, cols, offset);
      CAPTURE(offset, cols, plan.deal.threads, plan.deal.head);
      REQUIRE(covers(plan, offset));
      REQUIRE(seated(plan));
      REQUIRE(plan.deal.ragged == (offset != 0 || cols % 4 != 0));
    }
    for (std::uint64_t const cols : {509U, 512U, 515U, 4095U, 4096U, 8191U, 8193U, 8200U, 20003U}) {
      CAPTURE(offset, cols);
      REQUIRE(covers(plan_of(5, cols, offset), offset));
      REQUIRE(seated(plan_of(5, cols, offset)));
    }
  }
}

TEST_CASE("what is off alone is moved element by element alone") {
  std::uint64_t const n = 8 * 64;
  operand const all[] = {array(4096, n), array(65536 + 4, n), array(131072, n)};
  row_plan const plan = plan_rows(all, 3, 8, 64, vector, vectors);
  CHECK_FALSE(plan.deal.ragged);
  CHECK_FALSE(plan.deal.all_wide);
  CHECK(plan.deal.wide == 5);
}

TEST_CASE("a row() or col() of another matrix takes the general way") {
  for (ew::detail::reach const kind : {ew::detail::reach::row, ew::detail::reach::column}) {
    for (std::uint64_t const cols : {32U, 64U, 128U}) {
      operand all[] = {array(4096, 512), array(65536, 512), array(131072, cols)};
      all[2].kind = kind;
      row_plan const plan = plan_rows(all, 3, 8, 64, vector, vectors);
      CAPTURE(cols);
      CHECK(plan.deal.wide == 7);
      CHECK(plan.deal.all_wide == (cols == 64));
    }
  }
}

TEST_CASE("plans are made at compile time, too") {
  constexpr operand none[] = {operand{}};
  constexpr row_plan plan = plan_rows(none, 1, 0, 5, vector, vectors);
  static_assert(plan.form == row_form::nothing, "no rows");
  static_assert(ew::detail::vectors_of_row(4, 4, 4) == 4, "float");
  CHECK(plan.blocks == 0);
}
