// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The node of a row's function, where it stands in an expression, and what a kernel sees of it.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/alike.hpp>
#include <warpwright/kernel/detail/row_kinds.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// The type in which a row of E is computed.
template <class E>
using row_value_t =
    std::conditional_t<std::is_same<typename E::template value_type<void>, double>::value, double,
                       float>;

WARPWRIGHT_HOST_DEVICE constexpr bool is_statistic(row_part part) {
  return part != row_part::result && part != row_part::input;
}

// One for each call of softmax() and its like, so that two calls are told apart from copies of one.
inline std::uint64_t next_row_ticket() {
  static std::uint64_t last = 0;
  return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

}  // namespace detail

/// What softmax(), layer_norm() and the like return: a value for each element, which run_rows()
/// evaluates, and on which expressions may go on.
template <class K, class E, row_part Part = row_part::result>
struct row_function {
  using expression_tag = void;
  static constexpr int operands = E::operands;
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr int loaded_bytes = E::loaded_bytes;
  static constexpr bool weak = false;
  template <class C>
  using value_type = detail::computed_t<C, detail::row_value_t<E>>;
  template <int V>
  using registers = detail::nothing;

  K kind;
  E expression;
  std::uint64_t ticket;

  /// What the function is of, element by element: read and computed once for both. Stored beside
  /// the result it is the residual stream of a transformer.
  [[nodiscard]] auto input() const { return part<row_part::input>(); }
  /// The row's mean, of layer_norm(), NaN where a value or the sum is infinite; assign it to an
  /// out() of as many elements as there are rows.
  [[nodiscard]] auto mean() const { return part<row_part::mean>(); }
  /// 1 / sqrt(variance + eps) of layer_norm(), 1 / sqrt(mean square + eps) of rms_norm(), as
  /// mean().
  [[nodiscard]] auto rstd() const { return part<row_part::rstd>(); }
  /// log(sum of exp(x)) over the row, of softmax() and log_softmax(), as mean().
  [[nodiscard]] auto log_sum_exp() const { return part<row_part::log_sum_exp>(); }

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(detail::nothing&, std::uint64_t, std::uint64_t) const {
    static_assert(
        V < 0,
        "warpwright::ew: softmax(), layer_norm() and the like are functions of whole rows: "
        "evaluate them with run_rows(stream, {rows, cols}, ...)");
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(detail::nothing const&, int, std::uint64_t) const {
    return {};  // load() says why this is never evaluated
  }
  template <int V>
  void describe(detail::operand*& next) const {
    expression.template describe<V>(next);
  }

 private:
  template <row_part P>
  row_function<K, E, P> part() const {
    static_assert(Part == row_part::result && K::has(P),
                  "warpwright::ew: this function of rows has no such part: softmax() and "
                  "log_softmax() have input() and log_sum_exp(), layer_norm() has input(), mean() "
                  "and rstd(), rms_norm() has input() and rstd()");
    return {kind, expression, ticket};
  }
};

namespace detail {

// What a row's function left for V neighbouring elements.
template <class R, int V>
struct row_lanes {
  R of[V];
};

// A row_function as a kernel sees it: its numbers are put into its registers.
template <class K, class E, row_part Part>
struct row_leaf {
  using expression_tag = void;
  using real = row_value_t<E>;
  static constexpr int operands = E::operands;  // their places stay free
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr int loaded_bytes = 0;
  static constexpr bool weak = false;
  template <class C>
  using value_type = computed_t<C, real>;
  template <int V>
  using registers = row_lanes<real, is_statistic(Part) ? 1 : V>;

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>&, std::uint64_t, std::uint64_t) const {}
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t) const {
    return convert<value_type<C>>(r.of[is_statistic(Part) ? 0 : j]);
  }
};

// The function and the operand of a row_function; one for each kernel.
template <class K, class E>
struct row_source {
  using kind = K;
  using expression = E;
};

/// The row's functions below a node.
///   source        row_source, `none`, or `several`
///   at            the number of arrays before those of the first
///   takes_input   whether some are input()
///   on_kernel     the node's type as a kernel sees it, and bare() the node
///   visit(e, f)   calls f(row_function) for each
///   put<V>(r, y)  puts what y.get<Part>(j) answers into their registers
template <class E>
struct row_use {
  using source = none;
  static constexpr int at = 0;
  static constexpr bool takes_input = false;
  using on_kernel = E;
  static E const& bare(E const& e) { return e; }
  template <class F>
  static void visit(E const&, F&) {}
  template <int V, class Y>
  WARPWRIGHT_HOST_DEVICE static void put(typename E::template registers<V>&, Y const&) {}
};

template <class K, class E, row_part Part>
struct row_use<row_function<K, E, Part>> {
  using source = row_source<K, E>;
  static constexpr int at = 0;
  static constexpr bool takes_input = Part == row_part::input;
  using on_kernel = row_leaf<K, E, Part>;
  static on_kernel bare(row_function<K, E, Part> const&) { return {}; }
  template <class F>
  static void visit(row_function<K, E, Part> const& e, F& f) {
    f(e);
  }
  template <int V, class Y>
  WARPWRIGHT_HOST_DEVICE static void put(typename on_kernel::template registers<V>& r, Y const& y) {
    constexpr int count = is_statistic(Part) ? 1 : V;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int j = 0; j < count; ++j) r.of[j] = y.template get<Part>(j);
  }
};

template <class T, class E>
struct row_use<computed_as<T, E>> {
  using below = row_use<E>;
  using source = typename below::source;
  static constexpr int at = below::at;
  static constexpr bool takes_input = below::takes_input;
  using on_kernel = computed_as<T, typename below::on_kernel>;
  static on_kernel bare(computed_as<T, E> const& e) { return {below::bare(e.expression)}; }
  template <class F>
  static void visit(computed_as<T, E> const& e, F& f) {
    below::visit(e.expression, f);
  }
  template <int V, class Y>
  WARPWRIGHT_HOST_DEVICE static void put(typename on_kernel::template registers<V>& r, Y const& y) {
    below::template put<V>(r, y);
  }
};

template <class... A>
struct row_use_of_all {
  using source = none;
  static constexpr int at = 0;
  static constexpr bool takes_input = false;
};
template <class A, class... Rest>
struct row_use_of_all<A, Rest...> {
  using rest = row_use_of_all<Rest...>;
  using source = either_type<typename row_use<A>::source, typename rest::source>;
  static constexpr int at = std::is_same<typename row_use<A>::source, none>::value
                                ? A::operands + rest::at
                                : row_use<A>::at;
  static constexpr bool takes_input = row_use<A>::takes_input || rest::takes_input;
};

template <class Types, class F, class... A>
struct row_use<call<Types, F, A...>> : row_use_of_all<A...> {
  using node = call<Types, F, A...>;
  using on_kernel = call<Types, F, typename row_use<A>::on_kernel...>;
  static on_kernel bare(node const& e) { return bare(e, std::index_sequence_for<A...>{}); }
  template <class Visitor>
  static void visit(node const& e, Visitor& f) {
    visit(e, f, std::index_sequence_for<A...>{});
  }
  template <int V, class Y>
  WARPWRIGHT_HOST_DEVICE static void put(typename on_kernel::template registers<V>& r, Y const& y) {
    put<V>(r, y, std::index_sequence_for<A...>{});
  }

 private:
  template <std::size_t... Index>
  static on_kernel bare(node const& e, std::index_sequence<Index...>) {
    return {e.function, {{row_use<A>::bare(detail::at<Index>(e.arguments))}...}};
  }
  template <class Visitor, std::size_t... Index>
  static void visit(node const& e, Visitor& f, std::index_sequence<Index...>) {
    (row_use<A>::visit(detail::at<Index>(e.arguments), f), ...);
  }
  template <int V, class Y, std::size_t... Index>
  WARPWRIGHT_HOST_DEVICE static void put(typename on_kernel::template registers<V>& r, Y const& y,
                                         std::index_sequence<Index...>) {
    (row_use<A>::template put<V>(detail::at<Index>(r), y), ...);
  }
};

template <class E>
inline constexpr bool has_row_function = !std::is_same<typename row_use<E>::source, none>::value;

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
