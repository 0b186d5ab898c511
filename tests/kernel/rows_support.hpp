// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The exact functions of rows, and the error bounds of results.
#pragma once

#include <cuda_fp8.h>

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/rows.hpp>

#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "support/catch.hpp"

namespace kernel_test {

namespace ew = warpwright::ew;

enum class function { softmax, log_softmax, layer_norm, rms_norm };
inline char const* name_of(function f) {
  constexpr char const* names[] = {"softmax", "log_softmax", "layer_norm", "rms_norm"};
  return names[static_cast<int>(f)];
}

inline constexpr double test_eps = 1e-3;

// The exact results and statistics of one row.
struct exact_row {
  std::vector<double> result;
  double mean = 0;
  double rstd = 0;
  double log_sum_exp = 0;  // of the exponential functions
  double magnitude = 0;    // mean of |x|
  double most = 0;
};

// In long double: the error of sums in fp64 would exceed the bound.
inline exact_row exactly(function f, double const* x, std::size_t cols, double eps = test_eps) {
  exact_row e;
  auto const n = static_cast<long double>(cols);
  long double mean = 0, magnitude = 0, squares = 0, total = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < cols; ++c) {
    mean += x[c] / n;
    magnitude += std::fabs(x[c]) / n;
    most = std::fmax(most, x[c]);
  }
  bool const exponential = f == function::softmax || f == function::log_softmax;
  std::vector<long double> weight(cols);
  for (std::size_t c = 0; c < cols; ++c) {
    weight[c] = exponential ? std::exp(static_cast<long double>(x[c]) - most) : 0;
    total += weight[c];
    long double const d = f == function::layer_norm ? x[c] - mean : x[c];
    squares += d * d / n;
  }
  long double const rstd = 1 / std::sqrt(squares + eps);
  for (std::size_t c = 0; c < cols; ++c) {
    long double y = 0;
    switch (f) {
      case function::softmax:
        y = weight[c] / total;
        break;
      case function::log_softmax:
        y = static_cast<long double>(x[c]) - most - std::log(total);
        break;
      case function::layer_norm:
        y = (x[c] - mean) * rstd;
        break;
      case function::rms_norm:
        y = x[c] * rstd;
        break;
    }
    e.result.push_back(static_cast<double>(y));
  }
  e.mean = static_cast<double>(mean);
  e.rstd = static_cast<double>(rstd);
  e.log_sum_exp = static_cast<double>(most + std::log(total));
  e.magnitude = static_cast<double>(magnitude);
  e.most = most;
  return e;
}

// Half a unit in the last place of T at 1, and T's smallest step.
template <class T>
double half_ulp() {
  if (std::is_same<T, double>::value) return 0x1p-53;
  if (std::is_same<T, float>::value) return 0x1p-24;
  if (std::is_same<T, __half>::value) return 0x1p-11;
  if (std::is_same<T, __nv_bfloat16>::value) return 0x1p-8;
  return 0x1p-4;  // __nv_fp8_e4m3
}
template <class T>
double smallest_step() {
  if (std::is_same<T, double>::value) return 0x1p-1022;
  if (std::is_same<T, __half>::value) return 0x1p-24;
  if (std::is_same<T, __nv_fp8_e4m3>::value) return 0x1p-9;
  return 0x1p-126;
}

// The bound that rows.hpp states, and the output's own rounding.
// @tparam R  the type of computation
template <class R, class Out>
double bound(function f, exact_row const& e, std::size_t c, double x) {
  double const unit = 2 * half_ulp<R>() * (static_cast<double>(e.result.size()) / 2000 + 16);
  double const y = std::fabs(e.result[c]);
  double computed = 0;
  switch (f) {
    case function::softmax:
      computed = y * (unit + 2 * half_ulp<R>() * (e.most - x));
      break;
    case function::log_softmax:
      computed = unit + 2 * half_ulp<R>() * y;
      break;
    case function::layer_norm:
      computed = unit * (y + std::fmax(e.magnitude, smallest_step<R>()) * e.rstd);
      break;
    case function::rms_norm:
      computed = unit * y;
      break;
  }
  return computed + half_ulp<Out>() * (y + computed) + smallest_step<Out>() + smallest_step<R>();
}

template <class T>
std::vector<double> as_doubles(std::vector<T> const& x) {
  std::vector<double> d(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) d[i] = as_double(x[i]);
  return d;
}

/// Random numbers in [low, low + width).
template <class T>
std::vector<T> random_values(std::size_t size, double low, double width, std::uint64_t seed) {
  random_numbers random{seed};
  std::vector<T> values(size);
  for (T& v : values) v = number<T>(low + width * random.unit());
  return values;
}

/// @param y  the results of a kernel for x
/// @return the number of elements that are off by more than the bound
template <class R, class Out>
std::size_t wrong_elements(function f, std::vector<Out> const& y, std::vector<double> const& x,
                           std::size_t cols, double eps = test_eps) {
  std::size_t wrong = 0;
  for (std::size_t first = 0; first < x.size(); first += cols) {
    exact_row const e = exactly(f, x.data() + first, cols, eps);
    for (std::size_t c = 0; c < cols; ++c) {
      double const error = std::fabs(as_double(y[first + c]) - e.result[c]);
      double const most = bound<R, Out>(f, e, c, x[first + c]);
      if (!(error <= most) && ++wrong <= 3) {
        UNSCOPED_INFO(name_of(f) << ", row " << first / cols << ", column " << c << ": "
                                 << as_double(y[first + c]) << " for " << e.result[c] << ", off by "
                                 << error << ", at most " << most);
      }
    }
  }
  return wrong;
}

}  // namespace kernel_test
