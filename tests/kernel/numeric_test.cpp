// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// fp8 elements against the formats' definition in fp64, saturating casts, and distances.

#include <cuda_fp8.h>

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/numeric.hpp>

#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::evaluate;
using kernel_test::guarded;
using test_support::device_array;

namespace {

using e4m3 = __nv_fp8_e4m3;
using e5m2 = __nv_fp8_e5m2;

template <class T>
T from_bits(unsigned bits) {
  T value;
  value.__x = static_cast<__nv_fp8_storage_t>(bits);
  return value;
}
template <class T>
unsigned to_bits(T const& value) {
  return value.__x;
}

// The formats as "FP8 Formats for Deep Learning" (arXiv:2209.05433, table 1) defines them.
template <class T>
struct format;
template <>
struct format<e4m3> {
  static constexpr int mantissa = 3, bias = 7;
  static constexpr unsigned last = 0x7e;
  static constexpr __nv_fp8_interpretation_t cuda = __NV_E4M3;
};
template <>
struct format<e5m2> {
  static constexpr int mantissa = 2, bias = 15;
  static constexpr unsigned last = 0x7b;
  static constexpr __nv_fp8_interpretation_t cuda = __NV_E5M2;
};

template <class T>
double decoded(unsigned bits) {
  double const sign = bits >= 0x80 ? -1 : 1;
  unsigned const magnitude = bits & 0x7fU;
  if (magnitude > format<T>::last) {
    return std::is_same<T, e5m2>::value && magnitude == 0x7c ? sign * HUGE_VAL : std::nan("");
  }
  unsigned const fraction_of = 1U << static_cast<unsigned>(format<T>::mantissa);
  int const exponent = static_cast<int>(magnitude / fraction_of);
  double const fraction = static_cast<double>(magnitude % fraction_of) / fraction_of;
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - format<T>::bias)
                               : std::ldexp(1 + fraction, exponent - format<T>::bias));
}

// The nearest of all finite numbers; of two equally near ones the one whose last bit is 0.
template <class T>
unsigned encoded(double value) {
  if (std::isnan(value)) return 0x7f;
  // All numbers past twice the largest one saturate, and differences there are inexact.
  double const magnitude = std::fmin(std::fabs(value), 2 * decoded<T>(format<T>::last));
  unsigned best = 0;
  for (unsigned k = 1; k <= format<T>::last; ++k) {
    double const closer =
        std::fabs(decoded<T>(best) - magnitude) - std::fabs(decoded<T>(k) - magnitude);
    if (closer > 0 || (closer == 0 && k % 2 == 0)) best = k;
  }
  return best + (std::signbit(value) ? 0x80U : 0U);
}

// Every number, every midpoint between neighbours, the neighbours of both, and the limits.
template <class T>
std::vector<float> boundaries() {
  std::vector<float> values{std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::max(),
                            HUGE_VALF,
                            NAN,
                            std::numeric_limits<float>::signaling_NaN(),
                            1e-30F,
                            1e30F};
  auto const around = [&](double v) {
    auto const f = static_cast<float>(v);
    values.insert(values.end(), {f, std::nextafter(f, 0.0F), std::nextafter(f, HUGE_VALF)});
  };
  for (unsigned k = 0; k <= format<T>::last; ++k) {
    double const next =
        k == format<T>::last ? 2 * decoded<T>(k) - decoded<T>(k - 1) : decoded<T>(k + 1);
    around(decoded<T>(k));
    around((decoded<T>(k) + next) / 2);
    around(next);
  }
  std::size_t const n = values.size();
  for (std::size_t i = 0; i < n; ++i) values.push_back(-values[i]);
  return values;
}

template <class T>
std::vector<T> all_patterns(unsigned rotation = 0) {
  std::vector<T> patterns(256);
  for (unsigned k = 0; k < 256; ++k) patterns[k] = from_bits<T>((k + rotation) % 256);
  return patterns;
}

template <class T>
std::size_t wrongly_decoded(float const* got, std::vector<T> const& patterns) {
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < patterns.size(); ++k) {
    double const expected = decoded<T>(to_bits(patterns[k]));
    auto const value = static_cast<double>(got[k]);
    bool const right = std::isnan(expected)
                           ? std::isnan(value)
                           : value == expected && std::signbit(value) == std::signbit(expected);
    if (!right) ++wrong;
  }
  return wrong;
}

template <class T>
void check_decoding() {
  ww::stream s;
  for (std::size_t at : {0U, 1U, 3U, 7U, 14U}) {
    auto const patterns = all_patterns<T>(static_cast<unsigned>(at) * 5);
    guarded<T> x{patterns, at};
    guarded<float> y{256, at};
    ew::run(s, ew::out(y.data(), 256) = ew::in(x.data(), 256));
    CHECK(wrongly_decoded(y.fetch(s).data(), patterns) == 0);
    // In vectors of 16, of 8 (beside 16-bit floats) and of 2 (beside doubles), in both directions.
    guarded<T> back{256, at};
    ew::run(s, ew::out(back.data(), 256) = ew::in(x.data(), 256));
    device_array<__half> half{256};
    ew::run(s, ew::out(half.data(), 256) = ew::in(x.data(), 256));
    guarded<T> from_half{256, at};
    ew::run(s, ew::out(from_half.data(), 256) = ew::in(half.data(), 256));
    device_array<double> wide{256};
    ew::run(s, ew::out(wide.data(), 256) = ew::in(x.data(), 256));
    guarded<T> from_wide{256, at};
    ew::run(s, ew::out(from_wide.data(), 256) = ew::in(wide.data(), 256));
    auto const a = back.fetch(s), b = from_half.fetch(s), c = from_wide.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < 256; ++k) {
      unsigned const expected = encoded<T>(decoded<T>(to_bits(patterns[k])));
      if (to_bits(a[k]) != expected || to_bits(b[k]) != expected || to_bits(c[k]) != expected) {
        ++wrong;
      }
    }
    CHECK(wrong == 0);
    CHECK((back.intact(s) && from_half.intact(s) && from_wide.intact(s)));
  }
}

template <class T>
void check_encoding() {
  ww::stream s;
  std::vector<float> const values = boundaries<T>();
  std::size_t const n = values.size();
  std::vector<unsigned> expected(n);
  std::size_t unlike_cuda = 0;
  for (std::size_t i = 0; i < n; ++i) {
    expected[i] = encoded<T>(static_cast<double>(values[i]));
    if (expected[i] != __nv_cvt_float_to_fp8(values[i], __NV_SATFINITE, format<T>::cuda)) {
      ++unlike_cuda;
    }
  }
  CHECK(unlike_cuda == 0);
  for (std::size_t at = 0; at < 5; ++at) {
    CAPTURE(at);
    guarded<float> x{values, 0};
    guarded<T> y{n, at};
    ew::run(s, ew::out(y.data(), n) = ew::in(x.data(), n));
    auto const got = y.fetch(s);
    std::vector<T> here(n);
    ew::evaluate_host(ew::out(here.data(), n) = ew::cast<T>(ew::in(values.data(), n)));
    guarded<float> px{values, at};
    guarded<T> py{n, 2 * at};
    ew::run(s, ew::out(py.data(), n) = ew::in(px.data(), n));
    auto const shifted = py.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (to_bits(got[i]) != expected[i] || to_bits(here[i]) != expected[i] ||
          to_bits(shifted[i]) != expected[i]) {
        if (++wrong <= 3) UNSCOPED_INFO(values[i] << " becomes " << to_bits(got[i]));
      }
    }
    CHECK(wrong == 0);
    CHECK((y.intact(s) && py.intact(s)));
  }
}

// Floats of all exponents against CUDA's own conversion.
template <class T>
void check_like_cuda() {
  std::uint64_t const seed = 41;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  std::vector<float> values(300001);
  for (float& v : values) {
    // Half of them near the format's range, with few bits set.
    auto bits = static_cast<std::uint32_t>(random.next());
    if (random.below(2) == 0) bits = (bits & 0x80ffffffU) | 0x3f000000U;
    bits &= ~std::uint32_t{0} << static_cast<std::uint32_t>(random.below(24));
    std::memcpy(&v, &bits, sizeof v);
    if (random.below(2) == 0) v = std::ldexp(v, static_cast<int>(random.below(40)) - 20);
  }
  std::size_t const n = values.size();
  ww::stream s;
  device_array<float> x{values};
  device_array<T> y{n};
  ew::run(s, ew::out(y.data(), n) = ew::in(x.data(), n));
  auto const got = y.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (to_bits(got[i]) != __nv_cvt_float_to_fp8(values[i], __NV_SATFINITE, format<T>::cuda)) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
}

// x * 2 + y, exact in fp8, with operands of other types and at all alignments.
template <class O, class X, class Y>
void check_types() {
  std::uint64_t const seed = 43;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  for (int k = 0; k < 60; ++k) {
    std::size_t const n = 1 + random.below(k % 10 == 0 ? 9000 : 300);
    std::size_t const at_o = random.below(16), at_x = random.below(16), at_y = random.below(16);
    CAPTURE(n, at_o, at_x, at_y);
    std::vector<X> x(n);
    std::vector<Y> y(n);
    std::vector<double> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      auto const a = static_cast<float>(random.below(3)), b = static_cast<float>(random.below(4));
      x[i] = static_cast<X>(a), y[i] = static_cast<Y>(b);
      expected[i] = static_cast<double>(a * 2 + b);
    }
    guarded<X> dx{x, at_x};
    guarded<Y> dy{y, at_y};
    guarded<O> dout{n, at_o};
    ww::stream s;
    ew::run(s, ew::out(dout.data(), n) = ew::in(dx.data(), n) * 2 + ew::in(dy.data(), n));
    auto const got = dout.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (static_cast<double>(static_cast<float>(got[i])) != expected[i]) ++wrong;
    }
    REQUIRE(wrong == 0);
    REQUIRE(dout.intact(s));
  }
}

template <class To, class From>
std::vector<double> saturated(std::vector<From> const& values) {
  ww::stream s;
  std::size_t const n = values.size();
  device_array<From> x{values};
  device_array<double> y{n};
  ew::run(s, ew::out(y.data(), n) = ew::saturate_cast<To>(ew::in(x.data(), n)));
  return y.fetch(s);
}
using list = std::vector<double>;

template <class To, class From>
void check_integers() {
  __extension__ typedef __int128 wide;
  using from = std::numeric_limits<From>;
  using to = std::numeric_limits<To>;
  std::vector<From> values{0, 1, from::max(), from::min(), from::max() / 2, from::min() / 2};
  std::vector<wide> const ends{to::max(), wide{to::max()} - 1, wide{to::max()} + 1,
                               to::min(), wide{to::min()} - 1, wide{to::min()} + 1,
                               -1};
  for (wide const e : ends) {
    if (e <= from::max() && e >= from::min()) values.push_back(static_cast<From>(e));
  }
  ww::stream s;
  std::size_t const n = values.size();
  device_array<From> x{values};
  device_array<To> y{n};
  ew::run(s, ew::out(y.data(), n) = ew::saturate_cast<To>(ew::in(x.data(), n)));
  auto const got = y.fetch(s);
  for (std::size_t i = 0; i < n; ++i) {
    wide v = values[i];
    if (v > wide{to::max()}) v = to::max();
    if (v < wide{to::min()}) v = to::min();
    CAPTURE(i);
    CHECK(got[i] == static_cast<To>(v));
  }
}
template <class To, class... From>
void check_integers_to() {
  (check_integers<To, From>(), ...);
}
#if WARPWRIGHT_TEST_EVERY_TYPE
template <class To>
void check_every_integer_to() {
  check_integers_to<To, signed char, unsigned char, short, unsigned short, int, unsigned, long long,
                    unsigned long long>();
}
#endif

template <class T>
T half_from_bits(unsigned bits) {
  auto const narrow = static_cast<std::uint16_t>(bits);
  T value;
  std::memcpy(static_cast<void*>(&value), &narrow, sizeof narrow);
  return value;
}

}  // namespace

TEST_CASE("every fp8 number is loaded exactly, and stored unchanged") {
  check_decoding<e4m3>();
  check_decoding<e5m2>();
}

TEST_CASE("floats round to fp8 at every boundary as computed in fp64, and saturate") {
  check_encoding<e4m3>();
  check_encoding<e5m2>();
}

TEST_CASE("floats round to fp8 as CUDA's own conversion does") {
  check_like_cuda<e4m3>();
  check_like_cuda<e5m2>();
}

TEST_CASE("fp8 mixes with other types at every alignment") {
  check_types<e4m3, e4m3, e4m3>();
  check_types<float, e5m2, e4m3>();
  check_types<e4m3, double, unsigned char>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_types<e5m2, e4m3, float>();
  check_types<e4m3, __half, e5m2>();
  check_types<double, e4m3, __nv_bfloat16>();
#endif
}

TEST_CASE("fp8 as rows, columns and device scalars") {
  ww::stream s;
  std::size_t const cols = 16, n = 48;
  device_array<e4m3> row{all_patterns<e4m3>(0x30)};
  device_array<e5m2> col{all_patterns<e5m2>(0x38)};
  device_array<e4m3> one{std::vector<e4m3>{from_bits<e4m3>(0x44)}};  // 3
  device_array<float> y{n};
  for (std::size_t length : {cols, std::size_t{6}}) {
    ew::run(s, ew::out(y.data(), n) =
                   ew::row(row.data(), length) * ew::col(col.data(), length) +
                   ew::device_scalar(one.data()) * ew::constant(from_bits<e5m2>(0x3c)) +
                   from_bits<e4m3>(0x38) * ew::index());
    auto const got = y.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double const expected = decoded<e4m3>(0x30 + static_cast<unsigned>(i % length)) *
                                  decoded<e5m2>(0x38 + static_cast<unsigned>(i / length)) +
                              3 + static_cast<double>(i);
      if (static_cast<double>(got[i]) != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("cast to fp8 rounds within an expression") {
  std::vector<float> const x{1, 1.0624F, 1.0626F, 500, -1e30F, HUGE_VALF};
  list y(6);
  ew::evaluate_host(ew::out(y.data(), 6) = ew::cast<e4m3>(ew::in(x.data(), 6)) * 2);
  CHECK(y == list{2, 2, 2.25, 896, -896, 896});
  ew::evaluate_host(ew::out(y.data(), 6) = ew::cast<e5m2>(ew::in(x.data(), 6)) * 2);
  CHECK(y == list{2, 2, 2, 1024, -114688, 114688});
}

TEST_CASE("saturate_cast keeps integers in range") {
  check_integers_to<signed char, signed char, int, unsigned long long>();
  check_integers_to<unsigned, signed char, int, unsigned long long>();
  check_integers_to<long long, signed char, int, unsigned long long>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_every_integer_to<signed char>();
  check_every_integer_to<unsigned char>();
  check_every_integer_to<short>();
  check_every_integer_to<unsigned short>();
  check_every_integer_to<int>();
  check_every_integer_to<unsigned>();
  check_every_integer_to<long long>();
  check_every_integer_to<unsigned long long>();
#endif
}

TEST_CASE("saturate_cast of floating point truncates to integers, NaN to 0") {
  std::vector<float> const x{127.9F, 128, -128.9F, -129, 1e30F, -HUGE_VALF, HUGE_VALF, NAN, -0.5F};
  CHECK(saturated<signed char>(x) == list{127, 127, -128, -128, 127, -128, 127, 0, 0});
  CHECK(saturated<unsigned char>(x) == list{127, 128, 0, 0, 255, 0, 255, 0, 0});
  std::vector<double> const d{2147483647.5, 2147483648.0, -1e300, std::nan("")};
  CHECK(saturated<int>(d) == list{2147483647, 2147483647, -2147483648.0, 0});
}

TEST_CASE("saturate_cast of floating point never returns infinity, and keeps NaN") {
  std::vector<double> const x{65519, 65520, -1e300, HUGE_VAL, 1e-30, 1 + 0x1p-11};
  CHECK(saturated<__half>(x) == list{65504, 65504, -65504, 65504, 0, 1});
  std::vector<float> const f{65519, 65520, -HUGE_VALF, 3e38F};
  CHECK(saturated<__half>(f) == list{65504, 65504, -65504, 65504});
  double const most = 0x1.fep127;
  std::vector<double> const b{3.3895e38, 3.4e38, 1e300, -HUGE_VAL};
  CHECK(saturated<__nv_bfloat16>(b) == list{most, most, most, -most});
  CHECK(saturated<__nv_bfloat16>(std::vector<float>{3.4e38F, HUGE_VALF}) == list{most, most});
  double const largest = static_cast<double>(std::numeric_limits<float>::max());
  CHECK(saturated<float>(std::vector<double>{1e300, -HUGE_VAL, 0.5}) ==
        list{largest, -largest, 0.5});
  CHECK(saturated<double>(std::vector<double>{1e300, -HUGE_VAL}) ==
        list{1e300, -std::numeric_limits<double>::max()});
  CHECK(saturated<e4m3>(std::vector<float>{449, HUGE_VALF, -1e9F}) == list{448, 448, -448});
  CHECK(saturated<__half>(std::vector<long long>{70000, -70000, 3}) == list{65504, -65504, 3});
  std::vector<float> const nan{NAN};
  CHECK(std::isnan(saturated<__half>(nan)[0]));
  CHECK(std::isnan(saturated<__nv_bfloat16>(nan)[0]));
  CHECK(std::isnan(saturated<float>(std::vector<double>{std::nan("")})[0]));
  CHECK(std::isnan(saturated<e5m2>(nan)[0]));
}

TEST_CASE("ulp_distance across zero, up to infinity, and of NaN") {
  std::uint64_t const never = ~std::uint64_t{0};
  CHECK(ew::ulp_distance(1.0F, 1.0F) == 0);
  CHECK(ew::ulp_distance(1.0F, std::nextafter(1.0F, 2.0F)) == 1);
  CHECK(ew::ulp_distance(std::nextafter(1.0F, 0.0F), std::nextafter(1.0F, 2.0F)) == 2);
  CHECK(ew::ulp_distance(1.0F, 2.0F) == 1U << 23U);
  CHECK(ew::ulp_distance(0.0F, -0.0F) == 0);
  float const least = std::numeric_limits<float>::denorm_min();
  CHECK(ew::ulp_distance(least, -least) == 2);
  CHECK(ew::ulp_distance(-least, 0.0F) == 1);
  CHECK(ew::ulp_distance(std::numeric_limits<float>::max(), HUGE_VALF) == 1);
  CHECK(ew::ulp_distance(-HUGE_VALF, HUGE_VALF) == 2 * std::uint64_t{0x7f800000});
  CHECK(ew::ulp_distance(NAN, NAN) == 0);
  CHECK(ew::ulp_distance(NAN, -NAN) == 0);
  CHECK(ew::ulp_distance(NAN, HUGE_VALF) == never);
  CHECK(ew::ulp_distance(1.0F, NAN) == never);
  CHECK(ew::ulp_distance(1.0, std::nextafter(1.0, 2.0)) == 1);
  CHECK(ew::ulp_distance(-HUGE_VAL, HUGE_VAL) == 2 * std::uint64_t{0x7ff0000000000000});
  CHECK(ew::ulp_distance(std::nan(""), 0.0) == never);
  auto const f16 = [](unsigned bits) { return half_from_bits<__half>(bits); };
  CHECK(ew::ulp_distance(f16(0x3c00), f16(0x3c03)) == 3);
  CHECK(ew::ulp_distance(f16(0x8001), f16(0x0001)) == 2);
  CHECK(ew::ulp_distance(f16(0x7bff), f16(0x7c00)) == 1);
  CHECK(ew::ulp_distance(f16(0x7c01), f16(0xffff)) == 0);
  CHECK(ew::ulp_distance(f16(0x7c01), f16(0x7c00)) == never);
  auto const bf16 = [](unsigned bits) { return half_from_bits<__nv_bfloat16>(bits); };
  CHECK(ew::ulp_distance(bf16(0x3f80), bf16(0x3f81)) == 1);
  CHECK(ew::ulp_distance(bf16(0x7f80), bf16(0xff80)) == 2 * 0x7f80U);
  CHECK(ew::ulp_distance(bf16(0x7f81), bf16(0x3f80)) == never);
}
