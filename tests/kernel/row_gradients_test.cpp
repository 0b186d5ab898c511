// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// run_row_gradients(): the backward functions and sums of rows and columns against fp64, for sizes,
// types and alignments of every plan; and what is refused.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/describe.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/row_gradients.hpp>
#include <warpwright/kernel/views.hpp>

#include <warpwright/graph.hpp>
#include <warpwright/memory/pool.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "support/catch.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::number;
using kernel_test::random_numbers;
using kernel_test::refusal;

namespace {

template <class T>
std::vector<T> random_values(std::size_t size, std::uint64_t seed, double low = -2,
                             double width = 4) {
  random_numbers random{seed};
  std::vector<T> values(size);
  for (T& v : values) v = number<T>(low + width * random.unit());
  return values;
}
template <class T>
double unit_of() {
  if (std::is_same<T, double>::value) return 0x1p-53;
  if (std::is_same<T, float>::value) return 0x1p-24;
  return std::is_same<T, __half>::value ? 0x1p-11 : 0x1p-8;
}

// What is expected, with the sum of the absolute values of what it is made of.
struct expected {
  std::vector<double> value, magnitude;
  explicit expected(std::size_t size) : value(size), magnitude(size) {}
  void add(std::size_t k, double v) {
    value[k] += v;
    magnitude[k] += std::fabs(v);
  }
};
// @tparam R  the type of computation
// @param additions  roundings that the result may have
template <class R, class T>
std::size_t wrong(std::vector<T> const& got, expected const& e, double additions) {
  std::size_t count = 0;
  for (std::size_t k = 0; k < e.value.size(); ++k) {
    double const bound = additions * unit_of<R>() * e.magnitude[k] +
                         2 * unit_of<T>() * std::fabs(e.value[k]) + 1e-30;
    if (!(std::fabs(as_double(got[k]) - e.value[k]) <= bound)) ++count;
  }
  return count;
}

// The operands of a norm's gradient, in device memory.
template <class T>
struct problem {
  using real = std::conditional_t<std::is_same<T, double>::value, double, float>;
  std::size_t rows, cols, n;
  std::vector<T> dy, x, gamma;
  std::vector<real> mean, rstd;
  guarded<T> on_dy, on_x, on_gamma, dx;
  guarded<real> on_mean, on_rstd, dgamma, dbeta;

  problem(std::size_t row_count, std::size_t col_count, std::uint64_t seed, std::size_t offset = 0)
      : rows{row_count},
        cols{col_count},
        n{rows * cols},
        dy{random_values<T>(n, seed)},
        x{random_values<T>(n, seed + 1)},
        gamma{random_values<T>(cols, seed + 2)},
        mean{random_values<real>(rows, seed + 3, -1, 2)},
        rstd{random_values<real>(rows, seed + 4, 0.5, 1)},
        on_dy{dy, offset},
        on_x{x, offset == 0 ? 0 : offset + 1},
        on_gamma{gamma, offset},
        dx{n, offset},
        on_mean{mean},
        on_rstd{rstd},
        dgamma{cols, offset},
        dbeta{cols} {}

  [[nodiscard]] auto in_dy() const { return ew::in(on_dy.data(), n); }
  [[nodiscard]] auto in_x() const { return ew::in(on_x.data(), n); }
  [[nodiscard]] auto layer_norm() const {
    return ew::layer_norm_backward(in_dy(), in_x(), ew::col(on_mean.data(), cols),
                                   ew::col(on_rstd.data(), cols), ew::row(on_gamma.data(), cols));
  }
  [[nodiscard]] double normalized(std::size_t i, bool centered) const {
    double const m = centered ? static_cast<double>(mean[i / cols]) : 0.0;
    return (as_double(x[i]) - m) * static_cast<double>(rstd[i / cols]);
  }
  // dx, dgamma and dbeta
  void expect(expected& dx_of, expected& dgamma_of, expected& dbeta_of, bool centered) const {
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0, product = 0, sums = 0, products = 0;
      for (std::size_t i = r * cols; i < (r + 1) * cols; ++i) {
        double const d = as_double(dy[i]) * as_double(gamma[i % cols]) / static_cast<double>(cols);
        sum += d, sums += std::fabs(d);
        product += d * normalized(i, centered), products += std::fabs(d * normalized(i, centered));
      }
      if (!centered) sum = sums = 0;
      for (std::size_t i = r * cols; i < (r + 1) * cols; ++i) {
        double const d = as_double(dy[i]) * as_double(gamma[i % cols]);
        double const y = normalized(i, centered), s = static_cast<double>(rstd[r]);
        dx_of.value[i] = s * (d - sum - y * product);
        dx_of.magnitude[i] = s * (std::fabs(d) + sums + std::fabs(y) * products);
        dgamma_of.add(i % cols, as_double(dy[i]) * y);
        dgamma_of.magnitude[i % cols] +=
            std::fabs(as_double(dy[i])) * (std::fabs(as_double(x[i])) + 1);
        dbeta_of.add(i % cols, as_double(dy[i]));
      }
    }
  }
  [[nodiscard]] double row_additions() const { return static_cast<double>(cols) / 500 + 30; }
  [[nodiscard]] double column_additions() const {
    return static_cast<double>(rows) / 130 + static_cast<double>(n) / 135000 + 60;
  }
};

template <class T>
void check_layer_norm(std::size_t rows, std::size_t cols, std::size_t offset, std::uint64_t seed) {
  using real = typename problem<T>::real;
  CAPTURE(rows, cols, offset, seed);
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  problem<T> const p{rows, cols, seed, offset};
  auto const g = p.layer_norm();
  ew::run_row_gradients(s, pool, {rows, cols}, ew::out(p.dx.data(), p.n) = g.dx(),
                        ew::to(p.dgamma.data()) = g.dgamma(), ew::to(p.dbeta.data()) = g.dbeta());
  expected dx{p.n}, dgamma{cols}, dbeta{cols};
  p.expect(dx, dgamma, dbeta, true);
  REQUIRE(wrong<real>(p.dx.fetch(s), dx, p.row_additions()) == 0);
  REQUIRE(wrong<real>(p.dgamma.fetch(s), dgamma, p.column_additions()) == 0);
  REQUIRE(wrong<real>(p.dbeta.fetch(s), dbeta, p.column_additions()) == 0);
  REQUIRE(p.dx.intact(s));
  REQUIRE(p.dgamma.intact(s));
  REQUIRE(p.dbeta.intact(s));
}

// Columns of every plan: parts of a warp, several warps a row, whole blocks, rows too long for
// registers; with vectors and without.
constexpr std::size_t lengths[] = {1,    2,    3,    4,    8,    12,   31,   32,   36,
                                   64,   100,  129,  256,  260,  768,  1000, 1024, 2047,
                                   2048, 4096, 4097, 4100, 8192, 8200, 9001};

struct gelu_slope {
  template <class R>
  WARPWRIGHT_HOST_DEVICE R operator()(R x) const {
    return x < R{0} ? R{0.25} : R{1} + x;
  }
};

}  // namespace

TEST_CASE("layer norm's gradients: float, rows of all lengths") {
  for (std::size_t const cols : lengths) check_layer_norm<float>(5, cols, 0, cols);
}
TEST_CASE("layer norm's gradients: other types") {
  for (std::size_t const cols : {1U, 7U, 64U, 768U, 1023U, 4096U, 8192U, 8200U, 8203U}) {
    check_layer_norm<__nv_bfloat16>(5, cols, 0, cols);
  }
  for (std::size_t const cols : {5U, 32U, 512U, 2048U, 2050U, 2051U}) {
    check_layer_norm<double>(3, cols, 0, cols);
  }
}
TEST_CASE("layer norm's gradients: few rows and more than there are blocks") {
  for (std::size_t const rows : {1U, 2U, 9U, 130U, 1025U, 3000U}) {
    check_layer_norm<float>(rows, 20, 0, rows);
    check_layer_norm<float>(rows, 7, 0, rows);
  }
  check_layer_norm<float>(1100, 192, 0, 1);
  check_layer_norm<float>(1300, 384, 0, 5);  // blocks of five rows, and of three
  check_layer_norm<float>(900, 640, 0, 6);
  check_layer_norm<float>(600, 1024, 0, 2);
  check_layer_norm<float>(300, 4096, 0, 3);
  check_layer_norm<float>(300, 4200, 0, 4);
}
TEST_CASE("layer norm's gradients: misaligned arrays") {
  for (std::size_t const offset : {1U, 2U, 3U, 7U}) {
    check_layer_norm<float>(9, 64, offset, offset);
    check_layer_norm<float>(9, 35, offset, offset);
    check_layer_norm<__nv_bfloat16>(9, 768, offset, offset);
    check_layer_norm<float>(3, 4100, offset, offset);
  }
}

TEST_CASE("layer norm's gradients: random shapes") {
  std::uint64_t const seed = 20261128;
  CAPTURE(seed);
  random_numbers random{seed};
  for (int k = 0; k < 60; ++k) {
    std::size_t const cols = 1 + random.below(k % 4 == 0 ? 3000 : 140);
    check_layer_norm<float>(1 + random.below(60000 / cols + 1), cols, random.below(5),
                            random.next());
  }
}

TEST_CASE("layer norm's gradients agree with finite differences") {
  std::size_t const rows = 3, cols = 10, n = rows * cols;
  double const eps = 1e-3;
  auto const w = random_values<double>(n, 1), gamma = random_values<double>(cols, 2);
  auto x = random_values<double>(n, 3);
  std::vector<double> mean(rows), rstd(rows), dx(n), dgamma(cols), dbeta(cols);
  // The loss is the sum of w * (layer_norm(x) * gamma).
  auto const loss = [&](std::vector<double> const& scale) {
    double total = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0, squares = 0;
      for (std::size_t c = 0; c < cols; ++c) sum += x[r * cols + c] / cols;
      for (std::size_t c = 0; c < cols; ++c) {
        squares += (x[r * cols + c] - sum) * (x[r * cols + c] - sum) / cols;
      }
      mean[r] = sum, rstd[r] = 1 / std::sqrt(squares + eps);
      for (std::size_t c = 0; c < cols; ++c) {
        total += w[r * cols + c] * (x[r * cols + c] - sum) * rstd[r] * scale[c];
      }
    }
    return total;
  };
  loss(gamma);
  auto const g =
      ew::layer_norm_backward(ew::in(w.data(), n), ew::in(x.data(), n), ew::col(mean.data(), cols),
                              ew::col(rstd.data(), cols), ew::row(gamma.data(), cols));
  ew::run_row_gradients_host({rows, cols}, ew::out(dx.data(), n) = g.dx(),
                             ew::to(dgamma.data()) = g.dgamma(), ew::to(dbeta.data()) = g.dbeta());
  double const h = 1e-6;
  for (std::size_t i = 0; i < n; ++i) {
    double const before = x[i];
    x[i] = before + h;
    double const above = loss(gamma);
    x[i] = before - h;
    double const below = loss(gamma);
    x[i] = before;
    REQUIRE(dx[i] == Approx((above - below) / (2 * h)).margin(1e-6));
  }
  for (std::size_t c = 0; c < cols; ++c) {
    auto above = gamma, below = gamma;
    above[c] += h, below[c] -= h;
    REQUIRE(dgamma[c] == Approx((loss(above) - loss(below)) / (2 * h)).margin(1e-6));
  }
}

TEST_CASE("rms norm's gradients, without gamma, too") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  for (bool const scaled : {true, false}) {
    for (std::size_t const cols : {3U, 256U, 1000U, 5000U}) {
      CAPTURE(scaled, cols);
      problem<float> p{6, cols, cols};
      if (!scaled) p.gamma.assign(cols, 1.0F);
      auto const rstd = ew::col(p.on_rstd.data(), cols);
      auto const run = [&](auto const& g) {
        ew::run_row_gradients(s, pool, {p.rows, cols}, ew::to(p.dgamma.data()) = g.dgamma(),
                              ew::out(p.dx.data(), p.n) = g.dx());
      };
      if (scaled) {
        run(ew::rms_norm_backward(p.in_dy(), p.in_x(), rstd, ew::row(p.on_gamma.data(), cols)));
      } else {
        run(ew::rms_norm_backward(p.in_dy(), p.in_x(), rstd));
      }
      expected dx{p.n}, dgamma{cols}, dbeta{cols};
      p.expect(dx, dgamma, dbeta, false);
      CHECK(wrong<float>(p.dx.fetch(s), dx, p.row_additions()) == 0);
      CHECK(wrong<float>(p.dgamma.fetch(s), dgamma, p.column_additions()) == 0);
    }
  }
}

TEST_CASE("softmax's and log-softmax's gradients, of 16-bit floats with expressions around them") {
  ww::stream s;
  std::size_t const rows = 4;
  for (std::size_t const cols : {5U, 64U, 1000U, 4096U, 20000U}) {
    CAPTURE(cols);
    std::size_t const n = rows * cols;
    auto const dy = random_values<__half>(n, cols), y = random_values<__half>(n, 1 + cols, 0, 1);
    guarded<__half> const on_dy{dy}, on_y{y};
    guarded<float> const dx{n}, log_dx{n};
    auto const in_dy = ew::in(on_dy.data(), n) * 2.0F;
    auto const in_y = ew::in(on_y.data(), n);
    ew::run_row_gradients(s, {rows, cols},
                          ew::out(dx.data(), n) = ew::softmax_backward(in_dy, in_y) + 1);
    ew::run_row_gradients(s, {rows, cols},
                          ew::out(log_dx.data(), n) = ew::log_softmax_backward(in_dy, in_y));
    expected soft{n}, log_soft{n};
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0, product = 0, magnitude = 0;
      for (std::size_t i = r * cols; i < (r + 1) * cols; ++i) {
        double const d = 2 * as_double(dy[i]);
        sum += d, product += d * as_double(y[i]), magnitude += std::fabs(d);
      }
      for (std::size_t i = r * cols; i < (r + 1) * cols; ++i) {
        double const d = 2 * as_double(dy[i]), p = as_double(y[i]);
        soft.value[i] = p * (d - product) + 1;
        soft.magnitude[i] = p * (std::fabs(d) + magnitude) + 1;
        log_soft.value[i] = d - std::exp(p) * sum;
        log_soft.magnitude[i] = std::fabs(d) + std::exp(p) * magnitude;
      }
    }
    double const additions = static_cast<double>(cols) / 500 + 30;
    CHECK(wrong<float>(dx.fetch(s), soft, additions) == 0);
    CHECK(wrong<float>(log_dx.fetch(s), log_soft, additions) == 0);
  }
}

TEST_CASE("a pass without sums of rows: a bias gradient, and the extremes of columns") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  for (std::size_t const cols : {1U, 6U, 96U, 1024U, 3001U, 9000U}) {
    for (std::size_t const rows : {1U, 70U}) {
      CAPTURE(rows, cols);
      std::size_t const n = rows * cols;
      auto const h = random_values<float>(n, cols), dy = random_values<float>(n, cols + 1);
      guarded<float> const on_h{h}, on_dy{dy}, dh{n}, dbias{cols}, most{cols};
      auto const d = ew::map(gelu_slope{}, ew::in(on_h.data(), n)) * ew::in(on_dy.data(), n);
      ew::run_row_gradients(s, pool, {rows, cols}, ew::to(dbias.data()) = ew::column_sum(d),
                            ew::out(dh.data(), n) = d, ew::to(most.data()) = ew::column_max(d));
      expected sum{cols};
      std::vector<float> largest(cols, -std::numeric_limits<float>::infinity());
      auto const got = dh.fetch(s);
      for (std::size_t i = 0; i < n; ++i) {
        REQUIRE(got[i] == gelu_slope{}(h[i]) * dy[i]);
        sum.add(i % cols, static_cast<double>(got[i]));
        largest[i % cols] = std::max(largest[i % cols], got[i]);
      }
      CHECK(wrong<float>(dbias.fetch(s), sum, 80) == 0);
      CHECK(most.fetch(s) == largest);
    }
  }
}

TEST_CASE("any operand: views, random numbers, scalars in device memory, the index") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  for (std::size_t const cols : {12U, 13U}) {
    std::size_t const rows = 9, n = rows * cols;
    guarded<float> const x{random_values<float>(n, cols)}, scale{std::vector<float>{3}};
    guarded<float> const y{n}, plain{n}, sums{cols};
    auto const transposed = ew::view(ew::array(x.data(), {cols, rows}).permuted({1, 0}));
    auto const e = ew::where(ew::index() % 3 == 1, 0.0F, transposed) *
                   ew::dropout(ew::in(x.data(), n), 0.5, ew::philox{7, 1}) *
                   ew::device_scalar(scale.data());
    ew::run_row_gradients(s, pool, {rows, cols}, ew::out(y.data(), n) = e,
                          ew::to(sums.data()) = ew::column_sum(e));
    ew::run(s, ew::out(plain.data(), n) = e);
    CHECK(y.fetch(s) == plain.fetch(s));
    expected sum{cols};
    for (std::size_t i = 0; i < n; ++i) sum.add(i % cols, static_cast<double>(y[i]));
    CHECK(wrong<float>(sums.fetch(s), sum, 60) == 0);
  }
}

TEST_CASE("gradients are added to what is there, and written to other types") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  std::size_t const rows = 6, cols = 40, n = rows * cols;
  problem<float> const p{rows, cols, 1};
  guarded<float> const dx{std::vector<float>(n, 3.0F)};
  guarded<__nv_bfloat16> const dgamma{random_values<__nv_bfloat16>(cols, 9)};
  guarded<double> const dbeta{std::vector<double>(cols, 1e6)};
  auto const before = dgamma.fetch(s);
  auto const g = p.layer_norm();
  ew::run_row_gradients(s, pool, {rows, cols}, ew::out(dx.data(), n) += g.dx(),
                        ew::to(dgamma.data()) += g.dgamma(),
                        ew::to(dbeta.data()) += ew::column_sum(p.in_dy()).in<double>());
  expected e{n}, gamma_of{cols}, beta_of{cols};
  p.expect(e, gamma_of, beta_of, true);
  for (double& v : e.value) v += 3;
  for (double& v : e.magnitude) v += 3;
  for (std::size_t c = 0; c < cols; ++c) gamma_of.value[c] += as_double(before[c]);
  for (std::size_t c = 0; c < cols; ++c) beta_of.add(c, 1e6);
  CHECK(wrong<float>(dx.fetch(s), e, p.row_additions()) == 0);
  CHECK(wrong<float>(dgamma.fetch(s), gamma_of, p.column_additions()) == 0);
  CHECK(wrong<double>(dbeta.fetch(s), beta_of, p.column_additions()) == 0);
}

TEST_CASE("an output in place of an input that is read in all places") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  for (std::size_t const cols : {40U, 41U, 1024U, 4100U, 4101U}) {
    CAPTURE(cols);
    problem<float> const p{300, cols, cols};
    auto const g = p.layer_norm();
    ew::run_row_gradients(s, pool, {p.rows, cols}, ew::out(p.on_dy.data(), p.n) = g.dx(),
                          ew::to(p.dgamma.data()) = g.dgamma());
    expected dx{p.n}, dgamma{cols}, dbeta{cols};
    p.expect(dx, dgamma, dbeta, true);
    CHECK(wrong<float>(p.on_dy.fetch(s), dx, p.row_additions()) == 0);
    CHECK(wrong<float>(p.dgamma.fetch(s), dgamma, p.column_additions()) == 0);
  }
}

TEST_CASE("the same bits in every run, and on the calling thread") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  for (std::size_t const cols : {33U, 96U, 1024U, 4104U}) {
    CAPTURE(cols);
    problem<float> const p{400, cols, cols};
    auto const g = p.layer_norm();
    std::vector<float> first;
    for (int run = 0; run < 3; ++run) {
      p.dx.clear(), p.dgamma.clear();
      auto const store = ew::out(p.dx.data(), p.n) = g.dx();
      auto const reduce = ew::to(p.dgamma.data()) = g.dgamma();
      if (run == 2) {
        ew::run_row_gradients_host({p.rows, cols}, store, reduce);
      } else {
        ew::run_row_gradients(s, pool, {p.rows, cols}, store, reduce);
      }
      auto got = p.dx.fetch(s);
      auto const sums = p.dgamma.fetch(s);
      got.insert(got.end(), sums.begin(), sums.end());
      if (run == 0) first = got;
      if (run != 2 || WARPWRIGHT_HOST_RUNTIME) CHECK(got == first);  // a GPU fuses multiplications
    }
  }
}

TEST_CASE("sums of rows and shared values of one type are told apart by their numbers") {
  ww::stream s;
  std::size_t const rows = 3, cols = 5, n = rows * cols;
  guarded<float> const a{std::vector<float>(n, 1.0F)}, b{std::vector<float>(n, 2.0F)}, y{n}, z{n};
  auto const in_a = ew::in(a.data(), n), in_b = ew::in(b.data(), n);
  ew::run_row_gradients(s, {rows, cols},
                        ew::out(y.data(), n) = ew::row_sum(in_a) + ew::row_sum<1>(in_b),
                        ew::out(z.data(), n) = ew::once(ew::once(in_a) + ew::row_sum(in_a)) *
                                               ew::row_mean(ew::once<1>(in_b)));
  CHECK(y.fetch(s) == std::vector<float>(n, 15.0F));
  CHECK(z.fetch(s) == std::vector<float>(n, 12.0F));
  auto const message = [&](auto const& x) {
    return refusal([&] { ew::run_row_gradients(s, {rows, cols}, ew::out(y.data(), n) = x); });
  };
  CHECK_THAT(message(ew::row_sum(in_a) * ew::row_sum(in_b)), contains("as in row_sum<1>(x)"));
  CHECK_THAT(message(ew::once(in_a) * ew::row_sum(ew::once(in_b))), contains("in once()"));
  CHECK(message(ew::row_sum(in_a) * ew::row_sum(in_a)) == "accepted");
}

TEST_CASE("backward functions take numbers in place of arrays") {
  std::vector<float> const y{0.5F, 0.25F, 0.5F, 1.0F, 2.0F, 4.0F};
  std::vector<float> dx(6);
  auto const in = ew::in(y.data(), 6);
  ew::run_row_gradients_host({2, 3}, ew::out(dx.data(), 6) = ew::softmax_backward(in, 2.0F));
  CHECK(dx == std::vector<float>{-4.0F, -4.5F, -4.0F, -26.0F, -24.0F, -20.0F});
  ew::run_row_gradients_host({2, 3}, ew::out(dx.data(), 6) = ew::log_softmax_backward(in, 0.0F));
  CHECK(dx == std::vector<float>{-0.75F, -1.0F, -0.75F, -6.0F, -5.0F, -3.0F});
  ew::run_row_gradients_host(
      {2, 3}, ew::out(dx.data(), 6) = ew::layer_norm_backward(1.0F, in, 0.5F, 2.0F).dx());
  CHECK(dx[0] == 0.0F);
}

TEST_CASE("a matrix without elements gives the results of no elements") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  guarded<float> const sums{std::vector<float>(7, 5.0F)}, more{std::vector<float>(7, 5.0F)};
  float* const none = nullptr;
  auto const x = ew::in(none, 0);
  ew::run_row_gradients(s, pool, {0, 7}, ew::out(none, 0) = x - ew::row_mean(x),
                        ew::to(sums.data()) = ew::column_sum(x),
                        ew::to(more.data()) += ew::column_sum(x));
  CHECK(sums.fetch(s) == std::vector<float>(7, 0.0F));
  CHECK(more.fetch(s) == std::vector<float>(7, 5.0F));
  ew::run_row_gradients(s, pool, {7, 0}, ew::out(none, 0) = x,
                        ew::to(sums.data()) = ew::column_sum(x));
}

TEST_CASE("a captured pass runs with its workspace, prepared once") {
  ww::stream s;
  std::size_t const rows = 20, cols = 16, n = rows * cols;
  guarded<float> const x{std::vector<float>(n, 1.0F)}, y{n}, sums{std::vector<float>(cols, 0.0F)};
  auto const store = ew::out(y.data(), n) = ew::in(x.data(), n) * 2;
  auto const reduce = ew::to(sums.data()) += ew::column_sum(ew::in(x.data(), n));
  std::size_t const bytes = ew::row_gradients_workspace_bytes({rows, cols}, store, reduce);
  ww::memory_pool pool{ww::device_id{0}};
  void* const memory = pool.allocate(s, bytes);
  auto const workspace = ew::prepare_workspace(s, memory, bytes);
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) {
    ew::run_row_gradients(s, workspace, {rows, cols}, store, reduce);
  });
  CHECK(graph.node_counts().total() == 2);
  graph.launch(s);
  graph.launch(s);
  CHECK(sums.fetch(s) == std::vector<float>(cols, 40.0F));
  pool.deallocate(s, memory, bytes);
}

TEST_CASE("a pass refuses what does not fit") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  std::size_t const rows = 4, cols = 8, n = rows * cols;
  guarded<float> const x{std::vector<float>(2 * n, 1.0F)}, y{std::vector<float>(n, 7.0F)};
  guarded<float> const sums{std::vector<float>(cols, 0.0F)};
  auto const in_x = ew::in(x.data(), n);
  auto const sum = ew::column_sum(in_x);
  auto const message = [&](auto const&... goals) {
    return refusal([&] { ew::run_row_gradients(s, pool, {rows, cols}, goals...); });
  };
  CHECK_THAT(message(ew::out(y.data(), n - 1) = ew::in(x.data(), n - 1)),
             contains("the output has 31 elements, but {rows, cols} = {4, 8} are 32"));
  CHECK_THAT(message(ew::out(y.data(), n) = ew::in(x.data(), n + 1)), contains("33 elements"));
  CHECK_THAT(message(ew::out(y.data(), n) = in_x,
                     ew::to(sums.data()) = ew::column_sum(ew::in(x.data(), n + 1))),
             contains("33 elements"));
  CHECK_THAT(message(ew::out(x.data() + 1, n) = in_x), contains("overlap"));
  CHECK_THAT(message(ew::out(y.data(), n) = 1.0F, ew::out(y.data(), n) = in_x),
             contains("overlaps output 1"));
  CHECK_THAT(message(ew::out(y.data(), n) = in_x * ew::row(x.data(), 4)),
             contains("row() and col() are of the matrix's rows"));
  CHECK_THAT(message(ew::out(y.data(), n) = in_x, ew::to(y.data() + n - 1) = sum),
             contains("result 1 overlaps output 1"));
  CHECK_THAT(message(ew::out(y.data(), n) = in_x, ew::to(sums.data()) = sum,
                     ew::to(sums.data() + 7) += sum),
             contains("result 2 goes where result 1 does"));
  float* const null = nullptr;
  CHECK_THAT(message(ew::out(y.data(), n) = in_x, ew::to(null) = sum), contains("null pointer"));
  CHECK_THAT(message(ew::out(null, n) = in_x), contains("null pointer"));
  guarded<unsigned char> const memory{2048};
  auto const small = ew::prepare_workspace(s, memory.data(), 2048);
  CHECK(y.fetch(s) == std::vector<float>(n, 7.0F));
  CHECK_THAT(refusal([&] {
               ew::run_row_gradients(s, small, {rows, cols}, ew::out(y.data(), n) = in_x,
                                     ew::to(sums.data()) = sum);
             }),
             contains("row_gradients_workspace_bytes() says how many"));
}

TEST_CASE("describe() prints sums of rows, and what once() is of") {
  float const* const p = nullptr;
  auto const x = ew::in(p, 8);
  CHECK(ew::describe(ew::once(x) * 2 - ew::row_mean(x) * ew::row_sum(x)) ==
        "once(in f32[8]) * 2 - row_mean(in f32[8]) * row_sum(in f32[8])");
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a pass makes two CUDA calls and reports the failure of each") {
  ww::stream s;
  std::size_t const rows = 4, cols = 8, n = rows * cols;
  guarded<float> const x{std::vector<float>(n, 1.0F)}, y{n}, sums{cols};
  guarded<unsigned char> const memory{100000};
  auto const workspace = ew::prepare_workspace(s, memory.data(), memory.size());
  auto const run = [&] {
    ew::run_row_gradients(s, workspace, {rows, cols},
                          ew::out(y.data(), n) = ew::in(x.data(), n) * 3,
                          ew::to(sums.data()) = ew::column_sum(ew::in(x.data(), n)));
  };
  std::uint64_t const before = ww::testing::total_calls();
  run();
  CHECK(ww::testing::total_calls() == before + 2);
  for (unsigned const nth : {1U, 2U}) {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", nth, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    try {
      run();
      FAIL("the launch should have failed");
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorLaunchOutOfResources);
      CHECK_THAT(error.what(), contains("row_gradients_test.cpp"));
    }
    CHECK(active.hits() == 1);
  }
  run();
  CHECK(sums.fetch(s) == std::vector<float>(cols, 4.0F));
}

#endif
