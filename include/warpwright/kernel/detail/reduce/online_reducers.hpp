// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions whose states scale or move when they combine: log_sum_exp() and variance().
#pragma once

#include <warpwright/kernel/detail/reduce/reducers.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

template <class R>
struct scaled_sum {
  R most;  // the largest value, not below lowest<R>, from which -infinity can be subtracted
  R sum;   // of exp(value - most)
};

// Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
// arXiv:1805.02867.
struct log_sum_exp_kind : reducer<log_sum_exp_kind> {
  static constexpr char const* name = "log_sum_exp";
  template <class V>
  using result = typename real_type<V>::type;
  template <class V>
  using state = scaled_sum<result<V>>;

  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> identity() const {
    return {lowest<result<V>>, 0};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> lift(V value, std::uint64_t) const {
    auto const x = convert<result<V>>(value);
    auto const most = no_contract::larger(x, lowest<result<V>>);
    auto const below = no_contract::minus(x, most);  // 0, -infinity, or NaN, also of infinity
    return {most, below == 0 ? 1 : below < 0 ? 0 : below};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> combine(state<V> const& a, state<V> const& b) const {
    bool const swap = a.most < b.most;
    state<V> const high = swap ? b : a;
    state<V> const low = swap ? a : b;
    auto const scale = exp_function{}(no_contract::minus(low.most, high.most));
    return {high.most, no_contract::plus(high.sum, no_contract::times(low.sum, scale))};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE result<V> finish(state<V> const& s, std::uint64_t) const {
    return no_contract::plus(s.most, log_function{}(s.sum));
  }
};

template <class R>
struct moments {
  R count;
  R mean;
  R squares;  // of the differences from the mean
};

// Source: T. Chan, G. Golub, R. LeVeque, "Algorithms for Computing the Sample Variance", The
// American Statistician 37 (1983).
struct variance_kind : reducer<variance_kind> {
  static constexpr char const* name = "variance";
  template <class V>
  using result = std::conditional_t<std::is_same<V, float>::value, float, double>;
  template <class V>
  using state = moments<result<V>>;

  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> identity() const {
    return {0, 0, 0};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> lift(V value, std::uint64_t) const {
    return {1, convert<result<V>>(value), 0};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> combine(state<V> const& a, state<V> const& b) const {
    using R = result<V>;
    R const count = a.count + b.count;
    R const part = count == 0 ? R{0} : b.count / count;
    R const difference = no_contract::minus(b.mean, a.mean);
    R const moved = no_contract::times(difference, part);
    R const between = no_contract::times(difference, no_contract::times(moved, a.count));
    return {count, no_contract::plus(a.mean, moved),
            no_contract::plus(no_contract::plus(a.squares, b.squares), between)};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE result<V> finish(state<V> const& s, std::uint64_t n) const {
    return static_cast<result<V>>(static_cast<double>(s.squares) / static_cast<double>(n));
  }
};

}  // namespace ew::detail

WARPWRIGHT_END
