// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which elements an index leads to, the check of indices, and the leaf that reads by them.
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

// Element i is where: data[index], data[index * cols + i % cols], data[index * stride + i].
enum class by_index : unsigned char { elements, rows, rows_in_order, placed };
inline constexpr access_pattern indexed_patterns[] = {
    access_pattern::table, access_pattern::table_rows, access_pattern::table_rows,
    access_pattern::placed};

// Fails the kernel: on a GPU by a trap, on the host, and so on the host runtime, by an exception.
WARPWRIGHT_HOST_DEVICE inline void refuse_index(char const* name, long long index,
                                                unsigned long long limit, unsigned long long i) {
#define WARPWRIGHT_TEXT "warpwright::ew::%s: index %lld at element %llu is not in [0, %llu)"
#if defined(__CUDA_ARCH__)
  printf(WARPWRIGHT_TEXT "\n", name, index, i, limit);
  __trap();
#else
  char words[160];
  std::snprintf(words, sizeof words, WARPWRIGHT_TEXT, name, index, i, limit);
  throw std::out_of_range{words};
#endif
#undef WARPWRIGHT_TEXT
}

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

/// An array that is accessed by indices.
template <by_index By>
struct indexed_array {
  std::uint64_t count;  ///< elements
  std::uint64_t limit;  ///< of an index
  std::uint64_t step;   ///< elements from one index to the next

  /// @return where the part of an index starts
  template <class Integer>
  WARPWRIGHT_HOST_DEVICE std::uint64_t start([[maybe_unused]] char const* name, Integer index,
                                             [[maybe_unused]] std::uint64_t i) const {
    auto const k = static_cast<std::uint64_t>(index);
#if WARPWRIGHT_CHECK_INDICES
    if (k >= limit) refuse_index(name, static_cast<long long>(index), limit, i);
#endif
    return By == by_index::elements ? k : k * step;
  }
  /// @param from  the node of the index
  /// @return where element i is
  template <class Integer, class Element, class K>
  WARPWRIGHT_HOST_DEVICE std::uint64_t at(char const* name, Integer index, Element const& i,
                                          [[maybe_unused]] K const& from) const {
    std::uint64_t const begin = start(name, index, i);
    if constexpr (By == by_index::elements) {
      return begin;
    } else if constexpr (By == by_index::placed) {
      return begin + i;
    } else {
      return begin + column_of(i, from.cols);
    }
  }
  template <class T, int V, class Operand>
  void describe(Operand& o, bits_of<T> const* data, std::uint64_t size) const {
    constexpr access_pattern kind = indexed_patterns[static_cast<int>(By)];
    static_cast<array_operand&>(o) = describe_array<T, V>(kind, data, size);
    o.odd_starts = By != by_index::elements && step * o.element_bytes % o.aligned_bytes != 0;
  }
  template <class T, class Text, class K>
  void print(char const* name, Text& line, K const& index) const {
    line.add_text(text{name} + "(" + element_name<T>() + "[" + count + "], ");
    line.add(index);
    line.add_text(By == by_index::rows_in_order ? ").in_order()" : ")");
  }
};

/// The number in memory that says where a part of n elements starts.
template <class P>
struct position_leaf : single_input<P> {
  std::uint64_t n;
  using prints_itself = void;
  template <int V, class Operand>
  void describe(Operand*& next) const {
    *next++ = describe_array<P, 1>(access_pattern::position, this->data, n);
  }
  template <class Text>
  void print(Text& line) const {
    line.template add_type<P>("position ");
    line.add_text(text{", n = "} + n);
  }
};

}  // namespace WARPWRIGHT_INDEX_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

/// What gather(), row_at() and in_at() return.
template <class T, detail::by_index By, class K>
struct indexed_input : detail::array_leaf<T> {
  static constexpr int operands = 1 + K::operands;
  static constexpr int widest_bytes =
      detail::largest(detail::vector_element_bytes<T>, K::widest_bytes);
  static constexpr int loaded_bytes =
      static_cast<int>(sizeof(detail::bits_of<T>)) + K::loaded_bytes;
  static constexpr char const* name = By == detail::by_index::elements ? "gather"
                                      : By == detail::by_index::rows   ? "row_at"
                                                                       : "in_at";
  using prints_itself = void;
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;

  detail::indexed_array<By> array;
  K index;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(detail::packed_vector<detail::bits_of<T>, V>& r,
                                   Element const& i, std::uint64_t wide) const {
    typename K::template registers<V> loaded WARPWRIGHT_ZERO_ON_HOST;
    index.template load<V, First + 1>(loaded, i, wide);
    auto const first = index.template value<void, V>(loaded, 0, i);
    if constexpr (V == 1) {
      r.load_one(data + array.at(name, first, i, index));
    } else if (By != detail::by_index::elements && detail::is_wide_operand<First>(wide)) {
      r.load_wide(data + array.at(name, first, i, index));
    } else {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) {
        std::uint64_t const element = i + static_cast<unsigned>(j);
        auto const k = index.template value<void, V>(loaded, j, element);
        r.set(j, data[array.at(name, k, element, index)]);
      }
    }
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    array.template describe<T, V>(*next++, data, array.count);
    index.template describe<V>(next);
  }
  template <class Text>
  void print(Text& line) const {
    array.template print<T>(name, line, index);
  }
};

}  // namespace WARPWRIGHT_INDEX_NAMESPACE

namespace detail {

template <class T, by_index By, class K>
struct same_expression<indexed_input<T, By, K>> {
  static bool test(indexed_input<T, By, K> const& a, indexed_input<T, By, K> const& b) {
    return a.data == b.data && a.array.count == b.array.count && a.array.step == b.array.step &&
           same_expression<K>::test(a.index, b.index);
  }
};

// Whether a leaf has as many elements as the kernel, so that these are known from it.
template <class Leaf>
struct gives_size : std::bool_constant<is_input<Leaf>::value || is_view<Leaf>::value> {};
template <class P>
struct gives_size<position_leaf<P>> : std::true_type {};
template <class T, by_index By, class K>
struct gives_size<indexed_input<T, By, K>>
    : std::bool_constant<any_of_leaves<gives_size, leaves_of<K>>> {};

// Checks the type of an index; no view may be below it where it is loaded before others.
template <bool LoadedFirst, class K>
constexpr auto as_index(K const& index) {
  static_assert(std::is_integral<value_t<K>>::value,
                "warpwright::ew: an index is an integer: in(pointer, n) of integers, or an "
                "expression of them; cast<int>() another number");
  static_assert(!LoadedFirst || !holds_view<expression_t<K>>,
                "warpwright::ew::gather: the index reads a view; write it to an array by run(), "
                "and pass in() of that");
  return as_expression(index);
}

inline void check_index(bool fits, text const& problem, source_location where) {
  if (!fits) warpwright::detail::throw_invalid_argument(problem, where);
}
template <by_index By, class K>
indexed_array<By> rows_of_table(char const* name, std::uint64_t count, column_input<K> const& index,
                                source_location where) {
  as_index<true>(index);
  std::uint64_t const cols = index.cols.divisor();
  check_index(cols != 0 && count % cols == 0,
              text{name} + ": the table has " + count_as_given(count) +
                  " elements, no whole number of rows of cols = " + count_as_given(cols),
              where);
  return {count, count / cols, cols};
}
template <class P>
indexed_array<by_index::placed> part_of_array(char const* name, std::uint64_t count,
                                              position_leaf<P> const& at, std::uint64_t stride,
                                              source_location where) {
  as_index<true>(at);
  check_index(at.n <= count,
              text{name} + ": n = " + count_as_given(at.n) + " elements of an array of " +
                  count_as_given(count) + "; count is the size of the whole array",
              where);
  return {count, stride == 0 ? ~std::uint64_t{0} >> 1U : (count - at.n) / stride + 1, stride};
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
