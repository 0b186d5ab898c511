// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_rows() and reduce_cols() of every number of columns, and of rows, from 0 to 4,096. The
// values are small integers, so that sums are exact and results are compared as such. Results are
// poisoned, with guards on both sides.
#include <warpwright/kernel/reduce_cols.hpp>
#include <warpwright/kernel/reduce_rows.hpp>
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::first_of;
using kernel_test::most_size;
using kernel_test::room;

namespace {

enum class along { rows, cols };

// What the lines of a matrix have for sums, extremes and places.
struct expectation {
  std::vector<double> sums, most;
  std::vector<std::uint64_t> least_at;
};
template <class T>
expectation expected_of(double const* x, std::size_t lines, std::size_t line_stride,
                        std::size_t length, std::size_t stride) {
  expectation e;
  for (std::size_t line = 0; line < lines; ++line) {
    double const* const v = x + line * line_stride;
    using limits = std::numeric_limits<T>;
    double const none = limits::has_infinity ? -HUGE_VAL : static_cast<double>(limits::lowest());
    double sum = 0, most = none, least = HUGE_VAL;
    std::uint64_t least_at = ew::no_index;
    for (std::size_t k = 0; k < length; ++k) {
      double const value = v[k * stride];
      sum += value;
      if (value > most) most = value;
      if (value < least) least = value, least_at = k;
    }
    e.sums.push_back(sum);
    e.most.push_back(most);
    e.least_at.push_back(least_at);
  }
  return e;
}

// Matrices of one array, and rooms for what is made of their lines.
template <along Along, class T>
class matrices {
 public:
  static constexpr std::uint64_t seed = 161;

  void check(std::size_t rows, std::size_t cols) {
    std::size_t const n = rows * cols;
    kernel_test::some_offsets<4> const at{rows + cols, random_};
    CAPTURE(rows, cols, at.of[0], at.of[1], at.of[2], at.of[3]);
    std::vector<T> const operand = first_of(values_, n);
    auto const x = ew::in(static_cast<T const*>(in_.holding(operand, at.of[0])), n);
    auto const sum = ew::to(sums_.poisoned(at.of[1])) = ew::sum(x);
    auto const most = ew::to(most_.poisoned(at.of[2])) = ew::max(x);
    auto const least_at = ew::to(least_at_.poisoned(at.of[3])) = ew::argmin(x);
    if constexpr (Along == along::rows) {
      ew::reduce_rows(stream_, {rows, cols}, sum, most, least_at);
    } else {
      ew::reduce_cols(stream_, pool_, {rows, cols}, sum, most, least_at);
    }
    stream_.synchronize();
    expectation const e = Along == along::rows
                              ? expected_of<T>(doubles_.data(), rows, cols, cols, 1)
                              : expected_of<T>(doubles_.data(), cols, 1, rows, cols);
    REQUIRE(sums_.holds(e.sums, at.of[1]));
    REQUIRE(most_.holds(e.most, at.of[2]));
    REQUIRE(least_at_.holds(e.least_at, at.of[3]));
    REQUIRE(in_.holds(operand, at.of[0]));
  }

 private:
  static constexpr std::size_t room_for = 3 * most_size;
  std::vector<T> values_ = kernel_test::small_integers<T>(room_for, 30, seed);
  std::vector<double> doubles_ = as_doubles(values_);
  room<T> in_{room_for};
  room<double> sums_{most_size}, most_{most_size};
  room<std::uint64_t> least_at_{most_size};
  kernel_test::random_numbers random_{seed};
  ww::stream stream_;
  ww::memory_pool pool_{ww::device_id{0}};

  static std::vector<double> as_doubles(std::vector<T> const& x) {
    std::vector<double> d;
    for (T const& v : x) d.push_back(as_double(v));
    return d;
  }
};

template <along Along, class T>
void check_sizes() {
  matrices<Along, T> m;
  INFO("seed " << m.seed);
  for (std::size_t n = 0; n <= most_size; n = kernel_test::next_size(n)) {
    std::size_t const few = 1 + n / 2 % 3;
    m.check(few, n);
    m.check(n, few);
  }
}

}  // namespace

TEST_CASE("every number of rows and of columns from 0 to 4096: reduce_rows") {
  check_sizes<along::rows, float>();
  check_sizes<along::rows, unsigned char>();
}
TEST_CASE("every number of rows and of columns from 0 to 4096: reduce_cols") {
  check_sizes<along::cols, float>();
  check_sizes<along::cols, unsigned char>();
}
