// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The leaves of an expression that read elements where numbers in memory say, and the check of
// these numbers.
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/kernel/detail/expression/traversal.hpp>

#include <cstdio>

// Whether indices are checked is a part of the names of all types whose code it changes.
#if WARPWRIGHT_CHECK_INDICES
#define WARPWRIGHT_INDEX_NAMESPACE checked_indices
#else
#define WARPWRIGHT_INDEX_NAMESPACE unchecked_indices
#endif

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

template <class E>
struct same_expression;  // of rows/row_nodes.hpp

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

// Fails the kernel: on a GPU by a trap, on the host, and so on the host runtime, by an exception.
#if WARPWRIGHT_NVCC
__noinline__
#else
WARPWRIGHT_COLD WARPWRIGHT_NOINLINE
#endif
    WARPWRIGHT_HOST_DEVICE inline void
    refuse_index(char const* operand, long long index, unsigned long long limit,
                 unsigned long long element) {
#if defined(__CUDA_ARCH__)
  printf("warpwright::ew::%s: index %lld at element %llu is not in [0, %llu)\n", operand, index,
         element, limit);
  __trap();
#else
  char words[160];
  std::snprintf(words, sizeof words,
                "warpwright::ew::%s: index %lld at element %llu is not in [0, %llu)", operand,
                index, element, limit);
  throw std::out_of_range{words};
#endif
}

/// @param element  of the kernel, for the text
template <class Integer>
WARPWRIGHT_HOST_DEVICE std::uint64_t checked_index([[maybe_unused]] char const* operand,
                                                   Integer index,
                                                   [[maybe_unused]] std::uint64_t limit,
                                                   [[maybe_unused]] std::uint64_t element) {
  auto const k = static_cast<std::uint64_t>(index);
#if WARPWRIGHT_CHECK_INDICES
  if (k >= limit) refuse_index(operand, static_cast<long long>(index), limit, element);
#endif
  return k;
}

}  // namespace WARPWRIGHT_INDEX_NAMESPACE

/// Where an array's part of n elements starts: stride times a number in memory.
template <class P>
struct start_in_memory {
  P const* position;
  std::uint64_t count;  ///< of the whole array
  std::uint64_t n;
  std::uint64_t stride;
  std::uint64_t limit;  ///< of positions

  /// @throws std::invalid_argument  for n > count
  start_in_memory(char const* name, std::uint64_t whole, std::uint64_t elements, P const* at,
                  std::uint64_t step, source_location where)
      : position{at}, count{whole}, n{elements}, stride{step}, limit{highest<std::int64_t>} {
    static_assert(std::is_integral<P>::value,
                  "warpwright::ew: a position is one integer in memory, as in int const*");
    if (n > count) {
      warpwright::detail::throw_invalid_argument(
          text{name} + ": n = " + count_as_given(n) + " elements of an array of " +
              count_as_given(count) + "; count is the size of the whole array",
          where);
    }
    if (stride != 0) limit = (count - n) / stride + 1;
  }
  [[nodiscard]] bool operator==(start_in_memory const& o) const {
    return position == o.position && count == o.count && n == o.n && stride == o.stride;
  }
};

/// Refuses a table that is no whole number of rows.
inline void check_table(char const* name, std::uint64_t count, std::uint64_t cols,
                        source_location where) {
  if (cols != 0 && count % cols == 0) return;
  warpwright::detail::throw_invalid_argument(
      text{name} + ": the table has " + count_as_given(count) +
          " elements, no whole number of rows of cols = " + count_as_given(cols),
      where);
}

}  // namespace detail

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

/// What gather() returns: element i is data[index(i)].
template <class T, class I>
struct gathered : detail::array_leaf<T> {
  static constexpr int operands = 1 + I::operands;
  static constexpr int widest_bytes =
      detail::largest(detail::vector_element_bytes<T>, I::widest_bytes);
  static constexpr int loaded_bytes =
      static_cast<int>(sizeof(detail::bits_of<T>)) + I::loaded_bytes;
  using prints_itself = void;
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;

  std::uint64_t size;
  I index;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(detail::packed_vector<detail::bits_of<T>, V>& r,
                                   Element const& i, std::uint64_t wide) const {
    typename I::template registers<V> loaded WARPWRIGHT_ZERO_ON_HOST;
    index.template load<V, First + 1>(loaded, i, wide);
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      std::uint64_t const element = i + static_cast<unsigned>(j);
      auto const at = index.template value<void, V>(loaded, j, element);
      detail::bits_of<T> const* const from =
          data + detail::checked_index("gather", at, size, element);
      if constexpr (V == 1) {
        r.load_one(from);
      } else {
        r.set(j, *from);
      }
    }
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    *next++ = detail::describe_array<T, V>(detail::access_pattern::table, data, size);
    index.template describe<V>(next);
  }
  template <class Text>
  void print(Text& line) const {
    line.template add_type<T>("gather(");
    line.add_text(detail::text{"["} + size + "], ");
    line.add(index);
    line.add_text(")");
  }
};

/// What row_at() returns: element i is in column i % cols of the row index[i / cols].
template <class T, class I>
struct row_at_index : detail::array_leaf<T> {
  static constexpr int operands = 2;
  static constexpr int widest_bytes = detail::vector_element_bytes<T>;
  static constexpr int loaded_bytes = static_cast<int>(sizeof(detail::bits_of<T>));
  using prints_itself = void;
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;

  std::uint64_t rows;
  column_input<I> index;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(detail::packed_vector<detail::bits_of<T>, V>& r,
                                   Element const& i, std::uint64_t wide) const {
    std::uint64_t const cols = index.cols.divisor();
    std::uint64_t line = detail::row_of(i, index.cols);
    std::uint64_t column = i - line * cols;
    detail::bits_of<T> const* row = row_of_table(line, i);
    if constexpr (V == 1) {
      r.load_one(row + column);
    } else if (detail::is_wide_operand<First>(wide)) {
      r.load_wide(row + column);
    } else {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) {
        if (column == cols) {
          column = 0;
          row = row_of_table(++line, i);
        }
        r.set(j, row[column++]);
      }
    }
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    std::uint64_t const cols = index.cols.divisor();
    detail::array_operand o =
        detail::describe_array<T, V>(detail::access_pattern::table_rows, data, rows * cols);
    o.odd_starts = cols % V != 0;
    *next++ = o;
    index.template describe<V>(next);
  }
  template <class Text>
  void print(Text& line) const {
    line.template add_type<T>("row_at(");
    line.add_text(detail::text{"["} + rows * index.cols.divisor() + "], ");
    line.add(index);
    line.add_text(")");
  }

 private:
  WARPWRIGHT_HOST_DEVICE detail::bits_of<T> const* row_of_table(std::uint64_t line,
                                                                std::uint64_t i) const {
    return data + detail::checked_index("row_at", index.data[line], rows, i) * index.cols.divisor();
  }
};

/// What in_at() returns: element i is data[*position * stride + i].
template <class T, class P>
struct placed_input : detail::array_leaf<T> {
  static constexpr int operands = 2;
  static constexpr int widest_bytes = detail::vector_element_bytes<T>;
  static constexpr int loaded_bytes = static_cast<int>(sizeof(detail::bits_of<T>));
  using prints_itself = void;
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;

  detail::start_in_memory<P> start;

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(detail::packed_vector<detail::bits_of<T>, V>& r, std::uint64_t i,
                                   std::uint64_t wide) const {
    std::uint64_t const at = detail::checked_index("in_at", *start.position, start.limit, i);
    input<T>{{data + at * start.stride}, start.n}.template load<V, First>(r, i, wide);
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    detail::array_operand o =
        detail::describe_array<T, V>(detail::access_pattern::placed, data, start.count);
    o.odd_starts = start.stride * o.element_bytes % o.aligned_bytes != 0;
    *next++ = o;
    *next++ =
        detail::describe_array<P, 1>(detail::access_pattern::position, start.position, start.n);
  }
  template <class Text>
  void print(Text& line) const {
    line.template add_type<T>("in_at ");
    line.add_text(detail::text{"["} + start.n + " of " + start.count + "]");
  }
};

}  // namespace WARPWRIGHT_INDEX_NAMESPACE

namespace detail {

template <class T, class I>
struct same_expression<gathered<T, I>> {
  static bool test(gathered<T, I> const& a, gathered<T, I> const& b) {
    return a.data == b.data && a.size == b.size && same_expression<I>::test(a.index, b.index);
  }
};
template <class T, class I>
struct same_expression<row_at_index<T, I>> {
  static bool test(row_at_index<T, I> const& a, row_at_index<T, I> const& b) {
    return a.data == b.data && a.rows == b.rows && a.index.data == b.index.data &&
           a.index.cols.divisor() == b.index.cols.divisor();
  }
};
template <class T, class P>
struct same_expression<placed_input<T, P>> {
  static bool test(placed_input<T, P> const& a, placed_input<T, P> const& b) {
    return a.data == b.data && a.start == b.start;
  }
};

// Whether a leaf has as many elements as the kernel, so that these are known from it.
template <class Leaf>
struct gives_size : std::bool_constant<is_input<Leaf>::value || is_view<Leaf>::value> {};
template <class T, class P>
struct gives_size<placed_input<T, P>> : std::true_type {};
template <class T, class I>
struct gives_size<gathered<T, I>> : std::bool_constant<any_of_leaves<gives_size, leaves_of<I>>> {};

// Checks the type of an index; no view may be below it where it is loaded first.
template <bool LoadedFirst, class I>
constexpr auto as_index(I const& index) {
  using node = expression_t<I>;
  static_assert(std::is_integral<value_t<node>>::value,
                "warpwright::ew: an index is an integer: in(pointer, n) of integers, or an "
                "expression of them; cast<int>() another number");
  static_assert(!LoadedFirst || !holds_view<node>,
                "warpwright::ew::gather: the index reads a view; write it to an array by run(), "
                "and pass in() of that");
  return as_expression(index);
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
