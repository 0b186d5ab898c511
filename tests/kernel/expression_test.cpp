// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Types and values of expressions, evaluated on the calling thread.
#include <warpwright/kernel.hpp>

#include <cmath>
#include <stdexcept>

#include "kernel/support.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;

namespace {

template <class E>
using value_of = typename E::template value_type<void>;
template <class T, class E>
constexpr bool has_value(E const&) {
  return std::is_same<value_of<E>, T>::value;
}

struct fused_multiply_add {
  WARPWRIGHT_HOST_DEVICE float operator()(float a, float b, float c) const { return a * b + c; }
};
struct polynomial {
  float a, b;
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return a * x + b; }
};
struct sum_of_six {
  template <class... T>
  WARPWRIGHT_HOST_DEVICE float operator()(T... t) const {
    return (static_cast<float>(t) + ...);
  }
};
struct rgb {
  float r, g, b;
};
struct luminance {
  WARPWRIGHT_HOST_DEVICE float operator()(rgb c) const { return c.r + 2 * c.g + 4 * c.b; }
};
struct gray {
  WARPWRIGHT_HOST_DEVICE rgb operator()(float v) const { return {v, v + 1, v + 2}; }
};

template <class E>
std::vector<double> values_of(E const& e, std::size_t n) {
  std::vector<double> y(n);
  ew::evaluate_host(ew::out(y.data(), n) = e);
  return y;
}
using list = std::vector<double>;

}  // namespace

TEST_CASE("the type of an expression follows C++, but for numbers beside arrays") {
  float const* f = nullptr;
  double const* d = nullptr;
  __half const* h = nullptr;
  __nv_bfloat16 const* b = nullptr;
  unsigned char const* u8 = nullptr;
  int const* i32 = nullptr;
  CHECK(has_value<float>(ew::in(h, 1)));
  CHECK(has_value<float>(ew::in(h, 1) * ew::in(b, 1)));
  CHECK(has_value<float>(ew::in(f, 1) * 0.5));
  CHECK(has_value<float>(0.5 * ew::in(h, 1) + 1));
  CHECK(has_value<double>(ew::in(d, 1) * 0.5F));
  CHECK(has_value<double>(ew::in(f, 1) * ew::constant(0.5)));
  CHECK(has_value<double>(ew::in(f, 1) * ew::in(d, 1)));
  CHECK(has_value<double>(ew::in(i32, 1) * 0.5));
  CHECK(has_value<float>(ew::in(i32, 1) * 0.5F));
  CHECK(has_value<int>(ew::in(u8, 1) + ew::in(u8, 1)));
  CHECK(has_value<unsigned char>(ew::max(ew::in(u8, 1), ew::in(u8, 1))));
  CHECK(has_value<float>(ew::in(i32, 1) * ew::in(f, 1)));
  CHECK(has_value<bool>(ew::in(f, 1) < 1.0));
  CHECK(has_value<float>(ew::exp(ew::in(i32, 1))));
  CHECK(has_value<double>(ew::exp(ew::in(d, 1))));
  CHECK(has_value<float>(ew::clamp(ew::in(f, 1), 0.0, 6.0)));
  // A choice between plain numbers is as yielding as they are.
  CHECK(has_value<float>(ew::where(ew::in(f, 1) > 0, 1.0, 0.0) * ew::in(f, 1)));
  CHECK(has_value<double>(ew::where(ew::in(f, 1) > 0, 1.0, 0) * ew::in(f, 1)));
  CHECK(has_value<float>(ew::in(f, 1) * 2));
  CHECK(has_value<int>(ew::in(u8, 1) + 100));
  CHECK(has_value<double>(ew::compute_as<double>(ew::in(h, 1) * ew::in(f, 1))));
  CHECK(has_value<float>(ew::cast<__half>(ew::in(d, 1))));
  CHECK(has_value<std::uint64_t>(ew::index()));
  CHECK(std::is_trivially_copyable<decltype(ew::gelu(ew::in(f, 1) * 2 + ew::row(b, 1)))>::value);
}

TEST_CASE("operators and functions compute element by element") {
  std::vector<float> const a{1, -2, 3, 0};
  std::vector<float> const b{4, 5, -6, 0};
  auto const x = ew::in(a.data(), 4);
  auto const y = ew::in(b.data(), 4);
  CHECK(values_of(x + y, 4) == list{5, 3, -3, 0});
  CHECK(values_of(x - y, 4) == list{-3, -7, 9, 0});
  CHECK(values_of(x * y, 4) == list{4, -10, -18, 0});
  CHECK(values_of(x / 2, 4) == list{0.5, -1, 1.5, 0});
  CHECK(values_of(2 - x, 4) == list{1, 4, -1, 2});
  CHECK(values_of(-x, 4) == list{-1, 2, -3, 0});
  CHECK(values_of(x == y, 4) == list{0, 0, 0, 1});
  CHECK(values_of(x != y, 4) == list{1, 1, 1, 0});
  CHECK(values_of(x < y, 4) == list{1, 1, 0, 0});
  CHECK(values_of(x <= y, 4) == list{1, 1, 0, 1});
  CHECK(values_of(x > y, 4) == list{0, 0, 1, 0});
  CHECK(values_of(x >= y, 4) == list{0, 0, 1, 1});
  CHECK(values_of(x > 0 && y > 0, 4) == list{1, 0, 0, 0});
  CHECK(values_of(x > 0 || y > 0, 4) == list{1, 1, 1, 0});
  CHECK(values_of(!(x > 0), 4) == list{0, 1, 0, 1});
  CHECK(values_of(ew::where(x > 0, x, y), 4) == list{1, 5, 3, 0});
  CHECK(values_of(ew::where(x, 1, 2), 4) == list{1, 1, 1, 2});
  CHECK(values_of(ew::min(x, y), 4) == list{1, -2, -6, 0});
  CHECK(values_of(ew::max(x, 2), 4) == list{2, 2, 3, 2});
  CHECK(values_of(ew::clamp(y, -1, 4.5), 4) == list{4, 4.5, -1, 0});
  CHECK(values_of(ew::abs(x), 4) == list{1, 2, 3, 0});
  CHECK(values_of(ew::relu(x), 4) == list{1, 0, 3, 0});
  CHECK(values_of(ew::index() * 2, 4) == list{0, 2, 4, 6});
  CHECK(values_of(ew::cast<int>(x) % 2, 4) == list{1, 0, 1, 0});
  CHECK(values_of(ew::constant(3) + 0 * x, 4) == list{3, 3, 3, 3});
}

TEST_CASE("NaN stays NaN where a choice could lose it") {
  std::vector<float> const a{NAN, 1, NAN};
  std::vector<float> const b{1, NAN, NAN};
  auto const x = ew::in(a.data(), 3);
  auto const y = ew::in(b.data(), 3);
  for (auto const& values : {values_of(ew::min(x, y), 3), values_of(ew::max(x, y), 3)}) {
    for (double v : values) CHECK(std::isnan(v));
  }
  CHECK(std::isnan(values_of(ew::relu(x), 3)[0]));
  CHECK(std::isnan(values_of(ew::clamp(x, 0, 1), 3)[0]));
  CHECK(std::isnan(values_of(ew::abs(x), 3)[0]));
}

TEST_CASE("map takes functions of any number of operands, state and structs") {
  std::vector<float> const a{1, 2, 3};
  auto const x = ew::in(a.data(), 3);
  CHECK(values_of(ew::map(polynomial{2, 1}, x), 3) == list{3, 5, 7});
  CHECK(values_of(ew::map(fused_multiply_add{}, x, x, 1.0F), 3) == list{2, 5, 10});
  CHECK(values_of(ew::map(sum_of_six{}, x, 1, x, 2, ew::index(), x), 3) == list{6, 10, 14});
  CHECK(values_of(ew::map(polynomial{1, 0}, ew::map(polynomial{3, 0}, x) + 1), 3) ==
        list{4, 7, 10});
  std::vector<rgb> const colours{{1, 2, 3}, {0, 1, 0}};
  CHECK(values_of(ew::map(luminance{}, ew::in(colours.data(), 2)), 2) == list{17, 2});
  std::vector<rgb> out(3);
  ew::evaluate_host(ew::out(out.data(), 3) = ew::map(gray{}, x));
  CHECK(out[2].b == 5);
}

TEST_CASE("rows, columns and single elements repeat") {
  std::vector<float> const bias{10, 20, 30};
  std::vector<__half> const scale{kernel_test::number<__half>(1), kernel_test::number<__half>(2)};
  double const one = 0.5;
  auto const e = ew::row(bias.data(), 3) * ew::col(scale.data(), 3) + ew::device_scalar(&one);
  CHECK(values_of(e, 6) == list{10.5, 20.5, 30.5, 20.5, 40.5, 60.5});
}

TEST_CASE("compute_as changes the type below it") {
  std::vector<float> const big{16777216.0F};
  std::vector<int> const large{2000000000};
  CHECK(values_of(ew::in(big.data(), 1) + 1, 1)[0] == 16777216.0);
  CHECK(values_of(ew::compute_as<double>(ew::in(big.data(), 1) + 1), 1)[0] == 16777217.0);
  CHECK(values_of(ew::compute_as<long long>(ew::in(large.data(), 1) * 2), 1)[0] == 4e9);
}

TEST_CASE("output compounds work in place") {
  std::vector<float> y{1, 2, 3};
  std::vector<double> const x{10, 20, 30};
  ew::evaluate_host(ew::out(y.data(), 3) += ew::in(x.data(), 3));
  CHECK(y == std::vector<float>{11, 22, 33});
  ew::evaluate_host(ew::out(y.data(), 3) -= 1);
  ew::evaluate_host(ew::out(y.data(), 3) *= 2);
  ew::evaluate_host(ew::out(y.data(), 3) /= 4);
  CHECK(y == std::vector<float>{5, 10.5, 16});
  ew::evaluate_host(ew::out(y.data(), 3) = 7);
  CHECK(y == std::vector<float>{7, 7, 7});
}
