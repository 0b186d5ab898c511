// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp8.h>

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/numeric.hpp>
#include <warpwright/kernel/reduce_rows.hpp>
#include <warpwright/kernel/rows.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/sanitized.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;
using test_support::rounds;

namespace {

template <class T>
T from_bits(std::uint16_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof bits);
  return value;
}
template <class T>
std::uint16_t to_bits(T const& value) {
  std::uint16_t bits;
  std::memcpy(&bits, static_cast<void const*>(&value), sizeof bits);
  return bits;
}

// Floats of all kinds: halfway cases of both 16-bit formats, special values, random bits.
std::vector<float> all_kinds_of_floats() {
  std::vector<float> values;
  auto const add = [&](std::uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, sizeof f);
    values.push_back(f);
  };
  for (std::uint32_t high = 0; high <= 0xffffU; high += test_support::sanitized ? 7 : 1) {
    for (std::uint32_t low : {0U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      add(high << 16U | low);
    }
  }
  kernel_test::random_numbers random{11};
  for (int k = 0; k < rounds(100000); ++k) add(static_cast<std::uint32_t>(random.next()));
  return values;
}

template <class T>
void round_trip_all_patterns() {
  std::vector<T> patterns(65536);
  for (unsigned k = 0; k < 65536; ++k) patterns[k] = from_bits<T>(static_cast<std::uint16_t>(k));
  device_array<T> x{patterns};
  device_array<float> wide{65536};
  device_array<T> back{65536};
  ww::stream s;
  ew::run(s, ew::out(wide.data(), 65536) = ew::in(x.data(), 65536));
  ew::run(s, ew::out(back.data(), 65536) = ew::in(wide.data(), 65536));
  auto const floats = wide.fetch(s);
  auto const same = back.fetch(s);
  int wrong = 0;
  for (unsigned k = 0; k < 65536; ++k) {
    double const expected = kernel_test::as_double(patterns[k]);
    auto const got = static_cast<double>(floats[k]);
    bool const ok = std::isnan(expected)
                        ? std::isnan(got) && std::isnan(kernel_test::as_double(same[k]))
                        : expected == got && std::signbit(expected) == std::signbit(got) &&
                              to_bits(same[k]) == k;
    if (!ok) ++wrong;
  }
  CHECK(wrong == 0);
}

template <class T>
void rounds_like_cuda() {
  std::vector<float> const values = all_kinds_of_floats();
  std::size_t const n = values.size();
  device_array<float> x{values};
  device_array<T> y{n};
  ww::stream s;
  ew::run(s, ew::out(y.data(), n) = ew::in(x.data(), n));
  auto const got = y.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    T const expected = kernel_test::number<T>(static_cast<double>(values[k]));
    bool const nan = std::isnan(values[k]);
    if (nan ? to_bits(got[k]) != 0x7fffU : to_bits(got[k]) != to_bits(expected)) ++wrong;
  }
  CHECK(wrong == 0);
}

// Of a small format: digits behind the point, the exponent of the least number, the greatest
// number.
template <class T>
struct format;
template <>
struct format<__half> {
  static constexpr int digits = 10, least = -24;
  static constexpr double most = 65504;
  static constexpr bool saturates = false;
  static std::uint16_t cuda(double v) { return to_bits(__double2half(v)); }
};
template <>
struct format<__nv_bfloat16> {
  static constexpr int digits = 7, least = -133;
  static constexpr double most = 0x1.fep127;
  static constexpr bool saturates = false;
  static std::uint16_t cuda(double v) { return to_bits(__double2bfloat16(v)); }
};
template <>
struct format<__nv_fp8_e4m3> {
  static constexpr int digits = 3, least = -9;
  static constexpr double most = 448;
  static constexpr bool saturates = true;
  static std::uint16_t cuda(double v) {
    return __nv_cvt_double_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
  }
};
template <>
struct format<__nv_fp8_e5m2> {
  static constexpr int digits = 2, least = -16;
  static constexpr double most = 57344;
  static constexpr bool saturates = true;
  static std::uint16_t cuda(double v) {
    return __nv_cvt_double_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
  }
};

template <class T>
unsigned bits_of(T const& value) {
  unsigned bits = 0;
  std::memcpy(&bits, static_cast<void const*>(&value), sizeof value);
  return bits;
}

// The nearest number of T, of two the even one; long double holds doubles and 64-bit integers.
template <class T>
double nearest(long double value, bool saturate) {
  using f = format<T>;
  if (std::isnan(value)) return std::nan("");
  long double const magnitude = std::fabs(value);
  double result = f::most * 2;
  if (!std::isinf(magnitude)) {
    int exponent = f::least;
    if (magnitude != 0) exponent = std::max(f::least, std::ilogb(magnitude) - f::digits);
    long double const scaled = std::ldexp(magnitude, -exponent);
    long double whole = std::floor(scaled);
    long double const rest = scaled - whole;
    if (rest > 0.5L || (rest == 0.5L && std::fmod(whole, 2.0L) != 0)) whole += 1;
    result = static_cast<double>(std::ldexp(whole, exponent));
  }
  if (result > f::most) result = saturate || f::saturates ? f::most : HUGE_VAL;
  return std::copysign(result, static_cast<double>(value));
}
template <class T>
bool is(T const& got, double expected) {
  if (std::isnan(expected)) return bits_of(got) == (sizeof(T) == 1 ? 0x7fU : 0x7fffU);
  double const value =
      sizeof(T) == 1 ? static_cast<double>(static_cast<float>(got)) : kernel_test::as_double(got);
  return value == expected && std::signbit(value) == std::signbit(expected);
}

// Values of T, what lies halfway between neighbours, and what lies beside that by all that From
// can tell apart, or by less than a float can.
template <class T>
std::vector<double> doubles_around() {
  std::vector<double> values{0.0,
                             5e-324,
                             0x1p-149,
                             0x1p-150,
                             0x1.8p-134,
                             0x1.fffffep127,
                             0x1.ffffffp127,
                             0x1p128,
                             1e300,
                             std::numeric_limits<double>::max(),
                             HUGE_VAL,
                             std::nan(""),
                             1 + 0x1p-11 + 0x1p-40};
  kernel_test::random_numbers random{12};
  int const top = std::ilogb(format<T>::most);
  for (int k = 0; k < rounds(20000); ++k) {
    int const exponent =
        format<T>::least - 2 +
        static_cast<int>(random.below(static_cast<std::size_t>(top - format<T>::least + 5)));
    double const spread = std::ldexp(1 + random.unit(), exponent);
    double const number = nearest<T>(static_cast<long double>(spread), true);
    int const unit = number == 0  // of which ilogb() is the least int
                         ? format<T>::least
                         : std::max(format<T>::least, std::ilogb(number) - format<T>::digits);
    double const middle = number + std::ldexp(0.5, unit);
    for (double v : {spread, number, middle, std::nextafter(middle, 0.0),
                     std::nextafter(middle, HUGE_VAL), middle * (1 + 0x1p-40),
                     middle * (1 - 0x1p-40), middle * (1 + 0x1p-25), middle * (1 - 0x1p-26)}) {
      values.push_back(v);
    }
  }
  for (int k = 0; k < rounds(20000); ++k) {
    std::uint64_t const bits = random.next();
    double v;
    std::memcpy(&v, &bits, sizeof v);
    if (!std::isnan(v)) values.push_back(v);
  }
  std::size_t const n = values.size();
  for (std::size_t k = 0; k < n; ++k) values.push_back(-values[k]);
  return values;
}
template <class Integer>
std::vector<Integer> integers_around() {
  using limits = std::numeric_limits<Integer>;
  std::vector<Integer> values{0, 1, limits::max(), limits::min(), limits::max() / 2 + 1};
  if (sizeof(Integer) > 2) {
    values.push_back(static_cast<Integer>((1U << 30U) + (1U << 22U) + 1U));
    values.push_back(static_cast<Integer>((1U << 24U) + 1U));
  }
  kernel_test::random_numbers random{13};
  for (int k = 0; k < rounds(20000); ++k) {
    std::uint64_t const digits = random.next();
    values.push_back(static_cast<Integer>(digits >> random.below(64)));
    std::uint64_t const middle = ((digits & 0xffU) | 0x101U) << random.below(56);
    for (std::uint64_t v : {middle, middle + 1, middle - 1}) {
      values.push_back(static_cast<Integer>(v));
      values.push_back(static_cast<Integer>(~v));
      values.push_back(static_cast<Integer>(0 - v));
    }
  }
  return values;
}

// Written, cast and saturated by run(), and on this thread.
template <class T, class From>
void rounds_once(std::vector<From> const& values) {
  std::size_t const n = values.size();
  device_array<From> x{values};
  device_array<T> written{n}, there_and_back{n}, limited{n}, copied{n};
  ww::stream s;
  auto const e = ew::in(x.data(), n);
  ew::run(
      s, ew::tie(ew::out(written.data(), n) = e, ew::out(there_and_back.data(), n) = ew::cast<T>(e),
                 ew::out(limited.data(), n) = ew::saturate_cast<T>(e)));
  ew::tensor_list<ew::write_only<T>, From const> list;
  list.add(copied.data(), x.data(), n);
  ew::cast_each(s, list);
  std::vector<T> here(n);
  ew::evaluate_host(ew::out(here.data(), n) = ew::in(values.data(), n));
  auto const a = written.fetch(s), b = there_and_back.fetch(s), c = limited.fetch(s),
             d = copied.fetch(s);
  int wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    auto const v = static_cast<long double>(values[k]);
    double const expected = nearest<T>(v, false);
    bool const right = is(a[k], expected) && is(b[k], expected) && is(d[k], expected) &&
                       is(here[k], expected) && is(c[k], nearest<T>(v, true));
    if (!right && ++wrong <= 3) UNSCOPED_INFO("of " << v << ", expected " << expected);
  }
  CHECK(wrong == 0);
}
template <class T>
void rounds_doubles_once() {
  std::vector<double> const values = doubles_around<T>();
  int unlike_cuda = 0;
  for (double v : values) {
    if (std::isnan(v) && format<T>::saturates) continue;  // the host's have signs, the GPU's not
    T value;
    auto const bits = format<T>::cuda(v);
    std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    unlike_cuda += !is(value, nearest<T>(static_cast<long double>(v), false));
  }
  CHECK(unlike_cuda == 0);
  rounds_once<T>(values);
}
// CUDA's own conversions are of `Integer` to T.
template <class T, class Integer, class Cuda>
void rounds_integers_once(Cuda const& cuda) {
  std::vector<Integer> const values = integers_around<Integer>();
  int unlike_cuda = 0;
  for (Integer v : values) {
    unlike_cuda += !is(cuda(v), nearest<T>(static_cast<long double>(v), false));
  }
  CHECK(unlike_cuda == 0);
  rounds_once<T>(values);
}

template <class To>
void saturates() {
  double const top = static_cast<double>(std::numeric_limits<To>::max());
  double const bottom = static_cast<double>(std::numeric_limits<To>::min());
  std::vector<double> const values{
      0.0,    -0.0,           0.9,   -0.9,   1.5,      -1.5,      100.99,      top, top * 2 + 5,
      bottom, bottom * 2 - 5, 1e300, -1e300, HUGE_VAL, -HUGE_VAL, std::nan("")};
  std::size_t const n = values.size();
  device_array<double> x{values};
  device_array<To> y{n};
  device_array<To> y_of_float{n};
  ww::stream s;
  ew::run(s, ew::out(y.data(), n) = ew::in(x.data(), n));
  ew::run(s, ew::out(y_of_float.data(), n) = ew::cast<float>(ew::in(x.data(), n)));
  auto const got = y.fetch(s);
  auto const got_of_float = y_of_float.fetch(s);
  for (std::size_t k = 0; k < n; ++k) {
    CAPTURE(k, values[k]);
    auto const expect = [&](double v) {
      if (std::isnan(v)) return To{0};
      // Compared where both sides are exact: top + 1 is a power of two, or top itself rounds to it.
      if (v >= top) return std::numeric_limits<To>::max();
      if (v <= bottom) return std::numeric_limits<To>::min();
      return static_cast<To>(v);
    };
    CHECK(got[k] == expect(values[k]));
    CHECK(got_of_float[k] == expect(static_cast<double>(static_cast<float>(values[k]))));
  }
}

}  // namespace

TEST_CASE("every 16-bit pattern survives the way to float and back") {
  round_trip_all_patterns<__half>();
  round_trip_all_patterns<__nv_bfloat16>();
}

TEST_CASE("floats round to 16 bits as CUDA's own conversions do") {
  rounds_like_cuda<__half>();
  rounds_like_cuda<__nv_bfloat16>();
}

TEST_CASE("doubles round to 16 and 8 bits once, as CUDA's own conversions do") {
  rounds_doubles_once<__half>();
  rounds_doubles_once<__nv_bfloat16>();
  rounds_doubles_once<__nv_fp8_e4m3>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  rounds_doubles_once<__nv_fp8_e5m2>();
#endif
}

TEST_CASE("integers round to 16 bits once, as CUDA's own conversions do") {
  using b = __nv_bfloat16;
  using h = __half;
  rounds_integers_once<b, int>([](int v) { return __int2bfloat16_rn(v); });
  rounds_integers_once<b, unsigned>([](unsigned v) { return __uint2bfloat16_rn(v); });
  rounds_integers_once<b, long long>([](long long v) { return __ll2bfloat16_rn(v); });
  rounds_integers_once<b, unsigned long long>(
      [](unsigned long long v) { return __ull2bfloat16_rn(v); });
  rounds_integers_once<h, long long>([](long long v) { return __ll2half_rn(v); });
#if WARPWRIGHT_TEST_EVERY_TYPE
  rounds_integers_once<b, short>([](short v) { return __short2bfloat16_rn(v); });
  rounds_integers_once<h, int>([](int v) { return __int2half_rn(v); });
#endif
}

TEST_CASE("integers round to fp8 once") {
  rounds_once<__nv_fp8_e4m3>(integers_around<unsigned>());
  rounds_once<__nv_fp8_e5m2>(integers_around<long long>());
}

TEST_CASE("results of rows round to 16 bits once") {
  double const value = 1 + 0x1p-11 + 0x1p-40;
  device_array<double> x{std::vector<double>{value, value}};
  device_array<__half> largest{1}, mean{1}, rows{2};
  ww::stream s;
  ew::reduce_rows(s, {1, 2}, ew::to(largest.data()) = ew::max(ew::in(x.data(), 2)));
  auto const normal = ew::layer_norm(ew::in(x.data(), 2), 1.0);
  ew::run_rows(s, {1, 2}, ew::out(rows.data(), 2) = normal * 0.0 + ew::in(x.data(), 2),
               ew::out(mean.data(), 1) = normal.mean());
  CHECK(kernel_test::as_double(largest.fetch(s)[0]) == 1 + 0x1p-10);
  CHECK(kernel_test::as_double(mean.fetch(s)[0]) == 1 + 0x1p-10);
  CHECK(kernel_test::as_double(rows.fetch(s)[1]) == 1 + 0x1p-10);
}

TEST_CASE("floating point to integer truncates and saturates") {
  saturates<signed char>();
  saturates<unsigned>();
  saturates<long long>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  saturates<unsigned char>();
  saturates<short>();
  saturates<unsigned short>();
  saturates<int>();
  saturates<unsigned long long>();
#endif
}

TEST_CASE("cast rounds in the middle of an expression") {
  std::vector<float> const values{1.0F, 1.0F + 0x1p-12F, 70000.0F, 2049.0F, -3.7F};
  device_array<float> x{values};
  device_array<float> y{5};
  ww::stream s;
  ew::run(s, ew::out(y.data(), 5) = ew::cast<__half>(ew::in(x.data(), 5)) + 0.0F);
  CHECK(y.fetch(s) == std::vector<float>{1.0F, 1.0F, HUGE_VALF, 2048.0F, -3.69921875F});
  ew::run(s, ew::out(y.data(), 5) = ew::cast<int>(ew::in(x.data(), 5)) / 2);
  CHECK(y.fetch(s) == std::vector<float>{0.0F, 0.0F, 35000.0F, 1024.0F, -1.0F});
}
