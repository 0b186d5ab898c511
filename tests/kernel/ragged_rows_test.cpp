// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows with lengths of their own: what is beyond a row's length is neither read nor written, nor
// reduced.
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>

#include <cmath>
#include <limits>
#include <random>

#include "kernel/rows_support.hpp"
#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::exact_row;
using kernel_test::function;
using kernel_test::guarded;
using test_support::device_array;

namespace {

constexpr float untouched = -77.0F;

// Scores of which those past a row's length are NaN, which spoils what reads it.
std::vector<float> scores(std::size_t rows, std::size_t cols,
                          std::vector<std::uint32_t> const& lengths, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % cols < lengths[i / cols] ? normal(random) : std::nanf("");
  }
  return x;
}

template <class Make>
std::size_t wrong_elements(function f, std::size_t rows, std::size_t cols, std::size_t offset,
                           std::vector<std::uint32_t> const& lengths, ew::ragged_shape const& shape,
                           unsigned seed, Make const& make) {
  ww::stream s;
  auto const x = scores(rows, cols, lengths, seed);
  guarded<float> in{x, offset};
  guarded<float> out{std::vector<float>(rows * cols, untouched), offset};
  ew::run_rows(s, shape, ew::out(out.data(), rows * cols) = make(ew::in(in.data(), rows * cols)));
  auto const got = out.fetch(s);
  if (!out.intact(s)) return ~std::size_t{0};
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    std::size_t const length = lengths[r] < cols ? lengths[r] : cols;
    std::vector<double> values(x.begin() + static_cast<std::ptrdiff_t>(r * cols),
                               x.begin() + static_cast<std::ptrdiff_t>(r * cols + length));
    for (std::size_t c = length; c < cols; ++c) wrong += got[r * cols + c] != untouched;
    if (length == 0) continue;
    exact_row const e = kernel_test::exactly(f, values.data(), length, 1e-5);
    for (std::size_t c = 0; c < length; ++c) {
      double const off = std::fabs(static_cast<double>(got[r * cols + c]) - e.result[c]);
      wrong += !(off <= kernel_test::bound<float, float>(f, e, c, values[c]));
    }
  }
  return wrong;
}

auto const softmax = [](auto const& x) { return ew::softmax(x); };
auto const layer_norm = [](auto const& x) { return ew::layer_norm(x, 1e-5); };

TEST_CASE("causal rows are as long as their query's number") {
  for (std::size_t const cols : {1U, 4U, 7U, 8U, 64U, 100U, 1024U, 1030U}) {
    std::size_t const queries = cols, rows = 2 * queries;
    if (rows * cols > 300000) continue;
    std::vector<std::uint32_t> lengths;
    for (std::size_t r = 0; r < rows; ++r) {
      lengths.push_back(static_cast<std::uint32_t>(r % queries + 1));
    }
    for (std::size_t const offset : {0U, 3U}) {
      CAPTURE(cols, offset);
      CHECK(wrong_elements(function::softmax, rows, cols, offset, lengths,
                           ew::causal({rows, cols}, queries), 7, softmax) == 0);
    }
  }
  // Of a decoder that has had 30 tokens before these 4.
  std::vector<std::uint32_t> const later{31, 32, 33, 34, 31, 32, 33, 34};
  CHECK(wrong_elements(function::softmax, 8, 34, 0, later, ew::causal({8, 34}, 4, 31), 8,
                       softmax) == 0);
}

TEST_CASE("lengths are read from memory: any, none, and more than there are columns") {
  ww::stream s;
  std::vector<std::uint32_t> const lengths{0, 1, 5, 4000, 9999, 20000, 0xffffffff, 3};
  for (std::size_t const cols : {4096U, 9000U, 20000U}) {  // in registers, and streamed
    device_array<std::uint32_t> const there{lengths};
    s.synchronize();
    ew::ragged_shape const shape{{lengths.size(), cols}, there.data()};
    CAPTURE(cols);
    CHECK(wrong_elements(function::softmax, lengths.size(), cols, 0, lengths, shape, 9, softmax) ==
          0);
    CHECK(wrong_elements(function::layer_norm, lengths.size(), cols, 1, lengths, shape, 10,
                         layer_norm) == 0);
  }
}

TEST_CASE("random lengths") {
  unsigned const seed = std::random_device{}();
  std::mt19937 random{seed};
  CAPTURE(seed);
  for (int i = 0; i < 20; ++i) {
    std::size_t const rows = 1 + random() % 40, cols = 1 + random() % 700, offset = random() % 4;
    std::vector<std::uint32_t> lengths;
    for (std::size_t r = 0; r < rows; ++r) {
      lengths.push_back(static_cast<std::uint32_t>(random() % (cols + 2)));
    }
    device_array<std::uint32_t> const there{lengths};
    CAPTURE(rows, cols, offset);
    REQUIRE(wrong_elements(function::layer_norm, rows, cols, offset, lengths,
                           {{rows, cols}, there.data()}, seed + 1, layer_norm) == 0);
  }
}

// How many sums, means, maxima and columns of these are not those of the rows' own elements.
std::size_t wrong_reductions(std::size_t rows, std::size_t cols, std::size_t offset,
                             std::vector<std::uint32_t> const& lengths,
                             ew::ragged_shape const& shape) {
  ww::stream s;
  auto x = scores(rows, cols, lengths, 11);
  for (float& v : x) v = std::rint(v * 4);  // whole numbers, whose sums are exact
  guarded<float> const in{x, offset}, sums{rows}, means{rows}, most{rows};
  guarded<int> const at{rows};
  auto const e = ew::in(in.data(), x.size());
  ew::reduce_rows(s, shape, ew::to(sums.data()) = ew::sum(e), ew::to(means.data()) = ew::mean(e),
                  ew::to(most.data()) = ew::max(e), ew::to(at.data()) = ew::argmax(e));
  auto const sum = sums.fetch(s), mean = means.fetch(s), largest = most.fetch(s);
  auto const where = at.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    std::size_t const length = lengths[r] < cols ? lengths[r] : cols;
    float total = 0, max = -std::numeric_limits<float>::infinity();
    int column = -1;
    for (std::size_t c = 0; c < length; ++c) {
      float const v = x[r * cols + c];
      total += v;
      if (v > max) column = static_cast<int>(c), max = v;
    }
    float const expected = static_cast<float>(double{total} / static_cast<double>(length));
    wrong += sum[r] != total || largest[r] != max || where[r] != column;
    wrong += length == 0 ? !std::isnan(mean[r]) : mean[r] != expected;
  }
  return wrong;
}

TEST_CASE("reductions of rows with lengths of their own") {
  std::vector<std::uint32_t> const lengths{0, 1, 5, 4000, 9999, 20000, 0xffffffff, 3};
  device_array<std::uint32_t> const there{lengths};
  for (std::size_t const cols : {1U, 3U, 64U, 1027U, 9000U, 40000U}) {
    for (std::size_t const offset : {0U, 1U}) {
      CAPTURE(cols, offset);
      CHECK(wrong_reductions(8, cols, offset, lengths, {{8, cols}, there.data()}) == 0);
    }
  }
  CHECK(wrong_reductions(6, 5, 0, {2, 3, 4, 2, 3, 4}, ew::causal({6, 5}, 3, 2)) == 0);
  std::vector<float> const x(6, 2.0F);
  float sums[2];
  ew::reduce_rows_host(ew::causal({2, 3}, 2), ew::to(sums) = ew::sum(ew::in(x.data(), 6)));
  CHECK((sums[0] == 2 && sums[1] == 4));
}

TEST_CASE("lengths at a null pointer and heads without queries are refused") {
  CHECK_THROWS_WITH((ew::ragged_shape{{3, 4}, nullptr}), contains("lengths of 3 rows"));
  CHECK_THROWS_WITH(ew::causal({3, 4}, 0), contains("0 queries"));
  CHECK_THROWS_WITH(ew::causal({3, 4}, ~0ULL), contains("18446744073709551615 queries"));
}

}  // namespace
