// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/measure/sample_summary.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

// The mean without the extremes, an eighth on each side, and half of its interval of 95 %: robust
// against stalls, and as precise as a mean where calls are of two kinds, of which a median sees
// one. Source: Tukey and McLaughlin, Sankhya A 25 (1963), the trimmed mean and its winsorised
// variance.
template <typename Real>
struct robust_mean {
  Real mean = 0;
  Real half_width = 0;   // if the values are independent
  Real deviation = 0;    // half_width is student(kept - 1) * deviation / sqrt(number of values)
  Real least = 0;        // the smallest value that is kept
  Real most = 0;         // and the largest
  std::size_t kept = 0;  // values that are not extremes

  // @param values  sorted here
  WARPWRIGHT_COLD static robust_mean of(std::vector<Real>& values) {
    sort(values.data(), values.size(), [](Real a, Real b) { return a < b; });
    return of_sorted(values.data(), values.size());
  }

  WARPWRIGHT_COLD static robust_mean of_sorted(Real const* values, std::size_t n) {
    robust_mean r;
    if (n == 0) return r;
    std::size_t const cut = n < 4 ? 0 : (n + 4) / 8;
    r.kept = n - 2 * cut;
    r.least = values[cut];
    r.most = values[n - cut - 1];
    for (std::size_t i = cut; i < n - cut; ++i) r.mean += values[i] / static_cast<Real>(r.kept);
    if (n == 1) return r;
    Real squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const k = i < cut ? cut : i < n - cut ? i : n - cut - 1;
      squares += (values[k] - r.mean) * (values[k] - r.mean);
    }
    Real const share = static_cast<Real>(r.kept) / static_cast<Real>(n);
    r.deviation = std::sqrt(squares / static_cast<Real>(n - 1)) / share;
    r.half_width =
        student(static_cast<Real>(r.kept - 1)) * r.deviation / std::sqrt(static_cast<Real>(n));
    return r;
  }

  // The 97.5 % quantile of Student's distribution, to 2 % from 4 degrees of freedom on, and by up
  // to 9 % too large below.
  static Real student(Real freedom) {
    Real const f = freedom < 1 ? Real{1} : freedom;
    return Real(1.96) + Real(2.4) / f + Real(3.8) / (f * f) + Real(4.5) / (f * f * f);
  }
};

}  // namespace detail

WARPWRIGHT_END
