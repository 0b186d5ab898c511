// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every mathematical function against a wider type, with the bounds that functions.hpp states.
#include <warpwright/kernel.hpp>

#include <cfloat>
#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;

namespace {

// The reference is computed in the x87's 64-bit mantissa: 40 bits past float, 11 past double.
using exact = long double;
static_assert(LDBL_MANT_DIG > DBL_MANT_DIG, "the reference needs a type wider than double");

template <class T>
std::vector<T> arguments() {
  using limits = std::numeric_limits<T>;
  std::vector<T> x{T(0),
                   T(-0.0),
                   limits::denorm_min(),
                   -limits::denorm_min(),
                   limits::min(),
                   -limits::min(),
                   limits::max(),
                   limits::lowest(),
                   limits::infinity(),
                   -limits::infinity(),
                   limits::quiet_NaN(),
                   T(1),
                   T(-1)};
  std::uint64_t const seed = 20;
  kernel_test::random_numbers random{seed};
  auto const both_signs = [&](exact v) {
    x.push_back(static_cast<T>(v));
    x.push_back(static_cast<T>(-v));
  };
  for (int k = 0; k < 20000; ++k) both_signs(static_cast<exact>(random.unit()) * 20);
  for (int k = 0; k < 5000; ++k) both_signs(static_cast<exact>(random.unit()) * 110);
  for (int k = 0; k < 5000; ++k) both_signs(static_cast<exact>(random.unit()) * 760);
  int const range = limits::max_exponent - 1;
  for (int k = 0; k < 10000; ++k) {
    int const exponent =
        static_cast<int>(random.below(static_cast<std::size_t>(2 * range))) - range;
    both_signs(std::ldexp(1 + static_cast<exact>(random.unit()), exponent));
  }
  return x;
}

// Distance in units in the last place of T; 0 for two NaN, or where both are hardly normal numbers.
template <class T>
double ulps(T got, exact reference) {
  if (std::isnan(reference)) return std::isnan(got) ? 0 : HUGE_VAL;
  auto const rounded = static_cast<T>(reference);
  if (got == rounded) return 0;
  exact const difference = std::fabs(static_cast<exact>(got) - reference);
  if (!std::isfinite(got) || !std::isfinite(rounded)) return HUGE_VAL;
  if (difference <= static_cast<exact>(std::numeric_limits<T>::min())) return 0;
  int exponent = 0;
  std::frexp(reference, &exponent);
  exact const unit = std::ldexp(exact{1}, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(difference / unit);
}

// Evaluates `make(in(x))` on the runtime and compares; `bound` is in ULP, a function of x.
template <class T, class Make, class Reference, class Bound>
void compare(char const* name, Make make, Reference reference, Bound bound) {
  static std::vector<T> const x = arguments<T>();
  std::size_t const n = x.size();
  device_array<T> in{x};
  device_array<T> out{n};
  ww::stream s;
  ew::run(s, ew::out(out.data(), n) = make(ew::in(in.data(), n)));
  auto const got = out.fetch(s);
  double worst = 0;
  T at = 0;
  int wrong = 0;
  for (std::size_t k = 0; k < n; ++k) {
    double const error = ulps(got[k], reference(static_cast<exact>(x[k])));
    if (error > worst) worst = error, at = x[k];
    if (error > static_cast<double>(bound(static_cast<exact>(x[k])))) {
      if (++wrong <= 3) UNSCOPED_INFO("at " << x[k] << ": " << got[k] << ", off by " << error);
    }
  }
  INFO(name << " of " << sizeof(T) << "-byte floats: worst " << worst << " ULP at " << at);
  CHECK(wrong == 0);
}

auto constant_bound(double ulp) {
  return [ulp](exact) { return static_cast<exact>(ulp); };
}

exact exact_sigmoid(exact x) { return 1 / (1 + std::exp(-x)); }
exact exact_gelu_tanh_argument(exact x) {
  return 0.797884560802865355879892119868763737L * (x + 0.044715L * x * x * x);
}

struct exp_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::exp(e);
  }
};
struct log_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::log(e);
  }
};
struct sqrt_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::sqrt(e);
  }
};
struct rsqrt_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::rsqrt(e);
  }
};
struct tanh_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::tanh(e);
  }
};
struct erf_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::erf(e);
  }
};
struct sigmoid_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::sigmoid(e);
  }
};
struct silu_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::silu(e);
  }
};
struct gelu_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::gelu(e);
  }
};
struct gelu_tanh_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::gelu_tanh(e);
  }
};
struct relu_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::relu(e);
  }
};
struct abs_of {
  template <class E>
  auto operator()(E const& e) const {
    return ew::abs(e);
  }
};

template <class T>
void compare_all() {
  compare<T>(
      "exp", exp_of{}, [](exact x) { return std::exp(x); }, constant_bound(2));
  compare<T>(
      "log", log_of{}, [](exact x) { return std::log(x); }, constant_bound(2));
  compare<T>(
      "sqrt", sqrt_of{}, [](exact x) { return std::sqrt(x); }, constant_bound(0.5));
  compare<T>(
      "rsqrt", rsqrt_of{}, [](exact x) { return 1 / std::sqrt(x); }, constant_bound(2));
  compare<T>(
      "tanh", tanh_of{}, [](exact x) { return std::tanh(x); }, constant_bound(2));
  compare<T>(
      "erf", erf_of{}, [](exact x) { return std::erf(x); }, constant_bound(2));
  compare<T>("sigmoid", sigmoid_of{}, exact_sigmoid, constant_bound(4));
  compare<T>(
      "relu", relu_of{}, [](exact x) { return x < 0 ? 0 : x; }, constant_bound(0));
  compare<T>(
      "abs", abs_of{}, [](exact x) { return std::fabs(x); }, constant_bound(0));
  compare<T>(
      "silu", silu_of{}, [](exact x) { return std::isinf(x) && x < 0 ? 0 : x * exact_sigmoid(x); },
      constant_bound(5));
  compare<T>(
      "gelu", gelu_of{},
      [](exact x) {
        return std::isinf(x) && x < 0 ? 0
                                      : x * std::erfc(-x * 0.707106781186547524400844362105L) / 2;
      },
      [](exact x) { return x > 0 ? exact{8} : 8 + 2 * x * x; });
  compare<T>(
      "gelu_tanh", gelu_tanh_of{},
      [](exact x) {
        if (std::isinf(x)) return x < 0 ? exact{0} : x;
        return x / (1 + std::exp(-2 * exact_gelu_tanh_argument(x)));
      },
      [](exact x) { return x > 0 ? exact{6} : 6 - 8 * exact_gelu_tanh_argument(x); });
}

}  // namespace

TEST_CASE("float functions keep their bounds") { compare_all<float>(); }

TEST_CASE("double functions keep their bounds") { compare_all<double>(); }

TEST_CASE("16-bit results are the float results, rounded once") {
  std::vector<__half> x(65536);
  for (unsigned k = 0; k < 65536; ++k) {
    auto const bits = static_cast<std::uint16_t>(k);
    std::memcpy(static_cast<void*>(&x[k]), &bits, sizeof bits);
  }
  device_array<__half> in{x};
  device_array<__half> rounded{65536};
  device_array<float> wide{65536};
  ww::stream s;
  ew::run(s, ew::out(rounded.data(), 65536) = ew::gelu(ew::in(in.data(), 65536)));
  ew::run(s, ew::out(wide.data(), 65536) = ew::gelu(ew::in(in.data(), 65536)));
  auto const got = rounded.fetch(s);
  auto const floats = wide.fetch(s);
  int wrong = 0;
  for (unsigned k = 0; k < 65536; ++k) {
    double const expected =
        kernel_test::as_double(kernel_test::number<__half>(static_cast<double>(floats[k])));
    double const value = kernel_test::as_double(got[k]);
    if (!(expected == value || (std::isnan(expected) && std::isnan(value)))) ++wrong;
  }
  CHECK(wrong == 0);
}
