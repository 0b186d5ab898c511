// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Expressions in words. No array is accessed, so that addresses are invented.
#include <warpwright/kernel/describe.hpp>
// After it: describe.hpp prints the nodes of these headers without including them.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/numeric.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/views.hpp>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>

#include "support/catch.hpp"

namespace ew = warpwright::ew;

namespace describe_test {

// Its members do not describe the function.
struct numbered {
  int name = 0;
  static constexpr int syntax = 0;
  static constexpr bool type_name = false;
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return x; }
  [[nodiscard]] double parameter() const { return 2; }
};

}  // namespace describe_test

namespace {

template <class T>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}
template <class T>
auto in(std::size_t n = 8) {
  return ew::in(at<T>(0x1000000), n);
}

struct clip {
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return x > 1 ? 1 : x; }
};
struct scaled {
  static constexpr char const* name = "scaled";
  float by;
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return by * x; }
};
struct nameless {
  WARPWRIGHT_HOST_DEVICE float operator()(float a, float b) const { return a - b; }
};
struct particle {
  float mass;
  int charge;
};
struct mass_of {
  WARPWRIGHT_HOST_DEVICE float operator()(particle p) const { return p.mass; }
};

}  // namespace

template <>
inline constexpr char const* warpwright::ew::function_name<clip> = "clip";

TEST_CASE("an assignment in a line") {
  std::size_t const n = std::size_t{1} << 20U;
  CHECK(ew::describe(ew::out(at<float>(16), n) =
                         ew::gelu(in<float>(n) * 0.5 + ew::row(at<float>(32), 1024))) ==
        "out f32[1048576] = gelu(in f32[1048576] * 0.5 + row f32[1024])");
  CHECK(ew::describe(ew::out(at<std::int8_t>(16), 0) = 1) == "out i8[0] = 1");
  CHECK(ew::describe(ew::out(at<float>(16), 8) += in<__half>()) ==
        "out f32[8] = in f32[8] + in f16[8]");
}

TEST_CASE("every operand") {
  CHECK(ew::describe(in<double>()) == "in f64[8]");
  CHECK(ew::describe(ew::row(at<__nv_bfloat16>(16), 3)) == "row bf16[3]");
  CHECK(ew::describe(ew::col(at<std::uint16_t>(16), 3)) == "col u16[n/3]");
  CHECK(ew::describe(ew::device_scalar(at<std::int64_t>(16))) == "device_scalar i64");
  CHECK(ew::describe(ew::index()) == "index()");
  CHECK(ew::describe(in<std::complex<float>>()) == "in complex[8]");
  CHECK(ew::describe(in<__nv_fp8_e4m3>() + in<__nv_fp8_e5m2>()) == "in e4m3[8] + in e5m2[8]");
  CHECK(ew::describe(in<particle>()) == "in struct[8]");
  CHECK(ew::describe(in<bool>() || in<char>()).find("in bool[8] || in ") == 0);
  CHECK(ew::describe(in<std::int16_t>() + in<std::uint8_t>() + in<std::uint32_t>() +
                     in<std::uint64_t>() + in<int>()) ==
        "in i16[8] + in u8[8] + in u32[8] + in u64[8] + in i32[8]");
}

TEST_CASE("views and strided outputs") {
  auto const a = ew::array(at<float>(0x1000), {64, 128});
  CHECK(ew::describe(ew::view(a)) == "view f32[8192]");
  CHECK(ew::describe(ew::view(a.permuted({1, 0}))) == "view f32[128, 64 by 1, 128]");
  CHECK(ew::describe(ew::view(a.reversed(0))) == "view f32[64, 128 by -128, 1]");
  CHECK(ew::describe(ew::out(a.sliced(1, 0, 32)) = 2.0) == "out f32[64, 32 by 128, 1] = 2.0");
  CHECK(ew::describe(ew::out(a) = ew::view(a) * 2) == "out f32[8192] = view f32[8192] * 2");
}

TEST_CASE("numbers have the fewest digits, and their type if they keep it") {
  auto const of = [](auto x) { return ew::describe(in<float>() + x).substr(12); };
  CHECK(of(2) == "2");
  CHECK(of(-2) == "-2");
  CHECK(of(2U) == "u32 2");
  CHECK(of(static_cast<unsigned char>(200)) == "u8 200");
  CHECK(of(std::numeric_limits<std::uint64_t>::max()) == "u64 18446744073709551615");
  CHECK(of(true) == "true");
  CHECK(of(0.0) == "0.0");
  CHECK(of(-0.0) == "-0.0");
  CHECK(of(0.1) == "0.1");
  CHECK(of(0.1F) == "0.1");
  CHECK(of(1.0 / 3) == "0.3333333333333333");
  CHECK(of(1.0F / 3) == "0.33333334");
  CHECK(of(100.0) == "100.0");
  CHECK(of(-120000.0) == "-120000.0");
  CHECK(of(1e9) == "1e+09");
  CHECK(of(1e-9) == "1e-09");
  CHECK(of(5e-324) == "5e-324");
  CHECK(of(std::numeric_limits<float>::max()) == "3.4028235e+38");
  CHECK(of(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(of(-std::numeric_limits<float>::infinity()) == "-inf");
  CHECK(of(std::nan("")) == "nan");
  CHECK(ew::describe(in<float>() * ew::constant(0.5)) == "in f32[8] * f64 0.5");
  CHECK(ew::describe(in<double>() * ew::constant(0.5F)) == "in f64[8] * f32 0.5");
  CHECK(ew::describe(in<std::complex<float>>() * std::complex<float>{1, -2.5F}) ==
        "in complex[8] * complex(1.0, -2.5)");
  for (double x : {1.0 / 7, 6.02214076e23, 123456.789, 9999999.5, 1e7, 4.9406564584124654e-310}) {
    CAPTURE(x);
    CHECK(std::strtod(of(x).c_str(), nullptr) == x);
  }
}

TEST_CASE("operators have parentheses where precedence needs them") {
  auto const x = in<int>(1), y = in<int>(2), z = in<int>(3);
  CHECK(ew::describe((x + y) * z) == "(in i32[1] + in i32[2]) * in i32[3]");
  CHECK(ew::describe(x + y * z) == "in i32[1] + in i32[2] * in i32[3]");
  CHECK(ew::describe(x - y - z) == "in i32[1] - in i32[2] - in i32[3]");
  CHECK(ew::describe(x - (y - z)) == "in i32[1] - (in i32[2] - in i32[3])");
  CHECK(ew::describe(x / (y % z)) == "in i32[1] / (in i32[2] % in i32[3])");
  CHECK(ew::describe((x < y) == (y < z)) == "(in i32[1] < in i32[2]) == (in i32[2] < in i32[3])");
  CHECK(ew::describe(!(x >= 1 && y != 2) || z <= 3 || z > 4) ==
        "!(in i32[1] >= 1 && in i32[2] != 2) || in i32[3] <= 3 || in i32[3] > 4");
  CHECK(ew::describe(-(x + y)) == "-(in i32[1] + in i32[2])");
  CHECK(ew::describe(-(-x)) == "-(-in i32[1])");
  CHECK(ew::describe(-x * y) == "-in i32[1] * in i32[2]");
  CHECK(ew::describe(x && (y || z)) == "in i32[1] && (in i32[2] || in i32[3])");
}

TEST_CASE("every function has its name") {
  auto const x = in<float>();
  auto const z = in<std::complex<float>>();
#define CHECK_NAME(name, call) CHECK(ew::describe(call) == name "(in f32[8])")
  CHECK_NAME("abs", ew::abs(x));
  CHECK_NAME("exp", ew::exp(x));
  CHECK_NAME("exp2", ew::exp2(x));
  CHECK_NAME("expm1", ew::expm1(x));
  CHECK_NAME("log", ew::log(x));
  CHECK_NAME("log2", ew::log2(x));
  CHECK_NAME("log1p", ew::log1p(x));
  CHECK_NAME("sqrt", ew::sqrt(x));
  CHECK_NAME("rsqrt", ew::rsqrt(x));
  CHECK_NAME("sin", ew::sin(x));
  CHECK_NAME("cos", ew::cos(x));
  CHECK_NAME("tanh", ew::tanh(x));
  CHECK_NAME("erf", ew::erf(x));
  CHECK_NAME("sigmoid", ew::sigmoid(x));
  CHECK_NAME("relu", ew::relu(x));
  CHECK_NAME("softplus", ew::softplus(x));
  CHECK_NAME("silu", ew::silu(x));
  CHECK_NAME("hardswish", ew::hardswish(x));
  CHECK_NAME("gelu", ew::gelu(x));
  CHECK_NAME("gelu_tanh", ew::gelu_tanh(x));
  CHECK_NAME("floor", ew::floor(x));
  CHECK_NAME("ceil", ew::ceil(x));
  CHECK_NAME("round", ew::round(x));
  CHECK_NAME("rint", ew::rint(x));
  CHECK_NAME("isnan", ew::isnan(x));
  CHECK_NAME("isfinite", ew::isfinite(x));
  CHECK_NAME("abs_squared", ew::abs_squared(x));
#undef CHECK_NAME
  CHECK(ew::describe(ew::pow(x, 2)) == "pow(in f32[8], 2)");
  CHECK(ew::describe(ew::min(x, ew::max(x, 0.0))) == "min(in f32[8], max(in f32[8], 0.0))");
  CHECK(ew::describe(ew::clamp(x, -1.0, 1.0)) == "clamp(in f32[8], -1.0, 1.0)");
  CHECK(ew::describe(ew::leaky_relu(x)) == "leaky_relu(in f32[8], 0.01)");
  CHECK(ew::describe(ew::fma(x, x + 1, 2.0)) == "fma(in f32[8], in f32[8] + 1, 2.0)");
  CHECK(ew::describe(ew::where(x > 0.0, x, 0.0)) == "where(in f32[8] > 0.0, in f32[8], 0.0)");
  CHECK(ew::describe(ew::real(z) + ew::imag(ew::conj(z))) ==
        "real(in complex[8]) + imag(conj(in complex[8]))");
  CHECK(ew::describe(ew::make_complex(x, 0.0)) == "make_complex(in f32[8], 0.0)");
}

TEST_CASE("conversions have their types") {
  auto const x = in<float>();
  CHECK(ew::describe(ew::cast<__half>(x)) == "cast<f16>(in f32[8])");
  CHECK(ew::describe(ew::cast<int>(x * 2.5)) == "cast<i32>(in f32[8] * 2.5)");
  CHECK(ew::describe(ew::saturate_cast<__nv_fp8_e4m3>(x)) == "saturate_cast<e4m3>(in f32[8])");
  CHECK(ew::describe(ew::compute_as<double>(x * x) + 1) ==
        "compute_as<f64>(in f32[8] * in f32[8]) + 1");
}

TEST_CASE("functions of one's own") {
  CHECK(ew::describe(ew::map(clip{}, in<float>() * 2)) == "clip(in f32[8] * 2)");
  CHECK(ew::describe(ew::map(scaled{2}, in<float>())) == "scaled(in f32[8])");
  CHECK(ew::describe(ew::map(describe_test::numbered{}, in<float>())) ==
        "map(function, in f32[8])");
  CHECK(ew::describe(ew::map(nameless{}, in<float>(), 1.0)) == "map(function, in f32[8], 1.0)");
  CHECK(ew::describe(ew::map(mass_of{}, in<particle>())) == "map(function, in struct[8])");
}

TEST_CASE("random numbers") {
  ew::philox const rng{42};
  CHECK(ew::describe(ew::uniform(rng)) == "uniform(philox{42})");
  CHECK(ew::describe(ew::normal(ew::philox{42, 7})) == "normal(philox{42, 7})");
  CHECK(ew::describe(ew::random_bits(rng.subsequence(3))) ==
        "random_bits(philox{42}.subsequence(3))");
  CHECK(ew::describe(ew::uniform(ew::philox{~std::uint64_t{0}, at<std::uint64_t>(64)})) ==
        "uniform(philox{18446744073709551615, *offset})");
  CHECK(ew::describe(ew::bernoulli(rng, 0.1)) == "bernoulli(philox{42}, 0.1)");
  CHECK(ew::describe(ew::bernoulli(rng, 1)) == "bernoulli(philox{42}, 1.0)");
  CHECK(ew::describe(ew::dropout(in<float>(), 0.5, rng)) ==
        "where(bernoulli(philox{42}, 0.5), 0.0, in f32[8] * 2.0)");
  CHECK(ew::describe(ew::stochastic_round<__nv_bfloat16>(in<float>(), rng)) ==
        "stochastic_round<bf16>(in f32[8], philox{42})");
  CHECK(ew::describe(ew::cast<float>(ew::random_bits(rng))) ==
        "cast<f32>(random_bits(philox{42}))");
}

TEST_CASE("functions of rows") {
  auto const x = in<float>();
  CHECK(ew::describe(ew::softmax(x * 2.0)) == "softmax(in f32[8] * 2.0)");
  CHECK(ew::describe(ew::log_softmax(x).log_sum_exp()) == "log_softmax(in f32[8]).log_sum_exp()");
  CHECK(ew::describe(ew::layer_norm(x, 1e-5) * 2.0) == "layer_norm(in f32[8], 1e-05) * 2.0");
  CHECK(ew::describe(ew::layer_norm(x, 0.5).mean()) == "layer_norm(in f32[8], 0.5).mean()");
  CHECK(ew::describe(ew::rms_norm(x, 0.5).rstd()) == "rms_norm(in f32[8], 0.5).rstd()");
  CHECK(ew::describe(ew::rms_norm(x, 0.5).input()) == "rms_norm(in f32[8], 0.5).input()");
}

TEST_CASE("several outputs, and long expressions") {
  auto const x = in<float>();
  CHECK(ew::describe(ew::tie(ew::out(at<float>(16), 8) = x + 1, ew::out(at<int>(32), 8) = 2)) ==
        "out f32[8] = in f32[8] + 1; out i32[8] = 2");
  CHECK(ew::describe(ew::tie(ew::out(at<float>(16), 8) = x)) == "out f32[8] = in f32[8]");
  auto const two = ew::exp(x) + ew::exp(x);
  auto const eight = (two * two) * (two * two);
  auto const many = (eight + eight) * (eight + eight);
  std::string const words = ew::describe(ew::out(at<float>(16), 8) = many + many);
  int count = 0;
  for (std::size_t at = 0; (at = words.find("exp(in f32[8])", at)) != words.npos; ++at) ++count;
  CHECK(count == 64);  // nothing is truncated
}
