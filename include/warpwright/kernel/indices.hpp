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
template <class T, class I>
[[nodiscard]] auto gather(input<T> const& table, I const& index) {
  auto const i = detail::as_index<true>(index);
  return gathered<T, std::decay_t<decltype(i)>>{{table.data}, table.size, i};
}
/// The table of a gather is an array; refused at compile time.
template <class X, class I>
scalar<float, true> gather(X const&, I const&) {
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
template <class T, class I>
[[nodiscard]] row_at_index<T, I> row_at(input<T> const& table, column_input<I> const& index,
                                        source_location where = source_location::current()) {
  static_assert(std::is_integral<I>::value,
                "warpwright::ew::row_at: an index is an integer: col(pointer, cols) of integers");
  detail::check_table("ew::row_at", table.size, index.cols.divisor(), where);
  return {{table.data}, table.size / index.cols.divisor(), index};
}
/// As above, of anything else; refused at compile time.
template <class X, class I>
scalar<float, true> row_at(X const&, I const&) {
  static_assert(warpwright::detail::always_false<X>,
                "warpwright::ew::row_at: write row_at(in(table, rows * cols), col(index, cols))");
  return {};
}

/// A part of an array that starts where a number in device memory says: element i is
/// `data[*position * stride + i]`. The number is read when the kernel runs: a graph's replay sees
/// its new value.
/// @pre `*position` is 0 or more and the part lies within the array, no part of which overlaps an
///   output
/// @param data      `count` elements
/// @param count     of the whole array
/// @param n         of the part: as many as the output has
/// @param position  one integer of any type
/// @param stride    elements from one position to the next
/// @throws std::invalid_argument  for n > count
/// **Cost:** a thread loads the number before the elements. These are read by vectors where data
/// and stride keep the alignment of 16 bytes.
template <class T, class P>
[[nodiscard]] placed_input<T, P> in_at(T const* data, std::size_t count, std::size_t n,
                                       P const* position, std::size_t stride,
                                       source_location where = source_location::current()) {
  return {{detail::stored(data)}, {"ew::in_at", count, n, position, stride, where}};
}

/// What out_at() returns: assign an expression to it.
template <class T, class P>
class placed_output {
 public:
  placed_output(T* data, detail::start_in_memory<P> const& start) : data_{data}, start_{start} {}
  placed_output(placed_output const&) = default;
  placed_output& operator=(placed_output const&) = delete;  // not readable

  /// Assigns the expression to every element of the part.
  template <class X>
  [[nodiscard]] auto operator=(X const& x) const {
    using destination = detail::placed_destination<T, P>;
    using position = detail::position_leaf<P>;
    position const at{{{start_.position}}, start_.n};
    return indexed_assignment<destination, detail::expression_t<X>, position>{
        {reinterpret_cast<detail::bits_of<T>*>(data_), start_},
        start_.n,
        detail::make_call<detail::unconverted>(detail::beside_index{}, x, at)};
  }

 private:
  T* data_;
  detail::start_in_memory<P> start_;
};

/// A part of an array to write, where a number in device memory says: element i is
/// `data[*position * stride + i]`, as in_at() reads it. The rest of the array is not written.
/// @pre `*position` is 0 or more and the part lies within the array; the whole array and the
///   number do not overlap an operand or another output
/// @param data, count, n, position, stride  as in_at(); n = 0 makes the evaluation a no-op
/// @throws std::invalid_argument  for n > count
/// **Cost:** a thread loads the number together with the operands' first elements.
template <class T, class P>
[[nodiscard]] placed_output<T, P> out_at(T* data, std::size_t count, std::size_t n,
                                         P const* position, std::size_t stride,
                                         source_location where = source_location::current()) {
  static_assert(!std::is_const<T>::value && detail::is_element<T>(),
                "warpwright::ew::out_at: the elements must be writable and trivially copyable");
  return {data, {"ew::out_at", count, n, position, stride, where}};
}

/// What scatter_add().in_order() returns: assign an expression to it.
template <class T, class I>
struct in_order_output {
  detail::scatter_destination<T, true> table;
  column_input<I> index;

  in_order_output& operator=(in_order_output const&) = delete;
  template <class X>
  [[nodiscard]] auto operator=(X const& x) const {
    static_assert(detail::is_number<T> && !std::is_same<T, bool>::value,
                  "warpwright::ew::scatter_add: the elements must be numbers");
    auto const both = detail::make_call<detail::unconverted>(detail::beside_index{}, x, index);
    return in_order_assignment<T, detail::expression_t<X>, I>{
        {table, detail::size_of_operands(both), both}};
  }
};

/// What scatter_add() returns: assign an expression to it.
template <class T, class I, bool Rows>
struct scatter_output {
  detail::scatter_destination<T, Rows> table;
  I index;

  scatter_output& operator=(scatter_output const&) = delete;
  /// Adds the expression's elements.
  template <class X>
  [[nodiscard]] auto operator=(X const& x) const {
    static_assert(detail::is_atomic<T>,
                  "warpwright::ew::scatter_add: GPUs add float, double, __half, __nv_bfloat16 and "
                  "integers of 32 and 64 bits atomically; other numbers take .in_order()");
    auto const both = detail::make_call<detail::unconverted>(detail::beside_index{}, x, index);
    return indexed_assignment<detail::scatter_destination<T, Rows>, detail::expression_t<X>, I>{
        table, detail::size_of_operands(both), both};
  }
  /// The same in a fixed order: each element is what a loop over the rows of x computes, in their
  /// order, with a rounding at each addition. Of a kernel of its own: no tie(), no plan().
  /// **Cost:** up to 256 blocks, each of which reads all indices and adds the rows that go to the
  /// rows of the table that it owns, one after the other: a table of few rows, or indices that are
  /// mostly equal, keep few blocks busy, and rows of few columns few threads of these.
  [[nodiscard]] auto in_order() const {
    static_assert(Rows,
                  "warpwright::ew::scatter_add: in_order() is of rows: the index is col(pointer, "
                  "cols)");
    return ordered(index);
  }

 private:
  template <class J>
  in_order_output<T, J> ordered(column_input<J> const& rows) const {
    return {table, rows};
  }
};

/// Adds to elements of an array by index, `data[index(i)] += x(i)`, by atomic operations:
/// `run(s, scatter_add(data, count, in(index, n)) = x)`. As many elements are added as the first
/// in() or view() of x or of the index has. Where several go to one element their order, and so the
/// rounding of a sum of floating-point numbers, differs from run to run; a float smaller than
/// 2^-126 is added as 0.
/// @pre every index is in [0, count)
/// @param data   `count` of float, double, __half (from compute capability 7.0), __nv_bfloat16
///   (from 9.0) or integers of 32 or 64 bits, which wrap; overlaps no operand and no other output
/// @param index  an expression of any integer type
/// **Cost:** one atomic addition an element, in the L2 cache; those to one element take turns.
template <class T, class I>
[[nodiscard]] auto scatter_add(T* data, std::size_t count, I const& index) {
  auto const i = detail::as_index<false>(index);
  return scatter_output<T, std::decay_t<decltype(i)>, false>{
      {detail::bits_to_add(data), count, detail::fast_divisor{1}}, i};
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
template <class T, class I>
[[nodiscard]] scatter_output<T, column_input<I>, true> scatter_add(
    T* data, std::size_t count, column_input<I> const& index,
    source_location where = source_location::current()) {
  static_assert(std::is_integral<I>::value,
                "warpwright::ew::scatter_add: an index is an integer: col(pointer, cols) of them");
  std::uint64_t const cols = index.cols.divisor();
  detail::check_table("ew::scatter_add", count, cols, where);
  return {{detail::bits_to_add(data), count / cols, index.cols}, index};
}

}  // namespace WARPWRIGHT_INDEX_NAMESPACE

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates an assignment to out_at() or scatter_add() as one kernel, as run() of an assignment to
/// a pointer. tie() takes both.
/// @param a  `out_at(…) = expression` or `scatter_add(…) = expression`, copied at the call; without
///   elements nothing is launched
/// @throws std::invalid_argument  as run() of an assignment to a pointer; for a table, an index or
///   a position that overlaps the array that is written
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any.
/// **Capture:** legal; indices and positions are read at each replay.
/// **Cost:** one kernel launch, no allocation.
template <class D, class E, class I>
void run(stream_ref stream, indexed_assignment<D, E, I> const& a,
         source_location where = source_location::current()) {
  detail::run_on_stream({stream, where}, a);
}
/// As above, of `scatter_add(…).in_order() = expression`.
template <class T, class E, class I>
void run(stream_ref stream, in_order_assignment<T, E, I> const& a,
         source_location where = source_location::current()) {
  detail::evaluate_in_order(a, where, [&](auto const& kernel, unsigned blocks) {
    warpwright::detail::on_stream const execute{stream, where};
    execute(blocks, kernel.max_threads, kernel, "warpwright::ew::run");
  });
}

/// Evaluates an assignment on the calling thread, over arrays in host memory: additions in the
/// order of the elements.
/// @throws std::invalid_argument  as run() does
/// @throws std::out_of_range      for an index out of range, where indices are checked
/// **Threads:** any. **Cost:** a loop over the elements.
template <class D, class E, class I>
void evaluate_host(indexed_assignment<D, E, I> const& a,
                   source_location where = source_location::current()) {
  detail::evaluate_on_host(where, a.size, a);
}
/// As above, of `scatter_add(…).in_order() = expression`: the same bits as run().
template <class T, class E, class I>
void evaluate_host(in_order_assignment<T, E, I> const& a,
                   source_location where = source_location::current()) {
  detail::evaluate_in_order(a, where, [](auto const& kernel, unsigned) {
    for (std::uint64_t r = 0; r < kernel.rows; ++r) kernel.add_row(r, 0, 1);
  });
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
