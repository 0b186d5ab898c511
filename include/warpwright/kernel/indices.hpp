// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Operands and outputs by index: an expression of integers, each of which leads to an element of an
// array, or `col(pointer, cols)`, each of which leads to a row of `cols` elements.
//   // An embedding of tokens, its gradient, and keys that are appended at a position in memory.
//   ew::run(s, ew::out(y, n) = ew::row_at(ew::in(table, v * cols), ew::col(tokens, cols)));
//   ew::run(s, ew::out_at(dtable, v * cols, n, ew::col(tokens, cols)) += ew::in(dy, n));
//   ew::run(s, ew::out_at(cache, length * cols, cols, ew::col(position, cols)) = ew::in(k, cols));
//
// An index out of range is undefined behaviour on a GPU. With WARPWRIGHT_CHECK_INDICES=1, the
// default of the host runtime, the kernel prints it and traps: the next calls return
// cudaErrorLaunchFailure. evaluate_host() and its like then throw std::out_of_range.
#pragma once

#include <warpwright/kernel/detail/indices/indexed_nodes.hpp>
#include <warpwright/kernel/evaluate.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// Elements of a table by index, `table[index(i)]`, in any expression.
/// @param table  `in(pointer, count)`, of any element type; does not overlap an output
/// @param index  an expression of integers, without view() in it
/// **Cost:** one load an element, behind that of its index.
template <class T, class K, bool Checked = WARPWRIGHT_CHECK_INDICES != 0>
[[nodiscard]] auto gather(input<T> const& table, K const& index) {
  static_assert(!detail::holds_view<detail::expression_t<K>>,
                "warpwright::ew::gather: the index reads a view; write it to an array by run(), "
                "and pass in() of that");
  auto array = detail::indexed_by<false, Checked>(index, table.size, source_location::current());
  return indexed_input<T, decltype(array), detail::expression_t<K>>{
      {table.data}, array, detail::as_expression(index)};
}

/// Rows of a table by index, an embedding: element (r, c) is `table[index[r] * cols + c]`.
/// @param table  `in(pointer, table_rows * cols)`, as that of gather()
/// @param index  `col(pointer, cols)`: an integer for each row of the output
/// @throws std::invalid_argument  for a table of no whole number of rows
/// **Cost:** loads of 16 bytes where table and rows are multiples of them, else of elements.
template <class T, class K, bool Checked = WARPWRIGHT_CHECK_INDICES != 0>
[[nodiscard]] auto row_at(input<T> const& table, column_input<K> const& index,
                          source_location where = source_location::current()) {
  auto array = detail::indexed_by<true, Checked>(index, table.size, where);
  return indexed_input<T, decltype(array), column_input<K>>{{table.data}, array, index};
}

/// The float 1 in the column of each row that the index names, else 0; all 0 if it is no column, as
/// -1. The gradient of a cross-entropy is `softmax(x) - one_hot(col(targets, cols))`.
template <class T>
[[nodiscard]] one_hot_value<T> one_hot(column_input<T> const& index) {
  static_assert(std::is_integral<T>::value,
                "warpwright::ew::one_hot: takes col(pointer, cols) of integers, a column each");
  return {index};
}

/// What out_at() and, with Add, scatter_add() return: assign an expression to it, or add one.
template <class T, class Array, class K, bool Add = false>
struct indexed_output {
  detail::indexed_destination<T, Array> to;
  K const index;  // const: one output is not assigned to another

  /// Writes every element of the expression.
  template <bool Adds = Add, class X>
  [[nodiscard]] auto operator=(X const& x) const {
    return indexed_assignment<T, Array, Adds, detail::expression_t<X>, K>{
        to, to.n, detail::make_call<detail::unconverted>(detail::beside_index{}, x, index)};
  }
  /// Adds every element of the expression, by atomic operations: with row_at()'s index its
  /// gradient. Where several go to one element, their order and so the rounding differ from run to
  /// run; a float smaller than 2^-126 is added as 0.
  /// @pre elements are float, double, __half, __nv_bfloat16 or integers of 4 or 8 bytes, which wrap
  /// **Cost:** rows that row_at() loads by vectors are added so from compute capability 9.0, of
  /// float and 16-bit numbers, these before in pairs; else an atomic addition an element, of a
  /// 16-bit one a loop of compare-and-swap. Those to one element take turns.
  template <class X>
  [[nodiscard]] auto operator+=(X const& x) const {
    return this->template operator=<true>(x);
  }
};

/// Elements or rows of an array to write by index, `data[index(i)] = x(i)` or
/// `data[index[r] * cols + c] = x(r * cols + c)`, or to add to with +=: in run(), evaluate_host()
/// and tie(). A graph's replay reads the indices anew.
/// @pre indices are within the array and, but for +=, distinct; it overlaps no other array
/// @param data   `count` elements; of rows a whole number
/// @param n      elements to write; 0 makes the evaluation a no-op
/// @param index  an expression of integers, or `col(pointer, cols)`
/// @throws std::invalid_argument  for an array of no whole number of rows
/// **Cost:** rows are stored by vectors where row_at() would load them so.
template <class T, class K, bool Checked = WARPWRIGHT_CHECK_INDICES != 0>
[[nodiscard]] auto out_at(T* data, std::size_t count, std::size_t n, K const& index,
                          source_location where = source_location::current()) {
  static_assert(!std::is_const<T>::value && detail::is_element<T>(),
                "warpwright::ew::out_at: the elements must be writable, trivially copyable");
  auto array = detail::indexed_by<detail::is_column<K>, Checked>(index, count, where);
  return indexed_output<T, decltype(array), detail::expression_t<K>>{
      {reinterpret_cast<detail::bits_of<T>*>(data), array, n}, detail::as_expression(index)};
}

/// Elements or rows to add to: `scatter_add(…) = x` is `out_at(…) += x`.
template <class T, class K>
[[nodiscard]] auto scatter_add(T* data, std::size_t count, std::size_t n, K const& index,
                               source_location where = source_location::current()) {
  auto const at = out_at(data, count, n, index, where);
  return indexed_output<T, decltype(at.to.array), detail::expression_t<K>, true>{at.to, at.index};
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates `out_at(…) += x` of rows in the order of the rows, without atomic operations: the same
/// bits in every run, of numbers of any type. Else as run().
/// **Cost:** up to 256 blocks, each of which reads all indices and adds, one after the other, the
/// rows that go to its share of the table: few rows of it, or mostly equal indices, keep few busy.
template <class T, class Array, class E, class K>
void run_in_order(stream_ref stream,
                  indexed_assignment<T, Array, true, E, column_input<K>> const& a,
                  source_location where = source_location::current()) {
  column_input<K> const& index = detail::at<1>(a.expression.arguments);
  auto const sum = indexed_input<T, Array, column_input<K>>{{a.data.data}, a.data.array, index} +
                   detail::at<0>(a.expression.arguments);
  auto stored = indexed_output<T, Array, column_input<K>>{a.data, index} = sum;
  using kernel = detail::in_order_kernel<decltype(stored), column_input<K>>;
  using all = typename kernel::all;
  detail::operand operands[all::operands];
  using given = detail::fused<std::decay_t<decltype(a)>>;
  given::list(static_cast<detail::operand*>(operands), a);
  detail::check_operands(operands, given::operands, where);
  if (a.size == 0) return;
  all::list(static_cast<detail::operand*>(operands), stored);
  auto const wide = detail::wide_operands(operands, all::operands, 0, all::vector);
  unsigned blocks = 1;
  while (blocks < a.data.array.limit && blocks < 256) blocks *= 2;
  kernel const k{{}, all{stored}, index, a.size / a.data.array.cols, wide};
  warpwright::detail::on_stream{stream, where}(blocks, 256, k, "warpwright::ew::run_in_order");
}
/// What adds no rows is refused at compile time.
template <class A>
void run_in_order(stream_ref, A const&, source_location = source_location::current()) {
  static_assert(warpwright::detail::always_false<A>,
                "warpwright::ew::run_in_order: takes `out_at(data, count, n, col(index, cols)) += "
                "x`, rows to add; single elements are rows of cols = 1");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
