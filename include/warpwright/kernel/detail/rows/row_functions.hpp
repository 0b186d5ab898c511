// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of a row: softmax, log-softmax, layer norm and RMS norm. To add one, write a type
// as the contract below says, and a function that makes its node in rows.hpp.
//
// A kernel computes a row in five steps: the centre of all values (their maximum or mean), a
// transformed value for each, the total of the transformed values' weights, a scale from the total,
// and results from transformed values and scale. The contract: a row function of values of type R,
// float or double, has
//   name                     what describe() prints, followed by parameter() if there is one
//   has_total                whether there is a total; scale() gets the centre otherwise
//   is_centered              whether there is a centre; 0 is passed for it otherwise
//   partial                  the type of a partial centre
//   combine_centers          a functor: combines the partial centres of two sets of values
//   none()                   the partial centre of no values
//   partial_of({x, ...})     that of some values
//   center(partial, width)   the centre of the row, from the partial centre of all its values
//   transform(x, center)     a value, transformed
//   weight({y, ...})         the part of some transformed values in the total
//   scale(total, width)      what result() takes
//   result(y, scale)         the result, from a transformed value
//   has(part)                whether a row_function of it has that part beside result and input
//   accumulator              of a streamed row, whose values are seen once before the centre is
//                            known: accumulate({x, ...}) adds values; partial_center() and
//                            total(center) are then those of all values added
// center(), none(), partial_of() and partial_center() are needed where is_centered only.
// row_function_base has what most share. An operator== compares the numbers of a function with any.
#pragma once

#include <warpwright/kernel/detail/expression/functors.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/numeric/no_contract.hpp>

#include <limits>

WARPWRIGHT_BEGIN

namespace ew {

/// What a node of a row function stands for: result, what it is of, or a statistic, one a row.
enum class row_part : unsigned char { result, input, mean, rstd, log_sum_exp, scale };

namespace detail {

WARPWRIGHT_HOST_DEVICE constexpr bool is_statistic(row_part part) {
  return part != row_part::result && part != row_part::input;
}

struct add {
  template <class R>
  WARPWRIGHT_HOST_DEVICE R operator()(R a, R b) const {
    return no_contract::plus(a, b);
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE compensated_sum<R> operator()(compensated_sum<R> const& a,
                                                       compensated_sum<R> const& b) const {
    return two_sum(a, b);
  }
};
// Ignores a NaN, which makes the total NaN.
template <class R>
struct maximum {
  WARPWRIGHT_HOST_DEVICE R operator()(R a, R b) const { return no_contract::larger(a, b); }
};

// Combines map(value) of Count values, a power of two, by a tree of halves.
template <int Count, class Combine, class Map, class R>
WARPWRIGHT_HOST_DEVICE R pairwise_fold(c_array<R, Count> const& values, Combine combine,
                                       Map const& map) {
  c_array<R, Count> all;
  WARPWRIGHT_UNROLL
  for (int k = 0; k < Count; ++k) all[k] = map(values[k]);
  WARPWRIGHT_UNROLL
  for (int half = Count / 2; half != 0; half /= 2) {
    WARPWRIGHT_UNROLL
    for (int k = 0; k < half; ++k) all[k] = combine(all[k], all[k + half]);
  }
  return all[0];
}
template <int Count, class Combine, class R>
WARPWRIGHT_HOST_DEVICE R pairwise_fold(c_array<R, Count> const& values, Combine combine) {
  return pairwise_fold(values, combine, [](R value) { return value; });
}

template <int Count, class R>
WARPWRIGHT_HOST_DEVICE R sum_of_squares_of(c_array<R, Count> const& y) {
  constexpr int half = Count > 1 ? Count / 2 : 1;
  c_array<R, half> w;
  WARPWRIGHT_UNROLL
  for (int k = 0; k < half; ++k) {
    w[k] = no_contract::times(y[k], y[k]);
    if constexpr (Count > 1) w[k] = no_contract::fused(y[k + half], y[k + half], w[k]);
  }
  return pairwise_fold(w, add{});
}

// exp(x) of x up to 0, within 2^-23 * (3 - x) relative and 2^-126: expf() takes thrice as long.
struct row_exp {
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return approximate_exp2(x * 1.442695F); }
  WARPWRIGHT_HOST_DEVICE double operator()(double x) const { return exp_function{}(x); }
};

/// The statistics of one row.
template <class R>
struct row_statistics {
  R center;  // the maximum, or the mean
  R total;   // of exponentials or squares
  R scale;   // made from the total: 1 / total, log(total), or 1 / standard deviation

  /// The value of a part that is one number a row.
  template <row_part Part>
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE R value() const {
    if constexpr (Part == row_part::log_sum_exp) {
      return no_contract::plus(center, log_function{}(total));
    } else {
      return Part == row_part::mean ? center : scale;
    }
  }
};

/// The number of columns, and 1 / that.
template <class R>
struct row_width {
  R cols;
  R inverse;
  // value / cols, rounded as that (except for infinities and subnormal numbers), for a fraction of
  // its instructions. Source: P. Markstein, "IA-64 and Elementary Functions", 2000, chapter 8.
  WARPWRIGHT_HOST_DEVICE R divide_by_cols(R value) const {
    R const nearest = no_contract::times(value, inverse);
    return no_contract::fused(no_contract::fused(-nearest, cols, value), inverse, nearest);
  }
  // An infinite sum has no error, but a NaN.
  WARPWRIGHT_HOST_DEVICE R divide_by_cols(compensated_sum<R> const& all) const {
    R const nearest = divide_by_cols(all.sum);
    R const rest = no_contract::plus(no_contract::fused(-nearest, cols, all.sum), all.error);
    R const mean = no_contract::fused(rest, inverse, nearest);
    return mean == mean ? mean : nearest;
  }
};

template <class R>
struct row_function_base {
  static constexpr bool has_total = true;
  static constexpr bool is_centered = true;
  using partial = R;
  WARPWRIGHT_HOST_DEVICE R transform(R x, R center) const { return no_contract::minus(x, center); }
  WARPWRIGHT_HOST_DEVICE R result(R y, R scale) const { return no_contract::times(y, scale); }
};

template <class R>
struct softmax_base : row_function_base<R> {
  static constexpr bool has(row_part part) { return part == row_part::log_sum_exp; }
  using combine_centers = maximum<R>;
  // Not -infinity, which would be subtracted from itself: where all values are, the total is 0.
  WARPWRIGHT_HOST_DEVICE static R none() { return lowest<R>; }
  template <int Count>
  WARPWRIGHT_HOST_DEVICE static R partial_of(c_array<R, Count> const& x) {
    return pairwise_fold(x, maximum<R>{});
  }
  WARPWRIGHT_HOST_DEVICE R center(R most, row_width<R> const&) const { return most; }

  // M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867.
  struct accumulator {
    R most = none();
    R sum = 0;
    template <int Count>
    WARPWRIGHT_HOST_DEVICE void accumulate(c_array<R, Count> const& x) {
      R const now = no_contract::larger(most, partial_of(x));
      c_array<R, Count> w;
      WARPWRIGHT_UNROLL
      for (int j = 0; j < Count; ++j) w[j] = row_exp{}(no_contract::minus(x[j], now));
      sum = no_contract::plus(total(now), pairwise_fold(w, add{}));
      most = now;
    }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R partial_center() const { return most; }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R total(R center) const {
      return no_contract::times(sum, row_exp{}(no_contract::minus(most, center)));
    }
  };
};

template <class R>
struct softmax_function : softmax_base<R> {
  static constexpr char const* name = "softmax";
  WARPWRIGHT_HOST_DEVICE R transform(R x, R center) const {
    return row_exp{}(no_contract::minus(x, center));
  }
  template <int Count>
  WARPWRIGHT_HOST_DEVICE R weight(c_array<R, Count> const& y) const {
    return pairwise_fold(y, add{});
  }
  WARPWRIGHT_HOST_DEVICE R scale(R total, row_width<R> const&) const { return R{1} / total; }
};

template <class R>
struct log_softmax_function : softmax_base<R> {
  static constexpr char const* name = "log_softmax";
  template <int Count>
  WARPWRIGHT_HOST_DEVICE R weight(c_array<R, Count> const& y) const {
    return pairwise_fold(y, add{}, row_exp{});
  }
  WARPWRIGHT_HOST_DEVICE R scale(R total, row_width<R> const&) const {
    return log_function{}(total);
  }
  WARPWRIGHT_HOST_DEVICE R result(R y, R scale) const { return no_contract::minus(y, scale); }
};

template <class R>
struct norm_base : row_function_base<R> {
  double eps;
  R rounded_eps;  // converted once, on the host

  [[nodiscard]] double parameter() const { return eps; }
  explicit norm_base(double epsilon) : eps{epsilon}, rounded_eps{rounded(epsilon)} {}
  // C++ does not define the conversion of what float cannot hold.
  static R rounded(double epsilon) {
    using limits = std::numeric_limits<R>;
    return epsilon > double{(limits::max)()} ? limits::infinity() : static_cast<R>(epsilon);
  }
  friend bool operator==(norm_base const& a, norm_base const& b) { return a.eps == b.eps; }

  template <int Count>
  WARPWRIGHT_HOST_DEVICE R weight(c_array<R, Count> const& y) const {
    return sum_of_squares_of(y);
  }
  // Not rsqrt, whose rounding differs between host and GPU.
  WARPWRIGHT_HOST_DEVICE R scale(R total, row_width<R> const& width) const {
    return R{1} / sqrt_function{}(no_contract::fused(total, width.inverse, rounded_eps));
  }
};

template <class R>
struct layer_norm_function : norm_base<R> {
  static constexpr char const* name = "layer_norm";
  using norm_base<R>::norm_base;
  static constexpr bool has(row_part p) { return p == row_part::mean || p == row_part::rstd; }
  // With the errors of the sums, so that equal values have their value as mean.
  using partial = compensated_sum<R>;
  using combine_centers = add;
  WARPWRIGHT_HOST_DEVICE static partial none() { return {0, 0}; }
  template <int Count>
  WARPWRIGHT_HOST_DEVICE static partial partial_of(c_array<R, Count> const& x) {
    return {pairwise_fold(x, add{}), 0};
  }
  WARPWRIGHT_HOST_DEVICE R center(partial const& all, row_width<R> const& width) const {
    return width.divide_by_cols(all);
  }

  // Mean and squared deviations of the values so far. Source: T. Chan, G. Golub, R. LeVeque,
  // "Algorithms for Computing the Sample Variance", The American Statistician 37 (1983).
  struct accumulator {
    R count = 0;
    R mean = 0;
    R squares = 0;
    template <int Count>
    WARPWRIGHT_HOST_DEVICE void accumulate(c_array<R, Count> const& x) {
      constexpr R more = static_cast<R>(Count);
      R const mean_of_x = pairwise_fold(x, add{}) / more;
      c_array<R, Count> y;
      WARPWRIGHT_UNROLL
      for (int j = 0; j < Count; ++j) y[j] = no_contract::minus(x[j], mean_of_x);
      R const all = count + more;
      R const part = more / all;
      R const difference = no_contract::minus(mean_of_x, mean);
      R const moved = no_contract::times(difference, part);
      squares = no_contract::plus(no_contract::plus(squares, sum_of_squares_of(y)),
                                  no_contract::times(no_contract::times(difference, moved), count));
      mean = no_contract::plus(mean, moved);
      count = all;
    }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE partial partial_center() const {
      R const sum = no_contract::times(count, mean);
      return {sum, no_contract::fused(count, mean, -sum)};
    }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R total(R center) const {
      R const off = no_contract::minus(mean, center);
      return no_contract::plus(squares, no_contract::times(no_contract::times(off, off), count));
    }
  };
};

template <class R>
struct rms_norm_function : norm_base<R> {
  static constexpr char const* name = "rms_norm";
  using norm_base<R>::norm_base;
  static constexpr bool has(row_part part) { return part == row_part::rstd; }
  static constexpr bool is_centered = false;
  WARPWRIGHT_HOST_DEVICE R transform(R x, R) const { return x; }

  struct accumulator {
    R squares = 0;
    template <int Count>
    WARPWRIGHT_HOST_DEVICE void accumulate(c_array<R, Count> const& x) {
      squares = no_contract::plus(squares, sum_of_squares_of(x));
    }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R total(R) const { return squares; }
  };
};

// The centre is the largest |x|, or NaN; it stands for the total.
template <class T, class R>
struct quantize_function : softmax_base<R> {
  static constexpr char const* name = "quantize";
  static constexpr char const* type_name = element_name<T>();
  static constexpr bool has(row_part part) { return part == row_part::scale; }
  static constexpr bool has_total = false;
  static constexpr bool is_integer = std::is_integral<T>::value;
  static constexpr int most = is_integer                              ? 127
                              : std::is_same<T, __nv_fp8_e4m3>::value ? 448
                                                                      : 57344;
  using combine_centers = max_function;
  template <int Count>
  WARPWRIGHT_HOST_DEVICE static R partial_of(c_array<R, Count> const& x) {
    return pairwise_fold(x, max_function{}, abs_function{});
  }
  WARPWRIGHT_HOST_DEVICE R transform(R x, R) const { return x; }
  // A normal number, so that it has a reciprocal.
  WARPWRIGHT_HOST_DEVICE R scale(R amax, row_width<R> const&) const {
    constexpr auto least = static_cast<R>(sizeof(R) == 4 ? 0x1p-126 : 0x1p-1022);
    return max_function{}(amax / static_cast<R>(most), least);
  }
  // x / scale; to the nearest integer here, as its conversion truncates.
  WARPWRIGHT_HOST_DEVICE R result(R x, R scale) const {
    R const y = row_width<R>{scale, R{1} / scale}.divide_by_cols(x);
    return is_integer ? rint_function{}(y) : y;
  }
  struct accumulator {
    R most = 0;
    template <int Count>
    WARPWRIGHT_HOST_DEVICE void accumulate(c_array<R, Count> const& x) {
      most = max_function{}(most, partial_of(x));
    }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R partial_center() const { return most; }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R total(R center) const { return center; }
  };
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
