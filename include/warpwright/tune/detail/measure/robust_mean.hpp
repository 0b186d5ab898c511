// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/sample_summary.hpp>

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
  Real half_width = 0;

  // @param values  sorted here
  WARPWRIGHT_COLD static robust_mean of(std::vector<Real>& values) {
    robust_mean r;
    std::size_t const n = values.size();
    if (n == 0) return r;
    sort(values.data(), n, [](Real a, Real b) { return a < b; });
    std::size_t const cut = n < 4 ? 0 : (n + 4) / 8;
    std::size_t const kept = n - 2 * cut;
    for (std::size_t i = cut; i < n - cut; ++i) r.mean += values[i] / static_cast<Real>(kept);
    if (n == 1) return r;
    Real squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const k = i < cut ? cut : i < n - cut ? i : n - cut - 1;
      squares += (values[k] - r.mean) * (values[k] - r.mean);
    }
    Real const share = static_cast<Real>(kept) / static_cast<Real>(n);
    Real const error = std::sqrt(squares / static_cast<Real>(n - 1) / static_cast<Real>(n)) / share;
    r.half_width = student(kept - 1) * error;
    return r;
  }

 private:
  // The 97.5 % quantile of Student's distribution, to 2 % from 3 degrees of freedom on.
  static Real student(std::size_t freedom) {
    Real const f = static_cast<Real>(freedom < 1 ? 1 : freedom);
    return freedom < 3 ? (freedom < 2 ? Real(12.7) : Real(4.3))
                       : Real(1.96) + Real(2.4) / f + Real(3.8) / (f * f);
  }
};

}  // namespace detail

WARPWRIGHT_END
