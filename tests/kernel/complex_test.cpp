// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Complex elements against fp64: std::complex<float>, ew::complex<float> and other types.
#include <complex>

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::guarded;
using kernel_test::random_numbers;
using test_support::device_array;

namespace {

using number = std::complex<float>;
using wide = std::complex<double>;
constexpr double unit = 0x1p-24;

wide widened(number z) { return {static_cast<double>(z.real()), static_cast<double>(z.imag())}; }
// The products and quotients of C++ without the recovery of infinities.
wide product(wide a, wide b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
wide quotient(wide a, wide b) {
  double const square = b.real() * b.real() + b.imag() * b.imag();
  wide const p = product(a, std::conj(b));
  return {p.real() / square, p.imag() / square};
}

// Numbers of magnitude 2^-range … 2^range with parts of equal and of very different magnitude.
std::vector<number> numbers(std::size_t n, int range, std::uint64_t seed) {
  random_numbers random{seed};
  std::vector<number> z(n);
  for (number& v : z) {
    auto const part = [&](int around, int spread) {
      int const e = around - static_cast<int>(random.below(static_cast<std::size_t>(spread)));
      return static_cast<float>(std::ldexp(random.unit() * 2 - 1, e));
    };
    int const around =
        static_cast<int>(random.below(static_cast<std::size_t>(2 * range + 1))) - range;
    v = {part(around, 3), part(around, random.below(4) == 0 ? 40 : 3)};
    if (random.below(16) == 0) v = {v.real(), 0.0F};
    if (random.below(16) == 0) v = {0.0F, v.imag() + std::ldexp(1.0F, around - 1)};
  }
  return z;
}

// Counts results farther from the exact ones than `bound` units of their magnitude.
template <class Exact>
std::size_t wrong_of(std::vector<number> const& got, double bound, Exact exact) {
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < got.size(); ++k) {
    wide const reference = exact(k);
    double const error = std::abs(widened(got[k]) - reference);
    if (!(error <= bound * unit * std::abs(reference) + 0x1p-148)) {
      if (++wrong <= 3) UNSCOPED_INFO("element " << k << ": " << got[k] << " for " << reference);
    }
  }
  return wrong;
}

// A complex type of another library.
struct foreign {
  using value_type = float;
  foreign() = default;
  WARPWRIGHT_HOST_DEVICE foreign(float re, float im) : parts{re, im} {}
  WARPWRIGHT_HOST_DEVICE float real() const { return parts[0]; }
  WARPWRIGHT_HOST_DEVICE float imag() const { return parts[1]; }
  float parts[2];
};
struct turned {
  WARPWRIGHT_HOST_DEVICE foreign operator()(foreign z) const { return {-z.imag(), z.real()}; }
};
struct add_complex {
  WARPWRIGHT_HOST_DEVICE ew::complex<float> operator()(ew::complex<float> a,
                                                       ew::complex<float> b) const {
    return a + b;
  }
};

}  // namespace

TEST_CASE("complex arithmetic is within its bounds") {
  ww::stream s;
  std::uint64_t const seed = 61;
  INFO("seed " << seed);
  std::size_t const n = 40001;
  // Products of these stay in float's range; the next test has quotients of the whole range.
  auto const a = numbers(n, 30, seed);
  auto const b = numbers(n, 30, seed + 1);
  device_array<number> const da{a}, db{b};
  device_array<number> const sum{n}, difference{n}, times{n}, over{n}, negative{n}, turned_back{n};
  auto const x = ew::in(da.data(), n);
  auto const y = ew::in(db.data(), n);
  ew::run(s, ew::tie(ew::out(sum.data(), n) = x + y, ew::out(difference.data(), n) = x - y,
                     ew::out(times.data(), n) = x * y, ew::out(over.data(), n) = x / y));
  ew::run(s,
          ew::tie(ew::out(negative.data(), n) = -x, ew::out(turned_back.data(), n) = ew::conj(x)));
  auto const sums = sum.fetch(s);
  auto const differences = difference.fetch(s);
  auto const negatives = negative.fetch(s);
  auto const conjugates = turned_back.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    wrong += sums[k] != a[k] + b[k];
    wrong += differences[k] != a[k] - b[k];
    wrong += negatives[k] != -a[k];
    wrong += conjugates[k] != std::conj(a[k]);
  }
  CHECK(wrong == 0);
  CHECK(wrong_of(times.fetch(s), std::sqrt(5.0) + 1e-6,
                 [&](std::size_t k) { return product(widened(a[k]), widened(b[k])); }) == 0);
  CHECK(wrong_of(over.fetch(s), 6,
                 [&](std::size_t k) { return quotient(widened(a[k]), widened(b[k])); }) == 0);
}

TEST_CASE("complex quotients have no overflow or underflow in intermediate results") {
  ww::stream s;
  std::uint64_t const seed = 63;
  INFO("seed " << seed);
  constexpr float most = (std::numeric_limits<float>::max)();
  constexpr float least = std::numeric_limits<float>::denorm_min();
  auto b = numbers(20000, 126, seed);
  std::vector<number> const ends{{most, most}, {most, least}, {least, least}, {0, least},
                                 {1, 1},       {most, 0},     {-least, most}, {0x1p-126F, -1e-40F}};
  b.insert(b.end(), ends.begin(), ends.end());
  std::size_t const n = b.size();
  random_numbers random{seed};
  std::vector<number> a(n);
  for (std::size_t k = 0; k < n; ++k) {  // of b's magnitude, so that the quotient is in range
    wide const q = std::polar(std::ldexp(1 + random.unit(), static_cast<int>(random.below(9)) - 4),
                              random.unit() * 6.2831853);
    wide const p = product(widened(b[k]), q);
    auto const limited = [](double v) {
      return static_cast<float>(v > 0x1.fffffep127    ? 0x1.fffffep127
                                : v < -0x1.fffffep127 ? -0x1.fffffep127
                                                      : v);
    };
    a[k] = {limited(p.real()), limited(p.imag())};
  }
  device_array<number> const da{a}, db{b};
  device_array<number> const out{n};
  ew::run(s, ew::out(out.data(), n) = ew::in(da.data(), n) / ew::in(db.data(), n));
  CHECK(wrong_of(out.fetch(s), 6,
                 [&](std::size_t k) { return quotient(widened(a[k]), widened(b[k])); }) == 0);
}

TEST_CASE("complex and real operands mix, and real ones are not widened") {
  ww::stream s;
  std::size_t const n = 1001;
  auto const z = numbers(n, 10, 65);
  std::vector<float> r(n);
  random_numbers random{66};
  for (float& v : r) v = static_cast<float>(random.unit() + 0.5);
  device_array<number> const dz{z};
  device_array<float> const dr{r};
  device_array<number> const out{8 * n};
  auto const e = ew::in(dz.data(), n);
  auto const f = ew::in(dr.data(), n);
  auto const at = [&](std::size_t k) { return ew::out(out.data() + k * n, n); };
  ew::run(s, ew::tie(at(0) = e * f, at(1) = f * e, at(2) = e / f, at(3) = e + f, at(4) = f - e,
                     at(5) = e * 2, at(6) = 0.5 * e, at(7) = f / e));
  auto const got = out.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    wrong += got[k] != z[k] * r[k];
    wrong += got[n + k] != z[k] * r[k];
    wrong += got[2 * n + k] != number{z[k].real() / r[k], z[k].imag() / r[k]};
    wrong += got[3 * n + k] != number{z[k].real() + r[k], z[k].imag()};
    wrong += got[4 * n + k] != number{r[k] - z[k].real(), -z[k].imag()};
    wrong += got[5 * n + k] != z[k] * 2.0F;
    wrong += got[6 * n + k] != z[k] * 0.5F;
    wide const q = quotient({static_cast<double>(r[k]), 0.0}, widened(z[k]));
    wrong += !(std::abs(widened(got[7 * n + k]) - q) <= 6 * unit * std::abs(q));
  }
  CHECK(wrong == 0);
  // The plain product has a NaN part here, where annex G of the C standard recovers infinity.
  std::vector<number> const one{{1, 2}};
  number scaled, multiplied;
  float const inf = std::numeric_limits<float>::infinity();
  ew::evaluate_host(ew::out(&scaled, 1) = ew::in(one.data(), 1) * inf);
  ew::evaluate_host(ew::out(&multiplied, 1) = ew::in(one.data(), 1) * number{inf, inf});
  CHECK((scaled.real() == inf && scaled.imag() == inf));
  CHECK((std::isnan(multiplied.real()) && multiplied.imag() == inf));
}

TEST_CASE("parts, magnitudes, comparisons and where() of complex numbers") {
  ww::stream s;
  std::size_t const n = 5003;
  auto z = numbers(n, 60, 67);
  float const nan = std::numeric_limits<float>::quiet_NaN();
  float const inf = std::numeric_limits<float>::infinity();
  constexpr float most = (std::numeric_limits<float>::max)();
  std::vector<number> const special{
      {nan, 1}, {1, nan}, {inf, 1}, {1, -inf}, {0, 0}, {-0.0F, 0}, {most / 2, most / 2}};
  for (std::size_t k = 0; k < special.size(); ++k) z[k] = special[k];
  device_array<number> const dz{z};
  device_array<float> const parts{4 * n};
  device_array<unsigned char> const flags{4 * n};
  device_array<number> const chosen{2 * n};
  auto const e = ew::in(dz.data(), n);
  auto const at = [&](std::size_t k) { return ew::out(parts.data() + k * n, n); };
  auto const flag = [&](std::size_t k) { return ew::out(flags.data() + k * n, n); };
  ew::run(s, ew::tie(at(0) = ew::real(e), at(1) = ew::imag(e), at(2) = ew::abs(e),
                     at(3) = ew::abs_squared(e)));
  ew::run(s, ew::tie(flag(0) = ew::isnan(e), flag(1) = ew::isfinite(e), flag(2) = e == 0,
                     flag(3) = e != ew::conj(e)));
  ew::run(s, ew::tie(ew::out(chosen.data(), n) = ew::where(ew::isfinite(e), e, number{0, 1}),
                     ew::out(chosen.data() + n, n) = ew::make_complex(ew::imag(e), ew::real(e))));
  auto const got = parts.fetch(s);
  auto const got_flags = flags.fetch(s);
  auto const got_chosen = chosen.fetch(s);
  auto const same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    float const re = z[k].real(), im = z[k].imag();
    bool const is_nan = std::isnan(re) || std::isnan(im);
    bool const is_finite = std::isfinite(re) && std::isfinite(im);
    wrong += !same(got[k], re) || !same(got[n + k], im);
    if (is_finite) {
      double const square = std::norm(widened(z[k]));
      double const magnitude = std::sqrt(square);
      wrong +=
          !(std::fabs(static_cast<double>(got[2 * n + k]) - magnitude) <= 8 * unit * magnitude);
      double const squared = static_cast<double>(got[3 * n + k]);
      bool const over = square > 3.4028235e38;
      wrong += !(over ? std::isinf(squared)
                      : std::fabs(squared - square) <= 4 * unit * square + 0x1p-126);
    }
    wrong += (got_flags[k] != 0) != is_nan;
    wrong += (got_flags[n + k] != 0) != is_finite;
    wrong += (got_flags[2 * n + k] != 0) != (re == 0 && im == 0);
    wrong += (got_flags[3 * n + k] != 0) != (is_nan || im != 0);
    wrong += is_finite ? got_chosen[k] != z[k] : got_chosen[k] != number{0, 1};
    wrong += !same(got_chosen[n + k].real(), im) || !same(got_chosen[n + k].imag(), re);
  }
  CHECK(wrong == 0);
}

TEST_CASE("complex arrays at every offset, in place, as rows, columns and device scalars") {
  ww::stream s;
  for (std::size_t offset = 0; offset < 4; ++offset) {
    for (std::size_t rows : {1U, 3U, 128U}) {
      for (std::size_t cols : {1U, 2U, 5U, 64U}) {
        CAPTURE(offset, rows, cols);
        std::size_t const n = rows * cols;
        auto const z = numbers(n, 4, 70);
        auto const bias = numbers(cols, 4, 71);
        auto const scale = numbers(rows, 4, 72);
        guarded<number> const dz{z, offset};
        guarded<number> const db{bias, offset / 2};
        guarded<number> const dc{scale, 1};
        guarded<number> const one{std::vector<number>{{0, 1}}, 1};
        guarded<number> const out{n, offset % 3};
        ew::run(s,
                ew::out(out.data(), n) = ew::in(dz.data(), n) + ew::row(db.data(), cols) -
                                         ew::col(dc.data(), cols) * ew::device_scalar(one.data()));
        ew::run(s, ew::out(dz.data(), n) *= 2);
        auto const got = out.fetch(s);
        auto const doubled = dz.fetch(s);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          number const c = scale[i / cols];
          wrong += got[i] != z[i] + bias[i % cols] - number{-c.imag(), c.real()};
          wrong += doubled[i] != z[i] * 2.0F;
        }
        REQUIRE(wrong == 0);
        REQUIRE((out.intact(s) && dz.intact(s) && db.intact(s)));
      }
    }
  }
}

TEST_CASE("other complex types are elements and arguments of functions") {
  ww::stream s;
  auto const z = numbers(100, 4, 73);
  std::vector<foreign> f(100);
  for (std::size_t k = 0; k < 100; ++k) f[k] = {z[k].real(), z[k].imag()};
  device_array<foreign> const df{f};
  device_array<ew::complex<float>> const own{100};
  device_array<foreign> const back{100};
  ew::run(s, ew::out(own.data(), 100) = ew::in(df.data(), 100) * foreign{0, 1});
  ew::run(s, ew::out(back.data(), 100) = ew::map(turned{}, ew::in(df.data(), 100)));
  auto const got = own.fetch(s);
  auto const turned_around = back.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < 100; ++k) {
    number const expected{-z[k].imag(), z[k].real()};
    wrong += number{got[k]} != expected;
    wrong += turned_around[k].real() != expected.real();
    wrong += turned_around[k].imag() != expected.imag();
  }
  CHECK(wrong == 0);
}

TEST_CASE("complex numbers are reduced by a function of one's own, and counted") {
  ww::stream s;
  device_array<unsigned char> const memory{std::size_t{1} << 17U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  std::size_t const n = 10007;
  std::vector<number> z(n);
  wide expected{0, 0};
  random_numbers random{74};
  for (number& v : z) {
    v = {static_cast<float>(random.below(100)), -static_cast<float>(random.below(9))};
    expected += widened(v);
  }
  device_array<number> const dz{z};
  device_array<number> const out{1};
  auto const e = ew::in(dz.data(), n);
  ew::reduce(s, w, n, ew::to(out.data()) = ew::fold(e, ew::complex<float>{0, 0}, add_complex{}));
  CHECK(widened(out.fetch(s)[0]) == expected);
  ew::complex<float> const fetched =
      ew::reduce(s, w, n, ew::fold(e, ew::complex<float>{0, 0}, add_complex{}));
  CHECK(widened(fetched) == expected);
  float const sum = ew::reduce(s, w, n, ew::sum(ew::real(e)));
  CHECK(static_cast<double>(sum) == expected.real());
}

TEST_CASE("complex numbers have sums, means and norms") {
  ww::stream s;
  device_array<unsigned char> const memory{std::size_t{1} << 20U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  device_array<number> const out{3};
  device_array<float> const real{2};
  for (std::size_t n : {0U, 1U, 2U, 255U, 4097U, 600011U}) {
    CAPTURE(n);
    std::vector<number> z(std::max<std::size_t>(n, 1));
    wide sum{0, 0};
    double squares = 0;
    random_numbers random{75 + n};
    for (std::size_t k = 0; k < n; ++k) {  // small integers: exact in float
      z[k] = {static_cast<float>(random.below(9)) - 4, 2 - static_cast<float>(random.below(5))};
      sum += widened(z[k]);
      squares += std::norm(widened(z[k]));
    }
    device_array<number> const dz{z};
    auto const e = ew::in(dz.data(), n);
    ew::reduce(s, w, n, ew::to(out.data()) = ew::sum(e), ew::to(out.data() + 1) = ew::mean(e),
               ew::to(out.data() + 2) = ew::sum(e).in<double>(), ew::to(real.data()) = ew::norm(e),
               ew::to(real.data() + 1) = ew::norm(e).compensated());
    std::vector<number> const got = out.fetch(s);
    std::vector<float> const norms = real.fetch(s);
    CHECK(widened(got[0]) == sum);
    CHECK(widened(got[2]) == sum);
    auto const count = static_cast<double>(n);
    if (n == 0) {
      CHECK((std::isnan(got[1].real()) && std::isnan(got[1].imag())));
    } else {
      CHECK(got[1].real() == static_cast<float>(sum.real() / count));
      CHECK(got[1].imag() == static_cast<float>(sum.imag() / count));
    }
    CHECK(norms[0] == static_cast<float>(std::sqrt(squares)));
    CHECK(norms[1] == static_cast<float>(std::sqrt(squares)));
  }
}

TEST_CASE("sums of complex numbers are within their bounds, and propagate infinities and NaN") {
  ww::stream s;
  device_array<unsigned char> const memory{std::size_t{1} << 20U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  std::size_t const n = 100003;
  std::vector<number> z = numbers(n, 20, 76);
  wide sum{0, 0};
  wide magnitudes{0, 0};
  for (number v : z) {
    sum += widened(v);
    magnitudes += wide{std::fabs(widened(v).real()), std::fabs(widened(v).imag())};
  }
  auto const within = [&](number got, double bound) {
    return std::fabs(widened(got).real() - sum.real()) <=
               bound * magnitudes.real() + unit * std::fabs(sum.real()) &&
           std::fabs(widened(got).imag() - sum.imag()) <=
               bound * magnitudes.imag() + unit * std::fabs(sum.imag());
  };
  device_array<number> const dz{z};
  auto const e = ew::in(dz.data(), n);
  ew::complex<float> const plain = ew::reduce(s, w, n, ew::sum(e));
  ew::complex<float> const in_double = ew::reduce(s, w, n, ew::sum(e).in<double>());
  ew::complex<float> const compensated = ew::reduce(s, w, n, ew::sum(e).compensated());
  CHECK(within(plain, 41 * unit));
  CHECK(within(in_double, 0x1p-50));
  CHECK(within(compensated, static_cast<double>(n) * 0x1p-48));

  float const inf = std::numeric_limits<float>::infinity();
  float const nan = std::numeric_limits<float>::quiet_NaN();
  z[5] = {inf, 1};
  z[77] = {2, nan};
  z[n - 1] = {nan, -inf};
  device_array<number> const bad{z};
  std::uint64_t const found = ew::reduce(s, w, n, ew::count_nonfinite(ew::in(bad.data(), n)));
  CHECK(found == 3);
}

TEST_CASE("sums of rows and columns of complex numbers") {
  ww::stream s;
  device_array<unsigned char> const memory{std::size_t{1} << 20U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  std::size_t const rows = 37;
  std::size_t const cols = 301;
  std::vector<number> z(rows * cols);
  std::vector<wide> of_row(rows);
  std::vector<wide> of_col(cols);
  random_numbers random{77};
  for (std::size_t k = 0; k < z.size(); ++k) {
    z[k] = {static_cast<float>(random.below(100)), -static_cast<float>(random.below(50))};
    of_row[k / cols] += widened(z[k]);
    of_col[k % cols] += widened(z[k]);
  }
  device_array<number> const dz{z};
  device_array<number> const row_sums{rows};
  device_array<number> const col_sums{cols};
  auto const e = ew::in(dz.data(), z.size());
  ew::reduce_rows(s, {rows, cols}, ew::to(row_sums.data()) = ew::sum(e));
  ew::reduce_cols(s, w, {rows, cols}, ew::to(col_sums.data()) = ew::sum(e));
  std::vector<number> const got_rows = row_sums.fetch(s);
  std::vector<number> const got_cols = col_sums.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < rows; ++k) wrong += widened(got_rows[k]) != of_row[k];
  for (std::size_t k = 0; k < cols; ++k) wrong += widened(got_cols[k]) != of_col[k];
  CHECK(wrong == 0);
}
