// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Cross-entropies with their gradients, one_hot() and input_at(), against fp64.
#include <warpwright/kernel/describe.hpp>
#include <warpwright/kernel/explain.hpp>
#include <warpwright/kernel/indices.hpp>

#include "kernel/rows_support.hpp"
#include "kernel/sweep.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;

namespace {
// Losses with a weight a row, and gradients beside or in place of the logits. A target of -1 is
// ignored, for another that is no column of the row the logit is 0. Ragged rows have lengths.
template <class T, class I>
void check(std::size_t rows, std::size_t cols, std::size_t offset, bool in_place,
           std::vector<std::uint32_t> const& lengths = {}) {
  CAPTURE(rows, cols, offset, in_place, sizeof(T), sizeof(I));
  ww::stream s;
  std::size_t const n = rows * cols;
  auto logits = kernel_test::random_values<T>(n, -4, 8, n);
  kernel_test::random_numbers random{n};
  std::vector<I> targets(rows);
  std::vector<float> weights(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    std::size_t const which[] = {0, ~std::size_t{0}, random.below(cols),
                                 cols + r};  // 0: stored first
    targets[r] = static_cast<I>(which[r % 4]);
    weights[r] = static_cast<float>(random.unit());
    std::size_t const least = r == 2 ? static_cast<std::size_t>(targets[r]) : random.below(cols);
    if (r % 3 == 2 && cols > 2) logits[r * cols + least] = kernel_test::number<T>(-INFINITY);
  }
  guarded<T> const x{logits, offset}, beside{n, offset};
  guarded<I> const t{targets};
  guarded<float> const w{weights}, loss{rows};
  guarded<std::uint32_t> const l{lengths};
  T* const dx = in_place ? x.data() : beside.data();
  auto const k = ew::col(t.data(), cols);
  auto const weight = ew::where(k != static_cast<I>(-1), ew::col(w.data(), cols), 0.0F);
  auto const p = ew::softmax(ew::in(x.data(), n));
  auto const run = [&](auto const& shape) {
    ew::run_rows(s, shape, ew::out(dx, n) = (p - ew::one_hot(k)) * weight,
                 ew::out(loss.data(), rows) = (p.log_sum_exp() - p.input_at(k)) * weight);
  };
  lengths.empty() ? run(ew::matrix_shape{rows, cols})
                  : run(ew::ragged_shape{{rows, cols}, l.data()});
  auto const got = in_place ? x.fetch(s) : beside.fetch(s);
  auto const losses = loss.fetch(s);
  CHECK((x.intact(s) && loss.intact(s) && (in_place || beside.intact(s))));
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    std::size_t const length = lengths.empty() ? cols : lengths[r];
    std::vector<double> exact(length);
    for (std::size_t c = 0; c < length; ++c) exact[c] = as_double(logits[r * cols + c]);
    auto const e = kernel_test::exactly(kernel_test::function::softmax, exact.data(), length);
    auto const target = static_cast<std::size_t>(targets[r]);
    bool const ignored = targets[r] == static_cast<I>(-1);
    double const by = ignored ? 0 : as_double(weights[r]);
    double const unit = 0x1p-23 * (static_cast<double>(length) / 2000 + 32);
    auto const off = [&](double v, double want, double half_ulp) {
      return !(v == want || std::fabs(v - want) <= unit + (unit + half_ulp) * std::fabs(want));
    };
    for (std::size_t c = 0; c < length; ++c) {
      double const want = (e.result[c] - (c == target ? 1 : 0)) * by;
      wrong += off(as_double(got[r * cols + c]), want, kernel_test::half_ulp<T>());
    }
    double const nll = e.log_sum_exp - (target < length ? exact[target] : 0);
    wrong += off(as_double(losses[r]), ignored ? 0 : nll * by, 0);
  }
  CHECK(wrong == 0);
}

TEST_CASE("cross-entropies and their gradients from logits and targets") {
  for (unsigned const k : {0U, 1U, 2U, 3U}) {
    bool const in_place = k / 2 != 0;
    std::size_t const offset = k % 2;
    check<float, long long>(9, 1, offset, in_place);
    check<float, int>(67, 10, offset, in_place);
    check<__nv_bfloat16, long long>(33, 257, offset, in_place);
    check<__half, std::uint16_t>(12, 1024, offset, in_place);
    check<float, int>(11, 4099, offset, in_place);
    std::vector<std::uint32_t> const lengths{3, 500, 1, 77, 999, 1000, 12};
    check<float, int>(lengths.size(), 1000, offset, in_place, lengths);
    if (kernel_test::sanitized) continue;
    check<__nv_bfloat16, int>(lengths.size(), 20000, offset, in_place, lengths);
    check<double, int>(6, 5001, offset, in_place);  // streamed
    check<__nv_bfloat16, long long>(6, 50257, offset, in_place);
    check<float, int>(1, 70001, offset, in_place);  // and read twice
  }
}

TEST_CASE("classes have weights, and labels are smoothed") {
  ww::stream s;
  guarded<float> const x{std::vector<float>{0, 1, 2, 3}}, y{4}, loss{1};
  guarded<float> const classes{std::vector<float>{1, 2, 4, 8}}, scale{std::vector<float>{0.5F}};
  guarded<int> const t{std::vector<int>{3}};
  auto const k = ew::col(t.data(), 4);
  auto const p = ew::log_softmax(ew::in(x.data(), 4) * 2.0F);
  auto const weight = ew::gather(ew::in(classes.data(), 4), k) * ew::device_scalar(scale.data());
  ew::run_rows(s, {1, 4},  // the first output need not be the matrix
               ew::out(loss.data(), 1) = weight * (p.log_sum_exp() - p.input_at(k)),
               ew::out(y.data(), 4) = p * (ew::one_hot(k) * 0.5 + 0.125));
  auto const got = y.fetch(s), losses = loss.fetch(s);
  double const sum = std::log(1 + std::exp(2.0) + std::exp(4.0) + std::exp(6.0));
  CHECK(std::fabs(losses[0] - (sum - 6) * 4) <= 1e-5);
  CHECK(std::fabs(got[2] - (4 - sum) * 0.125) + std::fabs(got[3] - (6 - sum) * 0.625) <= 1e-5);
}

TEST_CASE("one_hot() in run() knows rows that are no whole vectors") {
  for (std::size_t const cols : {1U, 3U, 8U, 21U}) {
    std::size_t const n = 40 * cols;
    std::vector<signed char> targets(40);
    signed char next = -1;
    for (signed char& k : targets) k = next++ % 22;
    guarded<signed char> const t{targets};
    guarded<__half> const y{n, 1};
    kernel_test::evaluate(ew::out(y.data(), n) = ew::one_hot(ew::col(t.data(), cols)));
    for (std::size_t i = 0; i < n; ++i) {
      bool const hot = targets[i / cols] == static_cast<int>(i % cols);
      if (as_double(y.data()[i]) != (hot ? 1 : 0)) FAIL(cols << " columns, element " << i);
    }
  }
}

TEST_CASE("what a loss reads is described and checked") {
  ww::stream s;
  guarded<float> const x{64}, y{64}, loss{8};
  guarded<int> const t{8};
  auto const k = ew::col(t.data(), 8);
  auto const p = ew::softmax(ew::in(x.data(), 64));
  CHECK(ew::describe(p.log_sum_exp() - p.input_at(k)) ==
        "softmax(in f32[64]).log_sum_exp() - softmax(in f32[64]).input_at(col i32[n/8])");
  CHECK(ew::describe(ew::one_hot(k)) == "one_hot(col i32[n/8])");
  CHECK(ew::plan(ew::out(y.data(), 64) = ew::one_hot(k)).bytes_read() == 8 * sizeof(int));
  float* const over = reinterpret_cast<float*>(t.data());
  CHECK_THROWS_WITH(
      ew::run_rows(s, {8, 8}, ew::out(y.data(), 64) = p, ew::out(over, 8) = p.input_at(k)),
      contains("statistic 1 overlaps an array"));
  auto const other = ew::softmax(ew::in(y.data(), 64)).input_at(k);
  CHECK_THROWS_WITH(
      ew::run_rows(s, {8, 8}, ew::out(y.data(), 64) = p, ew::out(loss.data(), 8) = other),
      contains("several functions"));
}

}  // namespace
