// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// quantize() of rows and of blocks: the scale's bits, and every result as x / scale rounded in
// double.
#include <warpwright/kernel/describe.hpp>

#include "kernel/rows_support.hpp"
#include "kernel/sweep.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::number;

namespace {

template <class Q>
constexpr float most = std::is_integral<Q>::value ? 127 : 448;
template <>
constexpr float most<__nv_fp8_e5m2> = 57344;

// The quotient, rounded once to Q: as a float, which has the digits of both roundings.
template <class Q>
double rounded(float x, float scale) {
  float const y = x / scale;
  if constexpr (std::is_integral<Q>::value) {
    return std::nearbyint(static_cast<double>(y));
  } else {
    return as_double(Q{y});
  }
}

// Rows of numbers, zeros, and one that is huge or tiny.
template <class Q, class T>
void check(std::size_t rows, std::size_t cols, std::size_t offset = 0) {
  CAPTURE(rows, cols, offset, sizeof(T));
  ww::stream s;
  std::size_t const n = rows * cols;
  auto x = kernel_test::random_values<T>(n, -3, 6, n);
  for (std::size_t i = 0; i < n; ++i) {
    double const by[] = {1, 0, sizeof(T) == 4 ? 1.1e38 : 1e4, sizeof(T) == 4 ? 1e-43 : 1e-7, 0.01};
    x[i] = number<T>(as_double(x[i]) * by[i / cols % 5]);
  }
  guarded<T> const dx{x, offset}, copy{n, offset};
  guarded<Q> const q{n, offset};
  guarded<float> const scales{rows};
  auto const f = ew::quantize<Q>(ew::in(dx.data(), n));
  ew::run_rows(s, {rows, cols}, ew::out(scales.data(), rows) = f.scale(), ew::out(q.data(), n) = f);
  auto const got = q.fetch(s);
  auto const scale = scales.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    float amax = 0;
    for (std::size_t c = 0; c < cols; ++c) {
      amax = std::fmax(amax, std::fabs(static_cast<float>(as_double(x[r * cols + c]))));
    }
    wrong += scale[r] != std::fmax(amax / most<Q>, std::numeric_limits<float>::min());
    for (std::size_t c = 0; c < cols; ++c) {
      double const v = as_double(got[r * cols + c]);
      wrong += v != rounded<Q>(static_cast<float>(as_double(x[r * cols + c])), scale[r]);
      wrong += !(std::fabs(v) <= as_double(most<Q>));
    }
  }
  CHECK(wrong == 0);
  CHECK((q.intact(s) && scales.intact(s)));
  // Beside what it is of, which is then kept.
  ew::run_rows(s, {rows, cols}, ew::out(copy.data(), n) = f.input(), ew::out(q.data(), n) = f);
  CHECK(std::memcmp(copy.fetch(s).data(), x.data(), n * sizeof(T)) == 0);
  CHECK(std::memcmp(q.fetch(s).data(), got.data(), n) == 0);
}

template <class Q>
void check_sizes() {
  for (std::size_t const cols : {32U, 128U}) {  // blocks
    check<Q, __nv_bfloat16>(700, cols);
    check<Q, float>(333, cols, 1);
  }
  for (std::size_t const cols : {1U, 7U, 100U, 1023U, 4096U}) check<Q, __nv_bfloat16>(6, cols);
  check<Q, __half>(5, 4099, 3);
  if (kernel_test::sanitized) return;
  check<Q, __nv_bfloat16>(5, 8192);
  check<Q, float>(5, 20001, 2);  // streamed
  check<Q, __nv_bfloat16>(2, 250000);
}

TEST_CASE("rows and blocks are quantised to e4m3") { check_sizes<__nv_fp8_e4m3>(); }
TEST_CASE("rows and blocks are quantised to e5m2") { check_sizes<__nv_fp8_e5m2>(); }
TEST_CASE("rows and blocks are quantised to int8") { check_sizes<std::int8_t>(); }

TEST_CASE("a NaN and an infinity are in the scale, of their row alone") {
  ww::stream s;
  for (std::size_t const cols : {32U, 1000U, 20000U}) {
    std::vector<float> x(3 * cols, 1.0F);
    x[cols / 2] = NAN;
    x[cols + 3] = -INFINITY;
    guarded<float> const dx{x}, scales{3};
    guarded<__nv_fp8_e4m3> const q{x.size()};
    guarded<std::int8_t> const i{x.size()};
    auto const e = ew::in(dx.data(), x.size());
    auto const f = ew::quantize<__nv_fp8_e4m3>(e);
    ew::run_rows(s, {3, cols}, ew::out(q.data(), x.size()) = f,
                 ew::out(scales.data(), 3) = f.scale());
    ew::run_rows(s, {3, cols}, ew::out(i.data(), x.size()) = ew::quantize<std::int8_t>(e));
    auto const scale = scales.fetch(s);
    CHECK((std::isnan(scale[0]) && std::isinf(scale[1]) && scale[2] == 1.0F / 448));
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      wrong += k < 2 * cols ? !std::isnan(as_double(q.data()[k])) : as_double(q.data()[k]) != 448;
      wrong += i.data()[k] != (k < 2 * cols ? 0 : 127);
    }
    CHECK(wrong == 0);
  }
  guarded<float> const x{8};
  CHECK(ew::describe(ew::quantize<__nv_fp8_e5m2>(ew::in(x.data(), 8)).scale()) ==
        "quantize<e5m2>(in f32[8]).scale()");
}

}  // namespace
