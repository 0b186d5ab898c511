// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// softmax(), layer_norm() and rms_norm() of a sum, scaled and shifted, with every array at every
// offset from a boundary of 256 bytes. Outputs are poisoned, with guards on both sides.
#include "kernel/rows_support.hpp"
#include "kernel/sweep.hpp"

#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::exact_row;
using kernel_test::function;
using kernel_test::guarded;
using kernel_test::half_ulp;
using kernel_test::number;
using kernel_test::random_values;
using kernel_test::smallest_step;
using kernel_test::test_eps;

namespace {

using kernel_test::most_offset;
constexpr std::size_t rows = 3;

enum array : std::size_t { input, residual, gamma, beta, sum, result, statistic, arrays };

// Two matrices, a scale and a shift, and the sums of the matrices as both runtimes add them, in the
// type in which rows of T are computed.
template <class T>
struct problem {
  using real = std::conditional_t<std::is_same<T, double>::value, double, float>;
  problem(std::size_t width, std::uint64_t seed)
      : cols{width},
        x{random_values<T>(rows * cols, -2, 4, seed)},
        r{random_values<T>(rows * cols, -2, 4, seed + 1)},
        g{random_values<T>(cols, 0.5, 1, seed + 2)},
        b{random_values<T>(cols, -1, 2, seed + 3)} {
    for (std::size_t i = 0; i < rows * cols; ++i) {
      sums.push_back(static_cast<double>(static_cast<real>(as_double(x[i])) +
                                         static_cast<real>(as_double(r[i]))));
    }
  }
  std::size_t cols;
  std::vector<T> x, r, g, b;
  std::vector<double> sums;
};

// A row function by its name, its statistic, and the exact one.
template <function F, class E>
auto made_of(E const& e) {
  if constexpr (F == function::softmax) return ew::softmax(e);
  if constexpr (F == function::layer_norm) return ew::layer_norm(e, test_eps);
  if constexpr (F == function::rms_norm) return ew::rms_norm(e, test_eps);
}
template <function F, class E>
auto number_of(E const& f) {
  if constexpr (F == function::softmax) return f.log_sum_exp();
  if constexpr (F == function::layer_norm) return f.mean();
  if constexpr (F == function::rms_norm) return f.rstd();
}
template <function F>
double exact_number_of(exact_row const& e) {
  return F == function::softmax ? e.log_sum_exp : F == function::layer_norm ? e.mean : e.rstd;
}

// The expected outputs, and their tolerances: the function's own error, the roundings of product
// and sum, and that of the output.
struct expectation {
  std::vector<double> sums, results, slack, numbers, numbers_slack;
};
template <function F, class T>
expectation expected_of(problem<T> const& p) {
  using real = typename problem<T>::real;
  expectation want;
  for (std::size_t row = 0; row < rows; ++row) {
    exact_row const e = kernel_test::exactly(F, p.sums.data() + row * p.cols, p.cols);
    for (std::size_t c = 0; c < p.cols; ++c) {
      std::size_t const i = row * p.cols + c;
      double const scale = as_double(p.g[c]), shift = as_double(p.b[c]);
      double const result = e.result[c] * scale + shift;
      double const slack = kernel_test::bound<real, real>(F, e, c, p.sums[i]) * scale +
                           4 * half_ulp<real>() * (std::fabs(result) + std::fabs(shift));
      want.sums.push_back(as_double(number<T>(p.sums[i])));
      want.results.push_back(result);
      want.slack.push_back(slack + half_ulp<T>() * (std::fabs(result) + slack) +
                           smallest_step<T>());
    }
    double const of_row = exact_number_of<F>(e);
    want.numbers.push_back(of_row);
    want.numbers_slack.push_back(200 * half_ulp<real>() * (std::fabs(of_row) + e.magnitude));
  }
  return want;
}

// The number of elements outside their tolerance.
template <class T>
std::size_t wrong_in(std::vector<T> const& got, std::vector<double> const& want,
                     std::vector<double> const& slack) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    wrong += !(std::fabs(as_double(got[i]) - want[i]) <= slack[i]);
  }
  return wrong;
}

template <function F, class T>
void check_at(ww::stream& s, problem<T> const& p, expectation const& want,
              std::size_t const (&at)[arrays]) {
  using real = typename problem<T>::real;
  std::size_t const n = rows * p.cols;
  guarded<T> const dx{p.x, at[input]}, dr{p.r, at[residual]}, dg{p.g, at[gamma]}, db{p.b, at[beta]};
  guarded<T> const h{n, at[sum]}, y{n, at[result]};
  guarded<real> const numbers{rows, at[statistic]};
  auto const f = made_of<F>(ew::in(dx.data(), n) + ew::in(dr.data(), n));
  ew::run_rows(s, {rows, p.cols}, ew::out(h.data(), n) = f.input(),
               ew::out(y.data(), n) = f * ew::row(dg.data(), p.cols) + ew::row(db.data(), p.cols),
               ew::out(numbers.data(), rows) = number_of<F>(f));
  CAPTURE(static_cast<int>(F));
  REQUIRE(wrong_in(h.fetch(s), want.sums, std::vector<double>(n, 0.0)) == 0);
  REQUIRE(wrong_in(y.fetch(s), want.results, want.slack) == 0);
  REQUIRE(wrong_in(numbers.fetch(s), want.numbers, want.numbers_slack) == 0);
  REQUIRE((h.intact(s) && y.intact(s) && numbers.intact(s)));
  REQUIRE((dx.intact(s) && dr.intact(s) && dg.intact(s) && db.intact(s)));
}

template <function F, class T>
void check_offsets(problem<T> const& p) {
  ww::stream s;
  expectation const want = expected_of<F>(p);
  for (std::size_t offset = 0; offset < most_offset; offset += kernel_test::offset_step) {
    // One array misaligned, then all; of long rows one array and all.
    for (std::size_t which = 0; which <= arrays; ++which) {
      if (p.cols > 1000 && which != offset % arrays && which != arrays) continue;
      std::size_t at[arrays];
      for (std::size_t k = 0; k < arrays; ++k) at[k] = which == k || which == arrays ? offset : 0;
      CAPTURE(p.cols, offset, which);
      check_at<F>(s, p, want, at);
    }
  }
}

template <class T>
void check_type() {
  std::uint64_t seed = 111;
  // Rows of a warp, of a block, and streamed ones; of whole vectors and not.
  for (std::size_t const cols : {7U, 64U, 129U, 1000U, 4104U, 12000U, 20011U}) {
    INFO("seed " << seed);
    problem<T> const p{cols, seed};
    check_offsets<function::softmax>(p);
    check_offsets<function::layer_norm>(p);
    check_offsets<function::rms_norm>(p);
    seed += 4;
  }
}

}  // namespace

TEST_CASE("functions of rows at every offset of every array: float") { check_type<float>(); }
TEST_CASE("functions of rows at every offset of every array: __half") { check_type<__half>(); }
#if WARPWRIGHT_TEST_EVERY_TYPE
TEST_CASE("functions of rows at every offset of every array: double") { check_type<double>(); }
#endif
TEST_CASE("functions of rows at every offset of every array: __nv_bfloat16") {
  check_type<__nv_bfloat16>();
}
