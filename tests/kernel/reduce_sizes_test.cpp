// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_rows() and reduce_cols() of numbers of columns, and of rows, around vectors and warps, and
// with every array of theirs at every offset from a boundary of 256 bytes. The values are small
// integers, so that sums are exact and results are compared as such. Results are poisoned, with
// guards on both sides.
#include <warpwright/kernel/reduce_matrix.hpp>
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
using kernel_test::guarded;
using kernel_test::most_size;

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

// Matrices of one array, and arrays for the results of their lines.
template <along Along, class T>
class matrices {
 public:
  static constexpr std::uint64_t seed = 161;

  void check(std::size_t rows, std::size_t cols) {
    std::size_t const n = rows * cols;
    kernel_test::some_offsets<4> const at{rows + cols, random_};
    CAPTURE(rows, cols, at.of[0], at.of[1], at.of[2], at.of[3]);
    std::vector<T> const operand = first_of(values_, n);
    auto const x = ew::in(static_cast<T const*>(in_.assign(operand, at.of[0])), n);
    auto const sum = ew::to(sums_.clear(at.of[1])) = ew::sum(x);
    auto const most = ew::to(most_.clear(at.of[2])) = ew::max(x);
    auto const least_at = ew::to(least_at_.clear(at.of[3])) = ew::argmin(x);
    if constexpr (Along == along::rows) {
      ew::reduce_rows(stream_, {rows, cols}, sum, most, least_at);
    } else {
      ew::reduce_cols(stream_, pool_, {rows, cols}, sum, most, least_at);
    }
    stream_.synchronize();
    expectation const e = Along == along::rows
                              ? expected_of<T>(doubles_.data(), rows, cols, cols, 1)
                              : expected_of<T>(doubles_.data(), cols, 1, rows, cols);
    REQUIRE(sums_.holds(e.sums));
    REQUIRE(most_.holds(e.most));
    REQUIRE(least_at_.holds(e.least_at));
    REQUIRE(in_.holds(operand));
  }

 private:
  static constexpr std::size_t most_elements = 3 * most_size;
  std::vector<T> values_ = kernel_test::small_integers<T>(most_elements, 30, seed);
  std::vector<double> doubles_ = as_doubles(values_);
  guarded<T> in_{most_elements};
  guarded<double> sums_{most_size}, most_{most_size};
  guarded<std::uint64_t> least_at_{most_size};
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

enum array : std::size_t { input, row_operand, col_operand, sums, most, least_at, arrays };

// Lines of x + row - col with each array at every offset alone, the operands at the same offset,
// the results at the same, and all at the same.
template <along Along, class X, class R, class C>
void check_offsets(std::size_t rows, std::size_t cols) {
  std::uint64_t const seed = 171;
  INFO("seed " << seed);
  std::size_t const n = rows * cols;
  auto const x = kernel_test::small_integers<X>(n, 30, seed);
  auto const r = kernel_test::small_integers<R>(cols, 9, seed + 1);
  auto const c = kernel_test::small_integers<C>(rows, 9, seed + 2);
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) {
    values.push_back(as_double(x[i]) + as_double(r[i % cols]) - as_double(c[i / cols]));
  }
  std::size_t const lines = Along == along::rows ? rows : cols;
  expectation const e = Along == along::rows
                            ? expected_of<double>(values.data(), rows, cols, cols, 1)
                            : expected_of<double>(values.data(), cols, 1, rows, cols);
  guarded<X> const in_x{n};
  guarded<R> const in_r{cols};
  guarded<C> const in_c{rows};
  guarded<double> const to_sums{lines}, to_most{lines};
  guarded<std::uint64_t> const to_least_at{lines};
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  unsigned const operands = 7, results = 56;  // as bits
  for (std::size_t offset = 0; offset < kernel_test::most_offset;
       offset += kernel_test::offset_step) {
    for (unsigned const which : {1U, 2U, 4U, 8U, 16U, 32U, operands, results, operands | results}) {
      std::size_t at[arrays];
      for (std::size_t k = 0; k < arrays; ++k) at[k] = (which >> k & 1U) != 0 ? offset : 0;
      CAPTURE(rows, cols, offset, which);
      auto const sum = ew::in(in_x.assign(x, at[input]), n) +
                       ew::row(in_r.assign(r, at[row_operand]), cols) -
                       ew::col(in_c.assign(c, at[col_operand]), cols);
      auto const a = ew::to(to_sums.clear(at[sums])) = ew::sum(sum);
      auto const b = ew::to(to_most.clear(at[most])) = ew::max(sum);
      auto const c_at = ew::to(to_least_at.clear(at[least_at])) = ew::argmin(sum);
      if constexpr (Along == along::rows) {
        // One by one: three times three arrays are too many for registers.
        ew::reduce_rows(s, {rows, cols}, a);
        ew::reduce_rows(s, {rows, cols}, b);
        ew::reduce_rows(s, {rows, cols}, c_at);
      } else {
        ew::reduce_cols(s, pool, {rows, cols}, a, b, c_at);
      }
      s.synchronize();
      REQUIRE(to_sums.holds(e.sums));
      REQUIRE(to_most.holds(e.most));
      REQUIRE(to_least_at.holds(e.least_at));
      REQUIRE((in_x.holds(x) && in_r.holds(r)));
      REQUIRE(in_c.holds(c));
    }
  }
}

// Rows of whole vectors of all widths and of none, one column, and so many rows that they are
// split.
template <along Along, class X, class R, class C>
void check_offsets() {
  check_offsets<Along, X, R, C>(7, 64);
  check_offsets<Along, X, R, C>(5, 33);
  check_offsets<Along, X, R, C>(100, 1);
  check_offsets<Along, X, R, C>(1, 100);
  if (kernel_test::sanitized && Along == along::rows) return;  // never split
  check_offsets<Along, X, R, C>(2500, 8);
  check_offsets<Along, X, R, C>(3000, 3);
}

}  // namespace

TEST_CASE("numbers of rows and columns around vectors and warps: reduce_rows") {
  check_sizes<along::rows, float>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_sizes<along::rows, unsigned char>();
#endif
}
TEST_CASE("numbers of rows and columns around vectors and warps: reduce_cols") {
  check_sizes<along::cols, float>();
  check_sizes<along::cols, unsigned char>();
}

TEST_CASE("every offset of every array") {
  check_offsets<along::cols, unsigned char, unsigned char, unsigned char>();
  check_offsets<along::cols, __nv_bfloat16, float, short>();
  check_offsets<along::rows, float, float, float>();
  check_offsets<along::rows, __nv_bfloat16, float, short>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_offsets<along::cols, float, float, float>();
  check_offsets<along::cols, __half, __half, __half>();
  check_offsets<along::rows, __half, __half, __half>();
  check_offsets<along::rows, unsigned char, unsigned char, unsigned char>();
#endif
}
