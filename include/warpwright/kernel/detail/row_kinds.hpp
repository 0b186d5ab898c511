// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of a row, as steps that threads take alike: a centre of all values, what becomes of
// a value beside it, the total of the values' weights, and results from both.
#pragma once

#include <warpwright/kernel/detail/apart.hpp>
#include <warpwright/kernel/functions.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// What an expression of a row's function stands for.
enum class row_part : unsigned char { result, input, mean, rstd, log_sum_exp };

namespace detail {

struct added {
  template <class R>
  WARPWRIGHT_HOST_DEVICE R operator()(R a, R b) const {
    return apart::plus(a, b);
  }
};
// The larger; a NaN is passed over, and found by the total.
struct at_most {
  template <class R>
  WARPWRIGHT_HOST_DEVICE R operator()(R a, R b) const {
    return apart::larger(a, b);
  }
};

// Of Count values, a power of two, pairwise.
template <int Count, class Meet, class R>
WARPWRIGHT_HOST_DEVICE R folded(R const (&values)[Count], Meet meet) {
  R all[Count];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int k = 0; k < Count; ++k) all[k] = values[k];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int half = Count / 2; half != 0; half /= 2) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int k = 0; k < half; ++k) all[k] = meet(all[k], all[k + half]);
  }
  return all[0];
}

template <int Count, class R>
WARPWRIGHT_HOST_DEVICE R squares_added(R const (&y)[Count]) {
  constexpr int half = Count > 1 ? Count / 2 : 1;
  R w[half];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int k = 0; k < half; ++k) {
    w[k] = apart::times(y[k], y[k]);
    if constexpr (Count > 1) w[k] = apart::fused(y[k + half], y[k + half], w[k]);
  }
  return folded(w, added{});
}

template <class R>
inline constexpr R lowest_of = std::numeric_limits<R>::lowest();

// What a whole row has in common.
template <class R>
struct row_facts {
  R center;  // the largest value, or the mean
  R total;   // of exponentials or squares
  R scale;   // what it makes of them: 1 / total, log(total), or 1 / standard deviation
};

// The number of a row's elements, and 1 / that.
template <class R>
struct row_width {
  R cols;
  R inverse;
  // value / cols, rounded as that (but for infinities and what is subnormal), for a fraction of its
  // instructions. Source: P. Markstein, "IA-64 and Elementary Functions", 2000, chapter 8.
  WARPWRIGHT_HOST_DEVICE R share(R value) const {
    R const near = apart::times(value, inverse);
    return apart::fused(apart::fused(-near, cols, value), inverse, near);
  }
};

// Every kind has
//   is_centered              whether there is a centre, or 0 is it
//   meets, none<R>()         how the parts' centres combine, and that of no values
//   center(met, width)       the row's centre
//   prepared(x, center)      what becomes of a value
//   weight({prepared, ...})  the part of values in the total
//   scale(total, width)      and with it result(prepared, scale)
//   has(part), fact(part)    what a row_function of the kind answers beside its result
//   running<R>               of values seen once only: absorb() them; met() and, for a centre,
//                            total() are then those of a part

struct softmax_base {
  static constexpr bool is_centered = true;
  using meets = at_most;
  // Not -infinity, from which no value could be subtracted; where all values are -infinity the
  // total is 0, and the results are NaN as they should.
  template <class R>
  WARPWRIGHT_HOST_DEVICE static R none() {
    return lowest_of<R>;
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE R center(R met, row_width<R> const&) const {
    return met;
  }
  static constexpr bool has(row_part part) {
    return part == row_part::input || part == row_part::log_sum_exp;
  }
  template <row_part, class R>
  WARPWRIGHT_HOST_DEVICE static R fact(row_facts<R> const& f) {
    return apart::plus(f.center, library::log(f.total));
  }

  // Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
  // arXiv:1805.02867.
  template <class R>
  struct running {
    R most = none<R>();
    R sum = 0;
    template <int Count>
    WARPWRIGHT_HOST_DEVICE void absorb(R const (&x)[Count]) {
      R const now = apart::larger(most, folded(x, at_most{}));
      R w[Count];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < Count; ++j) w[j] = library::exp(apart::minus(x[j], now));
      sum = apart::plus(total(now), folded(w, added{}));
      most = now;
    }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R met() const { return most; }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R total(R center) const {
      return apart::times(sum, library::exp(apart::minus(most, center)));
    }
  };
};

struct softmax_kind : softmax_base {
  template <class R>
  WARPWRIGHT_HOST_DEVICE R prepared(R x, R center) const {
    return library::exp(apart::minus(x, center));
  }
  template <int Count, class R>
  WARPWRIGHT_HOST_DEVICE R weight(R const (&y)[Count]) const {
    return folded(y, added{});
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE R scale(R total, row_width<R> const&) const {
    return R{1} / total;
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE R result(R y, R scale) const {
    return apart::times(y, scale);
  }
};

struct log_softmax_kind : softmax_base {
  template <class R>
  WARPWRIGHT_HOST_DEVICE R prepared(R x, R center) const {
    return apart::minus(x, center);
  }
  template <int Count, class R>
  WARPWRIGHT_HOST_DEVICE R weight(R const (&y)[Count]) const {
    R w[Count];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int j = 0; j < Count; ++j) w[j] = library::exp(y[j]);
    return folded(w, added{});
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE R scale(R total, row_width<R> const&) const {
    return library::log(total);
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE R result(R y, R scale) const {
    return apart::minus(y, scale);
  }
};

struct norm_base {
  double eps;
  float eps_as_float;  // so that no kernel converts it

  explicit norm_base(double epsilon) : eps{epsilon}, eps_as_float{narrowed(epsilon)} {}
  // C++ leaves the conversion of what float cannot hold undefined.
  static float narrowed(double epsilon) {
    constexpr float most = std::numeric_limits<float>::max();
    return epsilon > static_cast<double>(most) ? std::numeric_limits<float>::infinity()
                                               : static_cast<float>(epsilon);
  }

  template <int Count, class R>
  WARPWRIGHT_HOST_DEVICE R weight(R const (&y)[Count]) const {
    return squares_added(y);
  }
  // Not rsqrt, whose rounding differs from one machine to the next.
  WARPWRIGHT_HOST_DEVICE float scale(float total, row_width<float> const& width) const {
    return 1.0F / library::sqrt(apart::fused(total, width.inverse, eps_as_float));
  }
  WARPWRIGHT_HOST_DEVICE double scale(double total, row_width<double> const& width) const {
    return 1.0 / library::sqrt(apart::fused(total, width.inverse, eps));
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE R result(R y, R scale) const {
    return apart::times(y, scale);
  }
  template <row_part Part, class R>
  WARPWRIGHT_HOST_DEVICE static R fact(row_facts<R> const& f) {
    return Part == row_part::mean ? f.center : f.scale;
  }
};

struct layer_norm_kind : norm_base {
  using norm_base::norm_base;
  static constexpr bool is_centered = true;
  using meets = added;
  template <class R>
  WARPWRIGHT_HOST_DEVICE static R none() {
    return 0;
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE R center(R met, row_width<R> const& width) const {
    return width.share(met);
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE R prepared(R x, R center) const {
    return apart::minus(x, center);
  }
  static constexpr bool has(row_part part) {
    return part == row_part::input || part == row_part::mean || part == row_part::rstd;
  }

  // Mean and squared deviations of what was seen. Source: T. Chan, G. Golub, R. LeVeque,
  // "Algorithms for Computing the Sample Variance", The American Statistician 37 (1983).
  template <class R>
  struct running {
    R count = 0;
    R mean = 0;
    R squares = 0;
    template <int Count>
    WARPWRIGHT_HOST_DEVICE void absorb(R const (&x)[Count]) {
      constexpr R more = static_cast<R>(Count);
      R const mean_of_x = folded(x, added{}) / more;
      R y[Count];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < Count; ++j) y[j] = apart::minus(x[j], mean_of_x);
      R const all = count + more;
      R const part = more / all;
      R const apart_by = apart::minus(mean_of_x, mean);
      R const moved = apart::times(apart_by, part);
      squares = apart::plus(apart::plus(squares, squares_added(y)),
                            apart::times(apart::times(apart_by, moved), count));
      mean = apart::plus(mean, moved);
      count = all;
    }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R met() const { return apart::times(count, mean); }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R total(R center) const {
      R const off = apart::minus(mean, center);
      return apart::plus(squares, apart::times(apart::times(off, off), count));
    }
  };
};

struct rms_norm_kind : norm_base {
  using norm_base::norm_base;
  static constexpr bool is_centered = false;
  using meets = added;
  template <class R>
  WARPWRIGHT_HOST_DEVICE R prepared(R x, R) const {
    return x;
  }
  static constexpr bool has(row_part part) {
    return part == row_part::input || part == row_part::rstd;
  }

  template <class R>
  struct running {
    R squares = 0;
    template <int Count>
    WARPWRIGHT_HOST_DEVICE void absorb(R const (&x)[Count]) {
      squares = apart::plus(squares, squares_added(x));
    }
    [[nodiscard]] WARPWRIGHT_HOST_DEVICE R total(R) const { return squares; }
  };
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
