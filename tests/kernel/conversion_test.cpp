// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/kernel.hpp>

#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;

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
  for (std::uint32_t high = 0; high <= 0xffffU; ++high) {
    for (std::uint32_t low : {0U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      add(high << 16U | low);
    }
  }
  kernel_test::random_numbers random{11};
  for (int k = 0; k < 100000; ++k) add(static_cast<std::uint32_t>(random.next()));
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

TEST_CASE("floating point to integer truncates and saturates") {
  saturates<signed char>();
  saturates<unsigned char>();
  saturates<short>();
  saturates<unsigned short>();
  saturates<int>();
  saturates<unsigned>();
  saturates<long long>();
  saturates<unsigned long long>();
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
