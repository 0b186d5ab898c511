// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// + - * / and comparisons of floating point, one operation each, to the last bit: subnormal
// numbers, ties, overflow, infinities, NaN and signs of 0. double is held against the CPU's own,
// everything narrower against double rounded once: of two floats that is the nearest float, as
// double has more than twice the digits. 16-bit and 8-bit floats are computed as float and rounded
// again. Integers of 8 and 16 bits: as C++ promotes them, but that all overflow wraps.
#include <cuda_fp8.h>

#include <warpwright/kernel.hpp>

#include <cfloat>
#include <cmath>
#include <cstdio>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::number;
using kernel_test::random_numbers;
using test_support::device_array;

static_assert(FLT_EVAL_METHOD == 0, "the reference needs a CPU that rounds each operation");

namespace {

// A binary format's bits, and how many of them are mantissa and exponent.
template <class Bits, int Mantissa, int Exponent>
struct binary {
  using bits = Bits;
  static constexpr std::int64_t mantissa = Mantissa;
  static constexpr std::int64_t top = (std::int64_t{1} << Exponent) - 1;  // of infinity and NaN
  static constexpr std::int64_t bias = top / 2;
};
template <class T>
struct format;
template <>
struct format<__half> : binary<std::uint16_t, 10, 5> {};
template <>
struct format<__nv_bfloat16> : binary<std::uint16_t, 7, 8> {};
template <>
struct format<float> : binary<std::uint32_t, 23, 8> {};
template <>
struct format<double> : binary<std::uint64_t, 52, 11> {};

template <class T>
T from_bits(std::uint64_t all) {
  auto const bits = static_cast<typename format<T>::bits>(all);
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof bits);
  return value;
}
template <class T>
std::uint64_t to_bits(T const& value) {
  typename format<T>::bits bits;
  std::memcpy(&bits, static_cast<void const*>(&value), sizeof bits);
  return bits;
}
// The exponent's field is held within its ends; of the mantissa the lowest bits are taken.
template <class T>
T composed(bool negative, std::int64_t exponent, std::uint64_t mantissa) {
  using f = format<T>;
  std::int64_t const held = exponent < 0 ? 0 : exponent > f::top ? f::top : exponent;
  std::uint64_t const sign = std::uint64_t{negative} << (8 * sizeof(T) - 1);
  return from_bits<T>(sign | static_cast<std::uint64_t>(held) << f::mantissa |
                      (mantissa & ((std::uint64_t{1} << f::mantissa) - 1)));
}

// Of both signs: the ends of every range, 1 and its neighbours, and, for ties, halves of the last
// place of 1 and of the greatest number, with what is next to them.
template <class T>
std::vector<T> special_values() {
  using f = format<T>;
  constexpr std::uint64_t all = ~std::uint64_t{0};
  constexpr std::uint64_t half = std::uint64_t{1} << (f::mantissa - 1);
  std::vector<T> values;
  for (bool const negative : {false, true}) {
    auto const add = [&](std::int64_t exponent, std::uint64_t mantissa) {
      values.push_back(composed<T>(negative, exponent, mantissa));
    };
    for (std::uint64_t const m :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, half, all}) {
      add(0, m);
      add(f::bias, m);
    }
    add(1, 0), add(1, 1);
    add(f::bias, half + 1), add(f::bias - 1, all), add(f::bias - 1, 0), add(f::bias + 1, half);
    for (std::int64_t const one : {f::bias, f::top - 1}) {
      add(one - f::mantissa - 2, all), add(one - f::mantissa - 1, 0);
      add(one - f::mantissa - 1, 1), add(one - f::mantissa, 0);
    }
    add(f::top - 1, 0), add(f::top - 1, all), add(f::top, 0), add(f::top, half);
  }
  return values;
}

template <class T>
struct pairs {
  std::vector<T> x, y;
};
// All pairs of special values, and 100,000 at random: of any bits, of exponents close to each
// other, of nearly the same magnitude, and such that product or quotient is at an end of the range.
template <class T>
pairs<T> pairs_of_all_kinds(std::uint64_t seed) {
  using f = format<T>;
  pairs<T> p;
  std::vector<T> const special = special_values<T>();
  for (T const x : special) {
    for (T const y : special) p.x.push_back(x), p.y.push_back(y);
  }
  random_numbers random{seed};
  auto const between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(high - low)));
  };
  for (int k = 0; k < 100000; ++k) {
    std::int64_t const e = between(0, f::top);
    T const x = composed<T>(random.below(2) != 0, e, random.next());
    std::int64_t const end =
        random.below(2) != 0 ? between(-f::mantissa - 2, 4) : between(f::top - 2, f::top + 2);
    std::int64_t const of_y[] = {between(0, f::top + 1),
                                 e + between(-f::mantissa - 3, f::mantissa + 4), end - e + f::bias,
                                 e - end + f::bias};
    T y = composed<T>(random.below(2) != 0, of_y[k % 4], random.next());
    if (k % 8 == 0) y = from_bits<T>(to_bits(x) + random.below(7) - 3);
    if (k % 16 == 0) y = from_bits<T>(to_bits(y) ^ std::uint64_t{1} << (8 * sizeof(T) - 1));
    p.x.push_back(x), p.y.push_back(y);
  }
  return p;
}

// All pairs of what 8 bits can be.
template <class T>
pairs<T> all_pairs() {
  pairs<T> p;
  for (unsigned k = 0; k < 65536; ++k) {
    unsigned char const bytes[] = {static_cast<unsigned char>(k / 256),
                                   static_cast<unsigned char>(k % 256)};
    T x, y;
    std::memcpy(static_cast<void*>(&x), bytes, 1);
    std::memcpy(static_cast<void*>(&y), bytes + 1, 1);
    p.x.push_back(x), p.y.push_back(y);
  }
  return p;
}

// The ends of a 16-bit type, what lies beside them and beside powers of two, with one another and
// with numbers of all lengths at random.
template <class T>
pairs<T> pairs_of_integers(std::uint64_t seed) {
  std::vector<T> special;
  for (int bit = 0; bit <= 16; ++bit) {
    for (int beside = -1; beside <= 1; ++beside) {
      special.push_back(static_cast<T>((1 << bit) + beside));
      special.push_back(static_cast<T>(-(1 << bit) + beside));
    }
  }
  random_numbers random{seed};
  auto const any = [&] { return static_cast<T>(random.next() >> (48 + random.below(16))); };
  pairs<T> p;
  for (T const x : special) {
    for (T const y : special) p.x.push_back(x), p.y.push_back(y);
    for (int k = 0; k < 100; ++k) p.x.push_back(x), p.y.push_back(any());
    for (int k = 0; k < 100; ++k) p.x.push_back(any()), p.y.push_back(x);
  }
  for (int k = 0; k < 50000; ++k) p.x.push_back(any()), p.y.push_back(any());
  return p;
}

// Counts what is wrong, and says so of the first.
class tally {
 public:
  /// The same bits, but for those of NaN.
  /// @param want  rounded to T if it is not yet
  template <class T>
  void add(char const* what, double x, double y, T got, double want) {
    double const g = as_double(got), w = as_double(number<T>(want));
    bool const right = std::isnan(w) ? std::isnan(g) : g == w && std::signbit(g) == std::signbit(w);
    if (!right) record(what, x, y, g, w);
  }
  /// The same value: of two zeros either may be the smaller one.
  void add_value(char const* what, double x, double y, double got, double want) {
    if (std::isnan(want) ? !std::isnan(got) : got != want) record(what, x, y, got, want);
  }
  std::size_t wrong() const { return wrong_; }

 private:
  void record(char const* what, double x, double y, double got, double want) {
    if (++wrong_ > 5) return;
    char line[200];
    static_cast<void>(
        std::snprintf(line, sizeof line, "%a %s %a: %a for %a", x, what, y, got, want));
    UNSCOPED_INFO(line);
  }
  std::size_t wrong_ = 0;
};

template <class T>
void check_pairs(pairs<T> const& p) {
  std::size_t const n = p.x.size();
  std::size_t const stride = (n + 63) / 64 * 64;
  device_array<T> const dx{p.x}, dy{p.y}, results{7 * stride};
  device_array<unsigned char> const flags{6 * stride};
  auto const x = ew::in(dx.data(), n);
  auto const y = ew::in(dy.data(), n);
  auto const at = [&](std::size_t k) { return ew::out(results.data() + k * stride, n); };
  auto const flag = [&](std::size_t k) { return ew::out(flags.data() + k * stride, n); };
  ww::stream s;
  ew::run(s, ew::tie(at(0) = x + y, at(1) = x - y, at(2) = x * y, at(3) = x / y, at(4) = -x,
                     at(5) = ew::min(x, y), at(6) = ew::max(x, y)));
  ew::run(s, ew::tie(flag(0) = (x < y), flag(1) = (x <= y), flag(2) = (x > y), flag(3) = (x >= y),
                     flag(4) = (x == y), flag(5) = (x != y)));
  std::vector<T> const got = results.fetch(s);
  std::vector<unsigned char> const got_flags = flags.fetch(s);
  // What is rounded to 8 bits is the float, not the exact result; number() knows that of 16 bits.
  auto const computed = [](double exact) {
    return sizeof(T) == 1 ? static_cast<double>(static_cast<float>(exact)) : exact;
  };
  // Infinity, which e5m2 has, is past the greatest number that is written.
  auto const written = [](double value) { return as_double(number<T>(value)); };
  tally t;
  for (std::size_t k = 0; k < n; ++k) {
    double const a = as_double(p.x[k]);
    double const b = as_double(p.y[k]);
    double const least = a < b || std::isnan(a) ? a : b;
    double const most = a > b || std::isnan(a) ? a : b;
    t.add("+", a, b, got[k], computed(a + b));
    t.add("-", a, b, got[stride + k], computed(a - b));
    t.add("*", a, b, got[2 * stride + k], computed(a * b));
    t.add("/", a, b, got[3 * stride + k], computed(a / b));
    t.add("negated, not", a, b, got[4 * stride + k], -a);
    t.add_value("min", a, b, as_double(got[5 * stride + k]), written(least));
    t.add_value("max", a, b, as_double(got[6 * stride + k]), written(most));
    bool const wanted[] = {(a < b), (a <= b), (a > b), (a >= b), (a == b), (a != b)};
    char const* const names[] = {"<", "<=", ">", ">=", "==", "!="};
    for (std::size_t j = 0; j < 6; ++j) {
      t.add_value(names[j], a, b, got_flags[j * stride + k], wanted[j] ? 1 : 0);
    }
  }
  CHECK(t.wrong() == 0);
}

template <class T>
void check_type() {
  std::uint64_t const seed = 91;
  INFO("seed " << seed);
  check_pairs(pairs_of_all_kinds<T>(seed));
}

// What is wrong with integers that C++ computes as int: every result as an int, and cut to T.
template <class T>
std::size_t wrong_integers(pairs<T> const& p) {
  std::size_t const n = p.x.size();
  std::size_t const stride = (n + 63) / 64 * 64;
  device_array<T> const dx{p.x}, dy{p.y}, narrow{5 * stride};
  device_array<int> const wide{6 * stride};
  device_array<unsigned char> const flags{6 * stride};
  auto const x = ew::in(dx.data(), n);
  auto const y = ew::in(dy.data(), n);
  auto const at = [&](std::size_t k) { return ew::out(wide.data() + k * stride, n); };
  auto const cut = [&](std::size_t k) { return ew::out(narrow.data() + k * stride, n); };
  auto const flag = [&](std::size_t k) { return ew::out(flags.data() + k * stride, n); };
  ww::stream s;
  ew::run(s, ew::tie(at(0) = x + y, at(1) = x - y, at(2) = x * y, at(3) = x / y, at(4) = x % y,
                     at(5) = -x));
  ew::run(s, ew::tie(cut(0) = x + y, cut(1) = x - y, cut(2) = x * y, cut(3) = x / y, cut(4) = -x));
  ew::run(s, ew::tie(flag(0) = (x < y), flag(1) = (x <= y), flag(2) = (x > y), flag(3) = (x >= y),
                     flag(4) = (x == y), flag(5) = (x != y)));
  std::vector<int> const got = wide.fetch(s);
  std::vector<T> const got_cut = narrow.fetch(s);
  std::vector<unsigned char> const got_flags = flags.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    std::int64_t const a = p.x[k], b = p.y[k];
    std::int64_t const quotient = b == 0 ? 0 : a / b;
    std::int64_t const exact[] = {a + b, a - b, a * b, quotient, a - quotient * b, -a};
    std::size_t const of_cut[] = {0, 1, 2, 3, 5};
    bool const wanted[] = {a<b, a <= b, a> b, a >= b, a == b, a != b};
    std::size_t unlike = 0;
    for (std::size_t j = 0; j < 6; ++j) {
      unlike += got[j * stride + k] != static_cast<int>(exact[j]);
      unlike += got_flags[j * stride + k] != (wanted[j] ? 1 : 0);
    }
    for (std::size_t j = 0; j < 5; ++j) {
      unlike += got_cut[j * stride + k] != static_cast<T>(exact[of_cut[j]]);
    }
    if (unlike != 0 && ++wrong <= 5) UNSCOPED_INFO(unlike << " results of " << a << ", " << b);
  }
  return wrong;
}

}  // namespace

TEST_CASE("arithmetic and comparisons of double") { check_type<double>(); }
TEST_CASE("arithmetic and comparisons of float") { check_type<float>(); }
TEST_CASE("arithmetic and comparisons of __half") { check_type<__half>(); }
TEST_CASE("arithmetic and comparisons of all pairs of __nv_fp8_e4m3") {
  check_pairs(all_pairs<__nv_fp8_e4m3>());
}
#if WARPWRIGHT_TEST_EVERY_TYPE
TEST_CASE("arithmetic and comparisons of __nv_bfloat16") { check_type<__nv_bfloat16>(); }
TEST_CASE("arithmetic and comparisons of all pairs of __nv_fp8_e5m2") {
  check_pairs(all_pairs<__nv_fp8_e5m2>());
}
#endif
TEST_CASE("arithmetic and comparisons of all pairs of bytes") {
  CHECK(wrong_integers(all_pairs<signed char>()) == 0);
#if WARPWRIGHT_TEST_EVERY_TYPE
  CHECK(wrong_integers(all_pairs<unsigned char>()) == 0);
#endif
}
TEST_CASE("arithmetic and comparisons of integers of 16 bits") {
  std::uint64_t const seed = 93;
  INFO("seed " << seed);
  CHECK(wrong_integers(pairs_of_integers<unsigned short>(seed)) == 0);
#if WARPWRIGHT_TEST_EVERY_TYPE
  CHECK(wrong_integers(pairs_of_integers<short>(seed)) == 0);
#endif
}

TEST_CASE("two types are combined as in C++, and a plain number as the float beside it") {
  std::uint64_t const seed = 95;
  INFO("seed " << seed);
  std::vector<__half> const h = pairs_of_all_kinds<__half>(seed).x;
  std::vector<__nv_bfloat16> const b = pairs_of_all_kinds<__nv_bfloat16>(seed + 1).x;
  std::vector<float> const f = pairs_of_all_kinds<float>(seed + 2).y;
  std::vector<double> d = pairs_of_all_kinds<double>(seed + 3).y;
  std::size_t const n = h.size();
  random_numbers random{seed + 4};
  std::vector<int> i(n);
  std::vector<std::int64_t> l(n);
  std::vector<unsigned char> u(n);
  for (std::size_t k = 0; k < n; ++k) {
    l[k] = static_cast<std::int64_t>(random.next()) >> random.below(63);
    i[k] = static_cast<std::int32_t>(random.next()) >> random.below(31);
    u[k] = static_cast<unsigned char>(random.next());
    if (k < n - 100000) continue;  // all pairs of special values
    // Of f's range or of half's, or the float beside it and its neighbours.
    std::int64_t const range = k % 2 != 0 ? 20 : 150;
    auto const e = static_cast<std::int64_t>(random.below(static_cast<std::size_t>(2 * range)));
    d[k] = composed<double>(random.below(2) != 0, 1023 - range + e, random.next());
    auto const beside = static_cast<double>(f[k]);
    if (k % 4 == 0) d[k] = k % 8 == 0 ? beside : std::nextafter(beside, d[k]);
  }
  device_array<__half> const dh{h}, to_half{2 * n};
  device_array<__nv_bfloat16> const db{b}, to_bfloat16{n};
  device_array<float> const df{f}, to_float{5 * n};
  device_array<double> const dd{d}, to_double{2 * n};
  device_array<int> const di{i};
  device_array<std::int64_t> const dl{l};
  device_array<unsigned char> const du{u}, flags{2 * n};
  auto const at = [&](auto const& array, std::size_t k) {
    return ew::out(array.data() + k * n, n);
  };
  auto const xh = ew::in(dh.data(), n);
  auto const xb = ew::in(db.data(), n);
  auto const xf = ew::in(df.data(), n);
  auto const xd = ew::in(dd.data(), n);
  auto const xi = ew::in(di.data(), n);
  auto const xl = ew::in(dl.data(), n);
  auto const xu = ew::in(du.data(), n);
  ww::stream s;
  ew::run(s,
          ew::tie(at(to_float, 0) = xh + xf, at(to_bfloat16, 0) = xb * xd, at(to_half, 0) = xh / xd,
                  at(to_half, 1) = xu - xh, at(to_float, 1) = xi + xf, at(to_double, 0) = xi * xd));
  ew::run(s, ew::tie(at(to_float, 2) = xl / xf, at(to_float, 3) = ew::max(xi, xf),
                     at(to_float, 4) = xf * 0.1, at(to_double, 1) = xf * ew::constant(0.1),
                     at(flags, 0) = (xi < xf), at(flags, 1) = (xd == xf)));
  auto const halves = to_half.fetch(s);
  auto const bfloat16s = to_bfloat16.fetch(s);
  auto const floats = to_float.fetch(s);
  auto const doubles = to_double.fetch(s);
  auto const got_flags = flags.fetch(s);
  tally t;
  for (std::size_t k = 0; k < n; ++k) {
    double const vh = as_double(h[k]), vb = as_double(b[k]), vf = as_double(f[k]);
    auto const integer = static_cast<double>(static_cast<float>(i[k]));
    auto const whole = static_cast<double>(static_cast<float>(l[k]));
    t.add("+ of half and float", vh, vf, floats[k], vh + vf);
    // Rounded once, from double: CUDA's own conversions.
    t.add("* of bfloat16 and double", vb, d[k], bfloat16s[k],
          as_double(__double2bfloat16(vb * d[k])));
    t.add("/ of half and double", vh, d[k], halves[k], as_double(__double2half(vh / d[k])));
    t.add("- of byte and half", u[k], vh, halves[n + k], u[k] - vh);
    t.add("+ of int and float", i[k], vf, floats[n + k], integer + vf);
    t.add("* of int and double", i[k], d[k], doubles[k], i[k] * d[k]);
    t.add("/ of long and float", whole, vf, floats[2 * n + k], whole / vf);
    t.add_value("max of int and float", i[k], vf, as_double(floats[3 * n + k]),
                integer > vf ? integer : vf);
    t.add("* of float and plain", vf, 0.1, floats[4 * n + k], vf * static_cast<double>(0.1F));
    t.add("* of float and constant", vf, 0.1, doubles[n + k], vf * 0.1);
    t.add_value("< of int and float", i[k], vf, got_flags[k], integer < vf ? 1 : 0);
    t.add_value("== of double and float", d[k], vf, got_flags[n + k], d[k] == vf ? 1 : 0);
  }
  CHECK(t.wrong() == 0);
}
