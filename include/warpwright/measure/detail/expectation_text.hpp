// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the check of an expectation found, in words.
#pragma once

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/measure/expectation.hpp>

#include <cmath>
#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

// Templates, so that a file which only includes the header does not compile them. Expectation is
// expectation, Finding is finding.

// "p99 of decode"
template <typename Expectation, typename Builder = string_builder>
WARPWRIGHT_COLD Builder what_is_expected(Expectation const& e) {
  Builder text = "throughput of ";
  if (e.figure == expected_figure::memory) text = "memory of ";
  if (e.figure == expected_figure::latency) {
    bool const is_median = std::fabs(e.quantile - 0.5) < 1e-12;
    text = is_median ? Builder{"median latency of "} : quantile_name(e.quantile) + " of ";
  }
  return text + e.name;
}

// @param digits  significant ones
template <typename Expectation, typename Builder = string_builder>
WARPWRIGHT_COLD Builder expected_amount(Expectation const& e, double value, int digits) {
  if (e.figure == expected_figure::throughput) {
    return trimmed(format_rate(value, digits)) + " items/s";
  }
  if (e.figure == expected_figure::memory) {
    // Bytes count where the shorter text would hide a difference.
    return digits > 6 ? format_number("%.0f B", value) : trimmed(format_bytes(value, digits));
  }
  return trimmed(format_seconds(value, digits));
}

template <typename Finding>
class finding_text {
 public:
  explicit finding_text(Finding const& f)
      : f_{f}, e_{f.expected}, at_least_{e_.figure == expected_figure::throughput} {}

  [[nodiscard]] WARPWRIGHT_COLD string_builder text() {
    string_builder const name = what_is_expected(e_) + ": ";
    switch (f_.state) {
      case finding_state::met:
        return name + amount(f_.value) + limit();
      case finding_state::fell_short:
        tell_apart(f_.value);
        return name + amount(f_.value) + limit() + " (" + shortfalls() + ")";
      case finding_state::not_shown:
        tell_apart(f_.low);
        tell_apart(f_.high);
        return name + amount(f_.value) + " (" + interval() + ")" + limit();
      case finding_state::no_figure:
        break;
    }
    return name + "nothing observed" + limit();
  }

 private:
  static constexpr int limit_digits = 6;
  static constexpr int most_digits = 9;

  [[nodiscard]] string_builder amount(double value) const {
    return expected_amount(e_, value, digits_);
  }
  [[nodiscard]] string_builder amount_of_limit() const {
    return expected_amount(e_, e_.limit, digits_ > limit_digits ? digits_ : limit_digits);
  }
  [[nodiscard]] string_builder limit() const {
    return string_builder{at_least_ ? ", expected at least " : ", expected at most "} +
           amount_of_limit();
  }

  // A figure that is not the limit must not look as if it were.
  WARPWRIGHT_COLD void tell_apart(double value) {
    bool const equal = !(value < e_.limit) && !(value > e_.limit);
    while (!equal && digits_ < most_digits && amount(value).str() == amount_of_limit().str()) {
      ++digits_;
    }
  }

  // "between 2.9 ms and 6 ms"
  [[nodiscard]] WARPWRIGHT_COLD string_builder interval() const {
    bool const has_low = f_.low > 0.0;
    bool const has_high = f_.high < 1e300;
    if (has_low && has_high) return "between " + amount(f_.low) + " and " + amount(f_.high);
    char const* const why = at_least_ ? ", and no other bound" : ", and too few calls to tell more";
    if (has_low) return "at least " + amount(f_.low) + why;
    return has_high ? "at most " + amount(f_.high) + why : string_builder{"too few calls to tell"};
  }

  // "22 % over, at least 17 %"
  [[nodiscard]] WARPWRIGHT_COLD string_builder shortfalls() const {
    double const bound = at_least_ ? f_.high : f_.low;
    string_builder const by = shortfall(f_.value);
    string_builder const least = shortfall(bound);
    string_builder const text = by + (at_least_ ? " under" : " over");
    bool const little = std::fabs(bound - e_.limit) < least_shown * e_.limit;
    return little || by.str() == least.str() ? text : text + ", at least " + least;
  }
  [[nodiscard]] string_builder shortfall(double value) const {
    double const share = std::fabs(value - e_.limit) / e_.limit;
    if (share < least_shown) return "less than 0.1 %";
    return format_number(share < 0.0995 ? "%.2g %%" : "%.0f %%", 100.0 * share);
  }
  static constexpr double least_shown = 0.001;

  Finding const& f_;
  expectation const& e_;
  bool at_least_;
  int digits_ = f_.expected.figure == expected_figure::latency ? 3 : 4;
};

}  // namespace detail

WARPWRIGHT_END
