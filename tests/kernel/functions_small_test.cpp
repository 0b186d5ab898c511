// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every function of every 16-bit and 8-bit float.
#include <cuda_fp8.h>

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/numeric.hpp>

#include <cmath>
#include <limits>

#include "kernel/function_table.hpp"
#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;

namespace {

// Every pattern of an element of 1 or 2 bytes.
template <class T>
std::vector<T> all_patterns() {
  std::vector<T> x(std::size_t{1} << (8 * sizeof(T)));
  for (std::size_t k = 0; k < x.size(); ++k) {
    auto const bits = static_cast<std::uint16_t>(k);
    std::memcpy(static_cast<void*>(&x[k]), &bits, sizeof(T));
  }
  return x;
}

template <class T>
void check_all_patterns() {
  std::vector<T> const x = all_patterns<T>();
  device_array<T> const device{x};
  kernel_test::real_functions::check<float>(x, device.data());
  kernel_test::own_type_functions::check<float>(x, device.data());
}

template <class T>
bool same(T const& a, T const& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Results stored as T are the float results rounded once, as by number(); NaN stays NaN.
template <class T, class Round>
void check_rounded_once(Round const& round) {
  std::vector<T> const x = all_patterns<T>();
  std::size_t const n = x.size();
  device_array<T> const in{x};
  device_array<T> const rounded{3 * n};
  device_array<float> const wide{3 * n};
  ww::stream s;
  auto const e = ew::in(in.data(), n);
  ew::run(s, ew::tie(ew::out(rounded.data(), n) = ew::gelu(e),
                     ew::out(rounded.data() + n, n) = ew::exp(e) - 0.5F,
                     ew::out(rounded.data() + 2 * n, n) = ew::sqrt(e)));
  ew::run(s, ew::tie(ew::out(wide.data(), n) = ew::gelu(e),
                     ew::out(wide.data() + n, n) = ew::exp(e) - 0.5F,
                     ew::out(wide.data() + 2 * n, n) = ew::sqrt(e)));
  std::vector<T> const got = rounded.fetch(s);
  std::vector<float> const floats = wide.fetch(s);
  int wrong = 0;
  for (std::size_t k = 0; k < 3 * n; ++k) {
    if (std::isnan(floats[k])) {
      wrong += !std::isnan(kernel_test::exactly<float>(got[k]));
    } else {
      wrong += !same(got[k], round(floats[k]));
    }
  }
  CHECK(wrong == 0);
}

// Results are the 16-bit number nearest to the exact value, or the next if float's error decides.
template <class T>
void check_steps() {
  std::vector<T> const x = all_patterns<T>();
  std::size_t const n = x.size();
  device_array<T> const in{x};
  device_array<T> const out{2 * n};
  ww::stream s;
  auto const e = ew::in(in.data(), n);
  ew::run(s, ew::tie(ew::out(out.data(), n) = ew::softplus(e),
                     ew::out(out.data() + n, n) = ew::sin(e)));
  std::vector<T> const got = out.fetch(s);
  std::uint64_t most = 0;
  std::size_t beside = 0;
  for (std::size_t k = 0; k < n; ++k) {
    kernel_test::exact const v = kernel_test::exactly<float>(x[k]);
    kernel_test::exact const exact[] = {kernel_test::exact_softplus(v), std::sin(v)};
    for (std::size_t j = 0; j < 2; ++j) {
      T const nearest = kernel_test::number<T>(static_cast<double>(exact[j]));
      std::uint64_t const steps = ew::ulp_distance(got[j * n + k], nearest);
      most = steps > most ? steps : most;
      beside += steps != 0;
    }
  }
  CHECK(most <= 1);
  CHECK(beside <= n / 500);
}

}  // namespace

TEST_CASE("functions of every __half") { check_all_patterns<__half>(); }
#if WARPWRIGHT_TEST_EVERY_TYPE
TEST_CASE("functions of every __nv_bfloat16 and fp8 number") {
  check_all_patterns<__nv_bfloat16>();
  check_all_patterns<__nv_fp8_e4m3>();
  check_all_patterns<__nv_fp8_e5m2>();
}
#endif

TEST_CASE("16-bit and 8-bit results are the float results, rounded once") {
  check_rounded_once<__half>([](float v) { return __float2half_rn(v); });
  check_rounded_once<__nv_fp8_e4m3>([](float v) { return __nv_fp8_e4m3{v}; });
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_rounded_once<__nv_bfloat16>([](float v) { return __float2bfloat16_rn(v); });
  check_rounded_once<__nv_fp8_e5m2>([](float v) { return __nv_fp8_e5m2{v}; });
#endif
}

TEST_CASE("16-bit results are the number nearest to the exact value, or its neighbour") {
  check_steps<__nv_bfloat16>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_steps<__half>();
#endif
}
