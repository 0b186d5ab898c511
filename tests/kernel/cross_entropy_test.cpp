// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Cross-entropies and their gradients as one kernel: one_hot(), input_at() and expressions of one
// number a row, against fp64.
#include <warpwright/kernel/describe.hpp>
#include <warpwright/kernel/explain.hpp>
#include <warpwright/kernel/indices.hpp>

#include "kernel/rows_support.hpp"
#include "kernel/sweep.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::number;
using kernel_test::refusal;

namespace {

// Losses with a weight a row, and gradients beside or in place of the logits.
// @param target   the row's column; -1 is ignored, another that is not in the row counts as a
//   logit of 0
// @param lengths  of ragged rows, or none
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
    targets[r] = static_cast<I>(r % 5 == 3 ? cols + r : random.below(cols));
    if (r % 5 == 1) targets[r] = static_cast<I>(-1);
    weights[r] = static_cast<float>(random.unit());
    if (r % 3 == 2 && cols > 2) logits[r * cols + random.below(cols)] = number<T>(-INFINITY);
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
    for (std::size_t c = 0; c < length; ++c) {
      double const want = (e.result[c] - (c == target ? 1 : 0)) * by;
      double const error = std::fabs(as_double(got[r * cols + c]) - want);
      wrong += !(error <= unit + kernel_test::half_ulp<T>() * std::fabs(want));
    }
    double const logit = target < length ? exact[target] : 0;
    double const want = ignored ? 0 : (e.log_sum_exp - logit) * by;
    double const error = std::fabs(as_double(losses[r]) - want);
    wrong += !(as_double(losses[r]) == want || error <= unit * (1 + std::fabs(want)));
  }
  CHECK(wrong == 0);
}

TEST_CASE("cross-entropies and their gradients from logits and targets") {
  for (bool const in_place : {false, true}) {
    for (std::size_t const offset : {0U, 1U}) {
      check<float, int>(1, 1000, offset, in_place);
      check<float, long long>(9, 1, offset, in_place);
      check<float, int>(67, 10, offset, in_place);
      check<__nv_bfloat16, long long>(33, 257, offset, in_place);
      check<__half, std::uint16_t>(12, 1024, offset, in_place);
      check<float, int>(11, 4099, offset, in_place);
      check<__nv_bfloat16, int>(6, 8192, offset, in_place);
      if (kernel_test::sanitized) continue;
      check<double, int>(6, 5001, offset, in_place);
      check<__nv_bfloat16, long long>(6, 50257, offset, in_place);  // streamed
      check<float, int>(6, 32768, offset, in_place);
      check<float, int>(2, 70001, offset, in_place);  // and read twice
    }
    std::vector<std::uint32_t> const lengths{3, 500, 1, 77, 999, 1000, 12};
    check<float, int>(lengths.size(), 1000, 0, in_place, lengths);
    check<__nv_bfloat16, int>(lengths.size(), 20000, 3, in_place, lengths);
  }
}

TEST_CASE("classes have weights, and labels are smoothed") {
  ww::stream s;
  std::size_t const rows = 3, cols = 4, n = 12;
  guarded<float> const x{std::vector<float>{0, 1, 2, 3, 1, 1, 1, 1, 5, 0, 0, 0}}, y{n}, loss{rows};
  guarded<float> const classes{std::vector<float>{1, 2, 4, 8}}, scale{std::vector<float>{0.5F}};
  guarded<int> const t{std::vector<int>{3, 0, 1}};
  auto const k = ew::col(t.data(), cols);
  auto const p = ew::log_softmax(ew::in(x.data(), n) * 2.0F);
  ew::run_rows(s, {rows, cols},  // the first output need not be the matrix
               ew::out(loss.data(), rows) = ew::gather(ew::in(classes.data(), cols), k) *
                                            (p.log_sum_exp() - p.input_at(k)) *
                                            ew::device_scalar(scale.data()),
               ew::out(y.data(), n) = p * (ew::one_hot(k) * 0.5 + 0.125));
  auto const got = y.fetch(s), losses = loss.fetch(s);
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    auto const target = static_cast<std::size_t>(t.fetch(s)[r]);
    auto const logit = [&](std::size_t c) { return 2 * as_double(x.fetch(s)[r * cols + c]); };
    for (std::size_t c = 0; c < cols; ++c) sum += std::exp(logit(c));
    for (std::size_t c = 0; c < cols; ++c) {
      double const want = (logit(c) - std::log(sum)) * (c == target ? 0.625 : 0.125);
      CHECK(std::fabs(as_double(got[r * cols + c]) - want) <= 1e-5);
    }
    double const want = (std::log(sum) - logit(target)) * 0.5 * as_double(classes.fetch(s)[target]);
    CHECK(std::fabs(as_double(losses[r]) - want) <= 1e-5);
  }
}

TEST_CASE("one_hot() in run() knows rows that are no whole vectors") {
  for (std::size_t const cols : {1U, 3U, 8U, 21U}) {
    std::size_t const rows = 40, n = rows * cols;
    std::vector<signed char> targets(rows);
    for (std::size_t r = 0; r < rows; ++r) targets[r] = static_cast<signed char>(r % 23) - 1;
    guarded<signed char> const t{targets};
    guarded<__half> const y{n, 1};
    kernel_test::evaluate(ew::out(y.data(), n) = ew::one_hot(ew::col(t.data(), cols)));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      wrong += as_double(y.data()[i]) != (targets[i / cols] == static_cast<int>(i % cols) ? 1 : 0);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("what a loss reads is described and checked") {
  ww::stream s;
  guarded<float> const x{64}, y{64}, loss{8};
  guarded<int> const t{8};
  auto const k = ew::col(static_cast<int const*>(t.data()), 8);
  auto const p = ew::softmax(ew::in(x.data(), 64));
  CHECK(ew::describe(ew::out(loss.data(), 8) = p.log_sum_exp() - p.input_at(k)) ==
        "out f32[8] = softmax(in f32[64]).log_sum_exp() - softmax(in f32[64]).input_at(col "
        "i32[n/8])");
  auto const hot = ew::out(y.data(), 64) = ew::one_hot(k);
  CHECK(ew::describe(hot) == "out f32[64] = one_hot(col i32[n/8])");
  CHECK(ew::plan(hot).bytes_read() == 8 * sizeof(int));
  auto const text = [&](auto const& a) {
    return refusal([&] { ew::run_rows(s, {8, 8}, ew::out(y.data(), 64) = p, a); });
  };
  CHECK_THAT(text(ew::out(loss.data(), 7) = p.input_at(k) * 2.0F), contains("goes to 7 elements"));
  CHECK_THAT(text(ew::out(reinterpret_cast<float*>(t.data()), 8) = p.input_at(k)),
             contains("statistic 1 overlaps an array"));
  CHECK_THAT(text(ew::out(loss.data(), 8) = p.input_at(ew::col(t.data() + 99, 0))),
             contains("(col) has cols = 0"));
  CHECK_THAT(text(ew::out(loss.data(), 8) = p.log_sum_exp() * ew::in(x.data(), 8)),
             contains("output 2 has 8 elements, but output 1 has 64"));
  auto const other = ew::softmax(ew::in(y.data(), 64));
  CHECK_THAT(text(ew::out(loss.data(), 8) = other.input_at(k)), contains("several functions"));
  s.synchronize();
}

}  // namespace
