// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// The last few times of a step, and their median: single slow calls do not move it.
class sample_window {
 public:
  static constexpr unsigned capacity = 31;

  void add(double nanoseconds) noexcept {
    values_[next_] = nanoseconds;
    next_ = (next_ + 1) % capacity;
    if (count_ < capacity) ++count_;
  }
  void clear() noexcept { count_ = next_ = 0; }
  [[nodiscard]] unsigned count() const noexcept { return count_; }

  /// @return 0 if there is no sample
  [[nodiscard]] double median() const noexcept {
    double sorted[capacity];
    return sort_deviations(sorted, 0.0) ? middle(sorted) : 0.0;
  }
  /// The standard error of median(), of samples with normal noise: 1.2533 sigma / sqrt(n), where
  /// sigma is 1.4826 times the median deviation.
  [[nodiscard]] double squared_error() const noexcept {
    double sorted[capacity];
    if (!sort_deviations(sorted, median())) return 0.0;
    double const error = 1.2533 * 1.4826 * middle(sorted);
    return error * error / count_;
  }

 private:
  // Insertion sort: there are few values, and <algorithm> is slow to compile.
  bool sort_deviations(double* sorted, double from) const noexcept {
    for (unsigned i = 0; i < count_; ++i) {
      double value = values_[i] - from;
      if (from != 0.0 && value < 0.0) value = -value;
      unsigned at = i;
      for (; at > 0 && sorted[at - 1] > value; --at) sorted[at] = sorted[at - 1];
      sorted[at] = value;
    }
    return count_ != 0;
  }
  [[nodiscard]] double middle(double const* sorted) const noexcept {
    return count_ % 2 != 0 ? sorted[count_ / 2]
                           : 0.5 * (sorted[count_ / 2 - 1] + sorted[count_ / 2]);
  }

  double values_[capacity] = {};
  unsigned count_ = 0;
  unsigned next_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
