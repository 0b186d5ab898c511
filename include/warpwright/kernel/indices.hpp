// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Operands and outputs whose elements are where integers in memory say: gathers, rows of an
// embedding, sums by index, and parts of an array that start at a position in device memory.
//
//   // An embedding of tokens beside one of positions, and its gradient.
//   ew::run(s, ew::out(y, rows * cols) =
//                  ew::row_at(ew::in(table, v * cols), ew::col(tokens, cols)) + ew::in(pos, n));
//   ew::run(s, ew::scatter_add(dtable, v * cols, ew::col(tokens, cols)) = ew::in(dy, n));
//   // A token's keys, appended at a position that a captured loop changes.
//   ew::run(s, ew::out_at(cache, length * cols, cols, position, cols) = ew::in(keys, cols));
//
// An index that is not below its limit, negative ones included, is undefined behaviour on a GPU,
// unless the files are compiled with WARPWRIGHT_CHECK_INDICES=1: then the kernel prints the
// operand, the element, the index and the limit, and traps, and the next calls return
// cudaErrorLaunchFailure. On the host runtime that is the default: the message goes to stderr and
// to the log of errors, and the device gets the same sticky error. evaluate_host() and its like
// throw std::out_of_range there.
#pragma once

#include <warpwright/kernel/detail/indices/in_order.hpp>
#include <warpwright/kernel/detail/indices/index_nodes.hpp>
#include <warpwright/kernel/detail/indices/indexed_outputs.hpp>
#include <warpwright/kernel/detail/plan/matrix_shape.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

/// Elements of a table by index: element i is `table[index(i)]`. An operand of run(), reductions
/// and functions of rows.
/// @pre every index is in [0, count); the table does not overlap an output
/// @param table  `in(pointer, count)`, of any element type; any number of elements
/// @param index  an expression of any integer type, without view() in it
/// **Cost:** one load an element behind that of the index, of 32 bytes of memory where neighbours
/// are not near each other.
template <class T, class K>
[[nodiscard]] auto gather(input<T> const& table, K const& index) {
  auto const i = detail::as_index<true>(index);
  return indexed_input<T, detail::by_index::elements, std::decay_t<decltype(i)>>{
      {table.data}, {table.size, table.size, 1}, i};
}
/// The table of a gather is an array; refused at compile time.
template <class X, class K>
scalar<float, true> gather(X const&, K const&) {
  static_assert(warpwright::detail::always_false<X>,
                "warpwright::ew::gather: the table must be in(pointer, count)");
  return {};
}

/// Rows of a table by index, an embedding: element (r, c) is `table[index[r] * cols + c]`. An
/// operand as gather() is.
/// @pre every index is in [0, rows of the table); the table does not overlap an output
/// @param table  `in(pointer, table_rows * cols)`, of any element type
/// @param index  `col(pointer, cols)`: one integer for each row of the output, of any integer type
/// @throws std::invalid_argument  for a table of no whole number of rows
/// **Cost:** the table is read by vectors of 16 bytes where it is aligned to them and they divide
/// its rows, else element by element; one load of an index a vector, mostly from a cache, before.
template <class T, class K>
[[nodiscard]] auto row_at(input<T> const& table, column_input<K> const& index,
                          source_location where = source_location::current()) {
  constexpr auto by = detail::by_index::rows;
  return indexed_input<T, by, column_input<K>>{
      {table.data}, detail::rows_of_table<by>("ew::row_at", table.size, index, where), index};
}
/// As above, of anything else; refused at compile time.
template <class X, class K>
scalar<float, true> row_at(X const&, K const&) {
  static_assert(warpwright::detail::always_false<X>,
                "warpwright::ew::row_at: write row_at(in(table, rows * cols), col(index, cols))");
  return {};
}

/// A part of an array that starts where a number in device memory says: element i is
/// `data[*position * stride + i]`. The number is read when the kernel runs: a graph's replay sees
/// its new value.
/// @pre `*position` is 0 or more and the part lies within the array, which overlaps no output
/// @param data      `count` elements
/// @param count     of the whole array
/// @param n         of the part: as many as the output has
/// @param position  one integer of any type
/// @param stride    elements from one position to the next
/// @throws std::invalid_argument  for n > count
/// **Cost:** a thread loads the number before the elements. These are read by vectors where data
/// and stride keep the alignment of 16 bytes.
template <class T, class P>
[[nodiscard]] auto in_at(T const* data, std::size_t count, std::size_t n, P const* position,
                         std::size_t stride, source_location where = source_location::current()) {
  detail::position_leaf<P> const at{{{position}}, n};
  return indexed_input<T, detail::by_index::placed, detail::position_leaf<P>>{
      {detail::stored(data)}, detail::part_of_array("ew::in_at", count, at, stride, where), at};
}

/// What out_at() and scatter_add() return: assign an expression to it.
template <class T, detail::by_index By, class K>
class indexed_output {
 public:
  using array = detail::indexed_array<By>;
  indexed_output(T* data, array const& of, K const& index)
      : to_{reinterpret_cast<detail::bits_of<T>*>(data), of}, index_{index} {
    static_assert(!std::is_const<T>::value && detail::is_element<T>(),
                  "warpwright::ew: an output's elements must be writable, trivially copyable");
  }
  indexed_output(indexed_output const&) = default;
  indexed_output& operator=(indexed_output const&) = delete;  // not readable

  /// Writes or adds every element of the expression.
  template <class X>
  [[nodiscard]] auto operator=(X const& x) const {
    using detail::by_index;
    static_assert(By == by_index::placed || By == by_index::rows_in_order || detail::is_atomic<T>,
                  "warpwright::ew::scatter_add: GPUs add float, double, __half, __nv_bfloat16 and "
                  "integers of 32 and 64 bits atomically; other numbers take .in_order()");
    auto const both = detail::make_call<detail::unconverted>(detail::beside_index{}, x, index_);
    std::uint64_t size = 0;
    if constexpr (By == by_index::placed) {
      size = index_.n;
    } else {
      size = detail::size_of_operands(both);
    }
    return indexed_assignment<T, By, detail::expression_t<X>, K>{to_, size, both};
  }
  /// Of scatter_add() by rows, the same in a fixed order: `out += row` for each row of the
  /// expression, one after the other, with the same bits in every run and no atomic operation. Of
  /// any numbers; neither in tie() nor in plan().
  /// **Cost:** up to 256 blocks, each of which reads all indices and adds, one after the other, the
  /// rows that go to the rows of the table that it owns. A table of few rows, or indices that are
  /// mostly equal, keep few blocks busy, and few columns few threads of each.
  [[nodiscard]] auto in_order() const {
    static_assert(By == detail::by_index::rows,
                  "warpwright::ew::scatter_add: in_order() is of rows: the index is col(pointer, "
                  "cols)");
    constexpr auto by = detail::by_index::rows_in_order;
    detail::indexed_array<by> const of{to_.array.count, to_.array.limit, to_.array.step};
    return indexed_output<T, by, K>{reinterpret_cast<T*>(to_.data), of, index_};
  }

 private:
  detail::indexed_destination<T, By> to_;
  K index_;
};

/// A part of an array to write, where a number in device memory says: element i is
/// `data[*position * stride + i]`, as in_at() reads it. The rest of the array is not written.
/// @pre `*position` is 0 or more and the part lies within the array, which overlaps neither an
///   operand nor another output
/// @param data, count, n, position, stride  as in_at(); n = 0 makes the evaluation a no-op
/// @throws std::invalid_argument  for n > count
/// **Cost:** a thread loads the number together with the operands' first elements.
template <class T, class P>
[[nodiscard]] auto out_at(T* data, std::size_t count, std::size_t n, P const* position,
                          std::size_t stride, source_location where = source_location::current()) {
  detail::position_leaf<P> const at{{{position}}, n};
  return indexed_output<T, detail::by_index::placed, detail::position_leaf<P>>{
      data, detail::part_of_array("ew::out_at", count, at, stride, where), at};
}

/// Adds to elements of an array by index, `data[index(i)] += x(i)`, by atomic operations:
/// `run(s, scatter_add(data, count, in(index, n)) = x)`. As many elements are added as the first
/// in() or view() of x or of the index has. Where several go to one element their order, and so the
/// rounding of a sum of floating-point numbers, differs from run to run; a float smaller than
/// 2^-126 is added as 0.
/// @pre every index is in [0, count)
/// @param data   `count` of float, double, __half (from compute capability 7.0), __nv_bfloat16
///   (from 9.0) or integers of 32 or 64 bits, which wrap; overlaps no operand and no other output
/// @param index  an expression of any integer type
/// **Cost:** one atomic addition an element, in the L2 cache, of 16-bit numbers a loop of
/// compare-and-swap; those to one element take turns.
template <class T, class K>
[[nodiscard]] auto scatter_add(T* data, std::size_t count, K const& index) {
  auto const i = detail::as_index<false>(index);
  return indexed_output<T, detail::by_index::elements, std::decay_t<decltype(i)>>{
      data, {count, count, 1}, i};
}

/// Adds rows to the rows of a table by index, `data[index[r] * cols + c] += x(r * cols + c)`: the
/// gradient of row_at(). Else as above; .in_order() of what it returns has the same bits in every
/// run, takes all numbers, and no atomic operation.
/// @pre every index is in [0, rows of the table)
/// @param data   `count` elements
/// @param count  of the table: a whole number of rows
/// @param index  `col(pointer, cols)`: one integer for each row of x, of any integer type
/// @throws std::invalid_argument  for a table of no whole number of rows
/// **Cost:** atomic additions of up to 16 bytes each from compute capability 9.0, of float and of
/// pairs of 16-bit numbers, where the table is aligned to them and they divide its rows; before,
/// and of other types, an addition for each element or pair.
template <class T, class K>
[[nodiscard]] auto scatter_add(T* data, std::size_t count, column_input<K> const& index,
                               source_location where = source_location::current()) {
  constexpr auto by = detail::by_index::rows;
  return indexed_output<T, by, column_input<K>>{
      data, detail::rows_of_table<by>("ew::scatter_add", count, index, where), index};
}

}  // namespace WARPWRIGHT_INDEX_NAMESPACE

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates an assignment to out_at() or scatter_add() as one kernel, as run() of an assignment to
/// a pointer. tie() takes both, but for in_order().
/// @param a  copied at the call; without elements nothing is launched
/// @throws std::invalid_argument  as run() of an assignment to a pointer; for a table, an index or
///   a position that overlaps the array that is written
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any.
/// **Capture:** legal; indices and positions are read at each replay.
/// **Cost:** one kernel launch, no allocation.
template <class T, detail::by_index By, class E, class K>
void run(stream_ref stream, indexed_assignment<T, By, E, K> const& a,
         source_location where = source_location::current()) {
  warpwright::detail::on_stream const execute{stream, where};
  if constexpr (By == detail::by_index::rows_in_order) {
    detail::evaluate_in_order(a, where, [&](auto const& kernel, unsigned blocks) {
      execute(blocks, kernel.max_threads, kernel, "warpwright::ew::run");
    });
  } else {
    detail::run_on_stream(execute, a);
  }
}

/// Evaluates it on the calling thread, over arrays in host memory, in the order of the elements:
/// that of in_order() has the same bits as run().
/// @throws std::invalid_argument  as run() does
/// @throws std::out_of_range      for an index out of range, where indices are checked
/// **Threads:** any. **Cost:** a loop over the elements.
template <class T, detail::by_index By, class E, class K>
void evaluate_host(indexed_assignment<T, By, E, K> const& a,
                   source_location where = source_location::current()) {
  if constexpr (By == detail::by_index::rows_in_order) {
    detail::evaluate_in_order(a, where, [](auto const& kernel, unsigned) {
      for (std::uint64_t r = 0; r < kernel.rows; ++r) kernel.add_row(r, 0, 1);
    });
  } else {
    detail::evaluate_on_host(where, a.size, a);
  }
}

/// Functions of rows write whole arrays; refused at compile time.
template <class... A, std::enable_if_t<(detail::is_indexed_assignment<A> || ...), int> = 0>
void run_rows(stream_ref, matrix_shape const&, A const&...) {
  static_assert(warpwright::detail::always_false<A...>,
                "warpwright::ew::run_rows: an output is out_at() or scatter_add(); it takes arrays "
                "without gaps, as out(pointer, rows * cols): write that, and run() from it");
}
/// As above.
template <class... A, std::enable_if_t<(detail::is_indexed_assignment<A> || ...), int> = 0>
void run_rows_host(matrix_shape const&, A const&...) {
  static_assert(warpwright::detail::always_false<A...>,
                "warpwright::ew::run_rows_host: an output is out_at() or scatter_add(); it takes "
                "arrays without gaps, as out(pointer, rows * cols)");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
