// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The node of a row function: in an expression, and as a kernel computes with it.
#pragma once

#include <warpwright/kernel/detail/expression/traversal.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/rows/row_functions.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// The type in which a row of E is computed.
template <class E>
using row_value_t = std::conditional_t<std::is_same<value_t<E>, double>::value, double, float>;

template <class K, class E, class Index>
struct row_input_at;

}  // namespace detail

/// What softmax(), layer_norm() and the like return: a value for each element, in run_rows().
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
  using registers = detail::no_registers;

  K kind;
  E expression;

  /// The expression that the function is of, as a residual stream: read and computed once for both.
  [[nodiscard]] auto input() const { return part<row_part::input>(); }
  // Those that follow are one a row, for an out() of as many elements as there are rows.
  /// The row's mean, of layer_norm(), NaN where a value or the sum is infinite.
  [[nodiscard]] auto mean() const { return part<row_part::mean>(); }
  /// 1 / sqrt(variance + eps) of layer_norm(), 1 / sqrt(mean square + eps) of rms_norm().
  [[nodiscard]] auto rstd() const { return part<row_part::rstd>(); }
  /// log(sum of exp(x)) over the row, of softmax() and log_softmax().
  [[nodiscard]] auto log_sum_exp() const { return part<row_part::log_sum_exp>(); }
  /// What quantize() divides a row by.
  [[nodiscard]] auto scale() const { return part<row_part::scale>(); }
  /// The input() of each row in one column, as the logit of a target; 0 where the row has no such
  /// column, as -1, and nothing is read.
  /// @param index  `col(pointer, cols)` of integers: the column of each row
  template <class Index>
  [[nodiscard]] detail::row_input_at<K, E, Index> input_at(column_input<Index> const& index) const {
    static_assert(std::is_integral<Index>::value,
                  "warpwright::ew: input_at() takes col(pointer, cols) of integers, a column each");
    return {{}, kind, expression, index};
  }

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(detail::no_registers&, std::uint64_t, std::uint64_t) const {
    static_assert(
        V < 0,
        "warpwright::ew: softmax(), layer_norm() and the like are functions of whole rows: "
        "evaluate them with run_rows(stream, {rows, cols}, ...)");
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(detail::no_registers const&, int,
                                             std::uint64_t) const {
    return {};  // never evaluated: load() does not compile
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    expression.template describe<V>(next);
  }

 private:
  template <row_part P>
  row_function<K, E, P> part() const {
    static_assert(
        Part == row_part::result && (P == row_part::input || K::has(P)),
        "warpwright::ew: this function of rows has no such part; the documentation of "
        "input(), mean(), rstd(), scale() and log_sum_exp() lists the functions that have "
        "it");
    return {kind, expression};
  }
};

namespace detail {

// The values of V neighbouring elements.
template <class R, int V>
struct row_values {
  c_array<R, V> of;
};

// A row_function as a kernel computes with it: its values are put into its registers.
template <class K, class E, row_part Part>
struct row_function_leaf : no_memory {
  static constexpr int operands = E::operands;  // which the kernel loads elsewhere
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr bool weak = false;
  template <class C>
  using value_type = computed_t<C, row_value_t<E>>;
  template <int V>
  using registers = row_values<row_value_t<E>, is_statistic(Part) ? 1 : V>;

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>&, std::uint64_t, std::uint64_t) const {}
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t) const {
    return convert<value_type<C>>(r.of[is_statistic(Part) ? 0 : j]);
  }
};

// What input_at() returns, held as statistics are; read before the row is stored, maybe in place.
template <class K, class E, class Index>
struct row_input_at : row_function_leaf<K, E, row_part::log_sum_exp> {
  static constexpr int operands = 1 + E::operands;
  K kind;
  E expression;
  column_input<Index> index;

  template <int V, int First, class At>
  WARPWRIGHT_HOST_DEVICE void load(row_values<row_value_t<E>, 1>& r, At const& i,
                                   std::uint64_t wide) const {
    static_assert(std::is_same<At, row_index>::value,
                  "warpwright::ew: input_at() is one number a row: in run_rows() it goes to an "
                  "out() of as many, beside statistics, numbers and col()");
    auto const k = static_cast<std::uint64_t>(index.data[row_of(i, index.cols)]);
    r.of[0] = 0;
    if (k >= i.length) return;
    typename E::template registers<1> x;
    expression.template load<1, 0>(x, i.index + k, wide);
    r.of[0] = convert<row_value_t<E>>(expression.template value<void, 1>(x, 0, i.index + k));
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    expression.template describe<V>(next);
    index.template describe<V>(next);
  }
};

template <class K, class E, row_part Part>
struct is_of_row<row_function<K, E, Part>> : std::bool_constant<is_statistic(Part)> {};
template <class K, class E, class Index>
struct is_of_row<row_input_at<K, E, Index>> : std::true_type {};

struct to_row_function_leaf {
  template <class K, class E, row_part Part>
  row_function_leaf<K, E, Part> operator()(row_function<K, E, Part> const&) const {
    return {};
  }
  template <class Leaf>
  Leaf operator()(Leaf const& leaf) const {
    return leaf;
  }
};
// An expression as a kernel computes it.
template <class E>
using row_kernel_node_t = typename traversal<E>::template replaced<to_row_function_leaf>;

// A leaf's row function: the node of its result, whichever part the leaf is.
template <class Leaf>
struct row_function_of : std::false_type {
  using type = void;
  static constexpr bool is_input = false;
};
template <class K, class E, row_part Part>
struct row_function_of<row_function<K, E, Part>> : std::true_type {
  using type = row_function<K, E>;
  static constexpr bool is_input = Part == row_part::input;
};
template <class K, class E, class Index>
struct row_function_of<row_input_at<K, E, Index>> : row_function_of<row_function<K, E>> {};
template <class E>
inline constexpr bool has_row_function = any_of_leaves<row_function_of, leaves_of<E>>;

/// The row functions among leaves: the type of the first one, or void, and the operands before it.
template <class List>
struct row_function_summary;
template <class... Leaf>
struct row_function_summary<leaf_list<Leaf...>> {
  using type = typename std::disjunction<row_function_of<Leaf>..., row_function_of<void>>::type;
  static constexpr bool are_same =
      ((!row_function_of<Leaf>::value ||
        std::is_same<typename row_function_of<Leaf>::type, type>::value) &&
       ...);
  static constexpr bool uses_input = (row_function_of<Leaf>::is_input || ...);
  static constexpr int first() {
    int operands = 0;
    bool found = false;
    ((found = found || row_function_of<Leaf>::value, operands += found ? 0 : Leaf::operands), ...);
    return operands;
  }
};

// ---- Whether two row functions are the same ----

// Whether two function objects are equal: by operator==, else, as 0 is an int, by their bytes.
template <class F>
auto same_function(F const& a, F const& b, int) -> decltype(bool(a == b)) {
  return std::is_empty<F>::value || bool(a == b);
}
template <class F>
bool same_function(F const& a, F const& b, long) {
  return std::is_empty<F>::value || std::memcmp(&a, &b, sizeof(F)) == 0;
}

template <class Leaf, class = void>
inline constexpr bool is_array = false;
template <class Leaf>
inline constexpr bool is_array<Leaf, std::void_t<decltype(std::declval<Leaf const&>().data)>> =
    true;

/// Whether two expressions of one type are of the same arrays, with equal numbers and functions.
template <class E>
struct same_expression {
  static bool test(E const& a, E const& b) {
    if constexpr (is_array<E>) {  // not by its bytes: there may be padding among them
      operand of_a, of_b;
      operand *next_a = &of_a, *next_b = &of_b;
      a.template describe<1>(next_a);
      b.template describe<1>(next_b);
      return of_a.kind == of_b.kind && of_a.address == of_b.address && of_a.count == of_b.count &&
             (of_a.kind != access_pattern::view || in_place(of_a, of_b));
    } else {
      return std::is_empty<E>::value || std::memcmp(&a, &b, sizeof(E)) == 0;
    }
  }
};
template <class T, class E>
struct same_expression<computed_as<T, E>> {
  static bool test(computed_as<T, E> const& a, computed_as<T, E> const& b) {
    return same_expression<E>::test(a.expression, b.expression);
  }
};
template <class Types, class F, class... A>
struct same_expression<call<Types, F, A...>> {
  using node_type = call<Types, F, A...>;
  static bool test(node_type const& a, node_type const& b) {
    return same_function(a.function, b.function, 0) &&
           detail::apply(a.arguments, [&](A const&... x) {
             return detail::apply(b.arguments, [&](A const&... y) {
               return (same_expression<A>::test(x, y) && ...);
             });
           });
  }
};

/// Visits the leaves of the outputs: finds the first row function, and whether all are the same.
template <class K, class E>
struct row_function_finder {
  K const* kind = nullptr;
  E const* expression = nullptr;
  bool are_one = true;

  template <class Leaf>
  void operator()(Leaf const& leaf) {
    if constexpr (row_function_of<Leaf>::value) {
      if (kind != nullptr) {
        are_one = are_one && same_function(*kind, leaf.kind, 0) &&
                  same_expression<E>::test(*expression, leaf.expression);
      } else {
        kind = &leaf.kind;
        expression = &leaf.expression;
      }
    }
  }
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
