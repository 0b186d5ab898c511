// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every function of integers and bool: those that compute in float, and those in the integers' own
// type.
#include <warpwright/kernel.hpp>

#include <limits>

#include "kernel/function_table.hpp"
#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;

namespace {

// The limits of an integer type, integers that no float holds, and random ones of all lengths.
template <class T>
std::vector<T> integers(std::uint64_t seed) {
  constexpr T most = (std::numeric_limits<T>::max)();
  constexpr T least = (std::numeric_limits<T>::min)();
  std::vector<T> x{T(0), T(1), T(2), T(3), most, T(most - 1), T(most / 2), least, T(least + 1)};
  kernel_test::random_numbers random{seed};
  for (int k = 0; k < 5000; ++k) x.push_back(static_cast<T>(random.next() >> random.below(64)));
  return x;
}

// Functions in the integers' own type against definitions in that type.
template <class T>
void check_integers(std::vector<T> const& x) {
  std::size_t const n = x.size();
  device_array<T> const device{x};
  ww::stream s;
  device_array<std::int64_t> const out{9 * n};
  auto const e = ew::in(device.data(), n);
  auto const at = [&](std::size_t k) { return ew::out(out.data() + k * n, n); };
  T const low{2}, high{100};
  ew::run(s, ew::tie(at(0) = ew::relu(e), at(1) = ew::floor(e), at(2) = ew::ceil(e),
                     at(3) = ew::round(e), at(4) = ew::rint(e), at(5) = ew::isnan(e),
                     at(6) = ew::isfinite(e),
                     at(7) = ew::clamp(e, ew::constant(low), ew::constant(high)),
                     at(8) = ew::where(e > 2, ew::min(e, ew::constant(high)),
                                       ew::max(e, ew::constant(low)))));
  device_array<std::int64_t> const wraps{3 * n};
  auto const into = [&](std::size_t k) { return ew::out(wraps.data() + k * n, n); };
  ew::run(s,
          ew::tie(into(0) = ew::abs(e), into(1) = ew::fma(e, e, e), into(2) = ew::abs_squared(e)));
  std::vector<std::int64_t> const got = out.fetch(s);
  std::vector<std::int64_t> const wrapped = wraps.fetch(s);
  // As in C++, in the promoted type; overflow wraps here.
  using promoted = decltype(T{} + T{});
  using bits = std::make_unsigned_t<promoted>;
  auto const as_stored = [](bits b) { return static_cast<std::int64_t>(static_cast<promoted>(b)); };
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    T const v = x[k];
    auto const wide = static_cast<std::int64_t>(v);
    bool const negative = std::is_signed<T>::value && wide < 0;
    for (std::size_t j = 1; j < 5; ++j) wrong += got[j * n + k] != wide;
    wrong += got[k] != (negative ? 0 : wide);
    wrong += got[5 * n + k] != 0;
    wrong += got[6 * n + k] != 1;
    auto const clamped = v < low ? low : v > high ? high : v;
    wrong += got[7 * n + k] != static_cast<std::int64_t>(clamped);
    auto const chosen = v > T{2} ? (v < high ? v : high) : (v > low ? v : low);
    wrong += got[8 * n + k] != static_cast<std::int64_t>(chosen);
    auto const b = static_cast<bits>(static_cast<promoted>(v));
    wrong += wrapped[k] != as_stored(negative ? bits{0} - b : b);
    wrong += wrapped[n + k] != as_stored(b * b + b);
    wrong += wrapped[2 * n + k] != as_stored(b * b);
  }
  CHECK(wrong == 0);
}

// Quotients and remainders of all pairs, 0 and -1 as divisors included.
template <class T>
void check_division(std::vector<T> const& some) {
  std::vector<T> x, y;
  for (T a : some) {
    for (T b : some) x.push_back(a), y.push_back(b);
  }
  std::size_t const n = x.size();
  device_array<T> const dx{x}, dy{y};
  device_array<std::int64_t> const out{4 * n};
  ww::stream s;
  auto const a = ew::in(dx.data(), n);
  auto const b = ew::in(dy.data(), n);
  auto const at = [&](std::size_t k) { return ew::out(out.data() + k * n, n); };
  ew::run(s, ew::tie(at(0) = a / b, at(1) = a % b, at(2) = a / ew::constant(static_cast<T>(-1)),
                     at(3) = a % ew::constant(T{0})));
  std::vector<std::int64_t> const got = out.fetch(s);
  using promoted = decltype(T{} + T{});
  using bits = std::make_unsigned_t<promoted>;
  auto const quotient = [](promoted p, promoted q) {
    if (q == 0) return promoted{0};
    bool const negates = std::is_signed<T>::value && q == static_cast<promoted>(-1);
    return negates ? static_cast<promoted>(bits{0} - static_cast<bits>(p)) : p / q;
  };
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    promoted const p{x[k]}, q{y[k]}, last{static_cast<T>(-1)};
    auto const product = static_cast<bits>(quotient(p, q)) * static_cast<bits>(q);
    auto const rest = static_cast<promoted>(static_cast<bits>(p) - product);
    wrong += got[k] != static_cast<std::int64_t>(quotient(p, q));
    wrong += got[n + k] != static_cast<std::int64_t>(rest);
    wrong += got[2 * n + k] != static_cast<std::int64_t>(quotient(p, last));
    wrong += got[3 * n + k] != static_cast<std::int64_t>(p);
  }
  CHECK(wrong == 0);
}
template <class T>
void check_division() {
  auto some = integers<T>(42);
  some.resize(150);
  some.push_back(static_cast<T>(-1));
  check_division(some);
}

// Every byte, or a choice of longer integers.
template <class T>
std::vector<T> some() {
  if (sizeof(T) > 1) return integers<T>(41);
  std::vector<T> x;
  for (int k = 0; k < 256; ++k) x.push_back(static_cast<T>(k));
  return x;
}
template <class T>
void check_real_functions() {
  std::vector<T> const x = some<T>();
  device_array<T> const device{x};
  kernel_test::real_functions::check<float>(x, device.data());
}
template <class... T>
void check_types() {
  (check_integers(some<T>()), ...);
}

}  // namespace

TEST_CASE("functions of integers in float") {
  check_real_functions<int>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_real_functions<signed char>();
  check_real_functions<unsigned char>();
  check_real_functions<short>();
  check_real_functions<unsigned short>();
  check_real_functions<unsigned>();
  check_real_functions<long long>();
  check_real_functions<unsigned long long>();
#endif
}
// A type that is computed as int, signed and not, and the widths that are computed in themselves.
TEST_CASE("functions of integers in their own type") {
  check_types<signed char, unsigned short, int, unsigned long long>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_types<unsigned char, short, unsigned, long long>();
#endif
}

TEST_CASE("integers divided by every integer") {
  check_division<unsigned short>();
  check_division<int>();
  check_division<long long>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_division<signed char>();
  check_division<unsigned char>();
  check_division<short>();
  check_division<unsigned>();
  check_division<unsigned long long>();
#endif
}

TEST_CASE("bools divide as the integers 0 and 1") {
  std::vector<unsigned char> const x{0, 1, 0, 1}, y{0, 0, 1, 1};
  device_array<unsigned char> const dx{x}, dy{y};
  device_array<int> const out{8};
  ww::stream s;
  auto const a = ew::in(reinterpret_cast<bool const*>(dx.data()), 4);
  auto const b = ew::in(reinterpret_cast<bool const*>(dy.data()), 4);
  ew::run(s, ew::tie(ew::out(out.data(), 4) = a / b, ew::out(out.data() + 4, 4) = a % b));
  CHECK(out.fetch(s) == std::vector<int>{0, 0, 0, 1, 0, 1, 0, 0});
}

TEST_CASE("functions of bool") {
  std::vector<unsigned char> const x{0, 1, 1, 0, 1};
  device_array<unsigned char> const device{x};
  auto const* const bools = reinterpret_cast<bool const*>(device.data());
  std::size_t const n = x.size();
  device_array<float> const out{6 * n};
  device_array<int> const whole{6 * n};
  ww::stream s;
  auto const e = ew::in(bools, n);
  auto const at = [&](std::size_t k) { return ew::out(out.data() + k * n, n); };
  auto const into = [&](std::size_t k) { return ew::out(whole.data() + k * n, n); };
  ew::run(s, ew::tie(at(0) = ew::exp(e), at(1) = ew::sigmoid(e), at(2) = ew::softplus(e),
                     at(3) = ew::sqrt(e), at(4) = ew::pow(e, 2), at(5) = ew::hardswish(e)));
  ew::run(s, ew::tie(into(0) = ew::abs(e), into(1) = ew::relu(e), into(2) = ew::floor(e),
                     into(3) = ew::fma(e, e, e), into(4) = ew::isnan(e) + 2 * ew::isfinite(e),
                     into(5) = ew::min(e, true) + 2 * ew::max(e, true) + 4 * ew::where(e, 0, 1)));
  std::vector<float> const got = out.fetch(s);
  std::vector<int> const ints = whole.fetch(s);
  for (std::size_t k = 0; k < n; ++k) {
    int const v = x[k];
    auto const d = static_cast<kernel_test::exact>(v);
    CHECK(kernel_test::ulps(got[k], std::exp(d)) <= 2);
    CHECK(kernel_test::ulps(got[n + k], kernel_test::exact_sigmoid(d)) <= 4);
    CHECK(kernel_test::ulps(got[2 * n + k], kernel_test::exact_softplus(d)) <= 4);
    CHECK(got[3 * n + k] == static_cast<float>(v));
    CHECK(got[4 * n + k] == static_cast<float>(v));
    CHECK(kernel_test::ulps(got[5 * n + k], kernel_test::exact_hardswish(d)) <= 3);
    CHECK((ints[k] == v && ints[n + k] == v && ints[2 * n + k] == v));
    CHECK((ints[3 * n + k] == 2 * v && ints[4 * n + k] == 2));
    CHECK(ints[5 * n + k] == v + 2 + (v != 0 ? 0 : 4));
  }
}
