// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where in an array indices lead: the leaf that reads there, the part of the kernel of run() that
// writes or adds there, and the kernel that adds rows in a fixed order.
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/expression/operators.hpp>

#include <cstdio>

struct __half2;
struct __nv_bfloat162;

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

template <class E>
struct same_expression;  // of rows/row_nodes.hpp
template <class K>
inline constexpr bool is_column = false;
template <class T>
inline constexpr bool is_column<column_input<T>> = true;

// Fails the kernel: on a GPU by a trap, on the host, and so on the host runtime, by an exception.
WARPWRIGHT_HOST_DEVICE inline void refuse_index(long long index, unsigned long long limit,
                                                unsigned long long i) {
#if defined(__CUDA_ARCH__)
  printf("warpwright::ew: index %lld at element %llu is not in [0, %llu)\n", index, i, limit);
  __trap();
#else
  text const words = text{"warpwright::ew: index "} + index + " at element " + i;
  throw std::out_of_range{(words + " is not in [0, " + limit + ")").c_str()};
#endif
}

/// An array of `limit` elements or, with Rows, rows that indices lead to. Checked is
/// WARPWRIGHT_CHECK_INDICES, so that it is a part of the names of all types whose code it changes.
template <bool Rows, bool Checked>
struct indexed_array {
  static constexpr bool rows = Rows;
  std::uint64_t limit, cols;  ///< cols: 1 for elements
  [[nodiscard]] std::uint64_t count() const { return limit * cols; }
  /// Where in the array element i is, the j-th of V for which the index loaded r.
  template <int V, class K, class Registers, class Element>
  WARPWRIGHT_HOST_DEVICE std::uint64_t find(K const& index, Registers const& r, int j,
                                            Element const& i) const {
    auto const k = index.template value<void, V>(r, j, i);
    auto line = static_cast<std::uint64_t>(k);
    if (Checked && line >= limit) refuse_index(static_cast<long long>(k), limit, i);
    if constexpr (Rows) line = line * cols + column_of(i, index.cols);
    return line;
  }
  template <class T, int V>
  [[nodiscard]] array_operand describe(bits_of<T> const* data, std::uint64_t n) const {
    array_operand o = describe_array<T, V>(access_pattern::table, data, n);
    o.table = count();
    if (Rows) o.cols = cols;
    return o;
  }
};

// Checks the type of an index, and an array against the length of its rows.
template <bool Rows, bool Checked, class K>
indexed_array<Rows, Checked> indexed_by(K const& index, std::uint64_t count,
                                        source_location where) {
  static_assert(std::is_integral<value_t<K>>::value,
                "warpwright::ew: an index is an integer: in(pointer, n) of integers, or an "
                "expression of them; cast<int>() another number");
  std::uint64_t cols = 1;
  if constexpr (Rows) cols = index.cols.divisor();
  if (cols == 0 || count % cols != 0) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: the table has "} + count_as_given(count) +
            " elements, no whole number of rows of cols = " + count_as_given(cols),
        where);
  }
  return {count / cols, cols};
}

/// Adds to V neighbours. @pre `to` is aligned as packed_vector requires
template <class T, int V>
WARPWRIGHT_HOST_DEVICE void add_atomically(bits_of<T>* to, packed_vector<bits_of<T>, V> const& x) {
  constexpr bool half = std::is_same<T, __half>::value;
  constexpr bool bfloat16 = std::is_same<T, __nv_bfloat16>::value;
  static_assert(half || bfloat16 || std::is_floating_point<T>::value ||
                    (std::is_integral<T>::value && sizeof(T) >= 4),
                "warpwright::ew::out_at: GPUs add float, double, __half, __nv_bfloat16 and "
                "integers of 32 and 64 bits atomically; other rows take run_in_order()");
#if defined(__CUDA_ARCH__)
#define WARPWRIGHT_ADD(type)                                                      \
  asm volatile("red.global.add." type                                             \
               " [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),    \
               "r"(x.words[0]), "r"(x.words[1]), "r"(x.words[2]), "r"(x.words[3]) \
               : "memory")
  constexpr bool vector = __CUDA_ARCH__ >= 900 && V * sizeof(bits_of<T>) == 16;
  using integer = std::conditional_t<sizeof(bits_of<T>) == 8, unsigned long long, unsigned>;
  using number = std::conditional_t<std::is_integral<T>::value, integer, T>;
  using pair = std::conditional_t<half, __half2, __nv_bfloat162>;
  if constexpr (vector && std::is_same<T, float>::value) {
    WARPWRIGHT_ADD("v4.f32");
  } else if constexpr (vector && half) {
    WARPWRIGHT_ADD("noftz.v4.f16x2");
  } else if constexpr (vector && bfloat16) {
    WARPWRIGHT_ADD("noftz.v4.bf16x2");
  } else {
    constexpr int step = V % 2 == 0 && (half || bfloat16) ? 2 : 1;
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; j += step) {
      if constexpr (step == 2) {
        atomicAdd(reinterpret_cast<pair*>(to + j), bit_copy<pair>(x.words[j / 2]));
      } else {
        atomicAdd(reinterpret_cast<number*>(to + j), bit_copy<number>(x.get(j)));
      }
    }
  }
#undef WARPWRIGHT_ADD
#else
  using traits = element_traits<T>;
  for (int j = 0; j < V; ++j, ++to) {
    bits_of<T> seen, sum;
    __atomic_load(to, &seen, __ATOMIC_RELAXED);
    do {
      sum = traits::encode(static_cast<typename traits::value>(
          plus{}(traits::decode(seen), traits::decode(x.get(j)))));
    } while (!__atomic_compare_exchange(to, &seen, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
#endif
}

// The value of an element, beside which its index is loaded.
struct beside_index {
  template <class T, class K>
  WARPWRIGHT_HOST_DEVICE T operator()(T value, K) const {
    return value;
  }
};
template <class E, class K>
using beside_index_t = call<unconverted, beside_index, E, K>;

template <class T, class Array>
struct indexed_destination {
  bits_of<T>* data;
  Array array;
  std::uint64_t n;  ///< elements to write or add

  template <class, int V>
  [[nodiscard]] operand describe() const {
    return array.template describe<T, V>(data, n);
  }
};

}  // namespace detail

/// What gather() and row_at() return.
template <class T, class Array, class K>
struct indexed_input : detail::array_leaf<T> {
  static constexpr int operands = 1 + K::operands;
  static constexpr int widest_bytes =
      detail::largest(detail::vector_element_bytes<T>, K::widest_bytes);
  static constexpr int loaded_bytes = input<T>::loaded_bytes + K::loaded_bytes;
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;

  Array array;
  K index;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(detail::packed_vector<detail::bits_of<T>, V>& r,
                                   Element const& i, std::uint64_t wide) const {
    typename K::template registers<V> k WARPWRIGHT_ZERO_ON_HOST;
    index.template load<V, First + 1>(k, i, wide);
    auto const at = [&](int j, auto const& e) {
      return data + array.template find<V>(index, k, j, e);
    };
    if constexpr (V == 1) {
      r.load_one(at(0, i));
    } else if (Array::rows && detail::is_wide_operand<First>(wide)) {
      r.load_wide(at(0, i));
    } else {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) r.set(j, *at(j, i + static_cast<unsigned>(j)));
    }
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    *next++ = array.template describe<T, V>(data, 0);
    index.template describe<V>(next);
  }
};

/// What one_hot() returns.
template <class T>
struct one_hot_value : column_input<T> {
  template <class C>
  using value_type = detail::computed_t<C, float>;
  template <int V>
  using registers = unsigned;  // bit j: element j is 1

  // Row by row of the V elements; in run_rows() they are of one.
  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(unsigned& hot, Element const& i, std::uint64_t) const {
    std::uint64_t row = detail::row_of(i, this->cols), column = detail::column_of(i, this->cols);
    std::uint64_t left = this->cols.divisor() - column;
    hot = 0;
    for (std::uint64_t j = 0; j < V; j += left, ++row, column = 0, left = this->cols.divisor()) {
      std::uint64_t const k = static_cast<std::uint64_t>(this->data[row]) - column;
      if (k < left && j + k < V) hot |= 1U << static_cast<unsigned>(j + k);
      if (std::is_same<Element, detail::matrix_index>::value) break;
    }
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(unsigned hot, int j, std::uint64_t) const {
    return static_cast<value_type<C>>(hot >> static_cast<unsigned>(j) & 1U);
  }
};

/// What assigning to out_at() returns, and run() evaluates.
template <class T, class Array, bool Add, class E, class K>
struct indexed_assignment {
  detail::indexed_destination<T, Array> data;
  std::uint64_t size;
  detail::beside_index_t<E, K> expression;
};

namespace detail {

template <class T, class Array, bool Add, class E, class K>
inline constexpr bool is_assignment<indexed_assignment<T, Array, Add, E, K>> = true;

template <class T, class Array, class K>
struct is_of_row<indexed_input<T, Array, K>>
    : std::bool_constant<!Array::rows && all_of_leaves<is_of_row, leaves_of<K>>> {};

template <class T, class Array, class K>
struct same_expression<indexed_input<T, Array, K>> {
  using node = indexed_input<T, Array, K>;
  static bool test(node const& a, node const& b) {
    return a.data == b.data && a.array.limit == b.array.limit &&
           same_expression<K>::test(a.index, b.index);
  }
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class T, class Array, bool Add, class E, class K,
          class Base = fused_part<T, beside_index_t<E, K>, indexed_destination<T, Array>>>
struct indexed_part : Base {
  template <int V>
  struct results {
    packed_vector<bits_of<T>, V> of;
    typename K::template registers<V> index;
  };
  template <int V, class Registers>
  WARPWRIGHT_HOST_DEVICE void compute(results<V>& result, Registers const& r,
                                      std::uint64_t i) const {
    Base::template compute<V>(result.of, r, i);
    result.index = at<1>(r);
  }
  template <int V, int First, class Index>
  WARPWRIGHT_HOST_DEVICE void store(results<V> const& result, Index const& i,
                                    std::uint64_t wide) const {
    auto const put = [&](int j, auto const& element, auto const& x) {
      K const& index = at<1>(this->expression.arguments);
      bits_of<T>* const to =
          this->data.data + this->data.array.template find<V>(index, result.index, j, element);
      if constexpr (Add) {
        add_atomically<T>(to, x);
      } else {
        x.store_wide(to);
      }
    };
    if (Array::rows && is_wide_operand<First>(wide)) return put(0, i, result.of);
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j)
      put(j, i + static_cast<unsigned>(j), packed_vector<bits_of<T>, 1>{result.of.get(j)});
  }
};
template <class T, class Array, bool Add, class E, class K>
struct part_of<indexed_assignment<T, Array, Add, E, K>> {
  using type = indexed_part<T, Array, Add, E, K>;
};

// Stores rows by index in their order. Block b of B, a power of two, owns the table's rows b modulo
// B: each of its warps scans all indices, each of its threads stores the same columns of all rows.
template <class A, class K>
struct in_order_kernel : warpwright::detail::kernel_base<256> {
  using all = fused<A>;
  all f;
  K index;
  std::uint64_t rows, wide;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    auto const mine = [&](std::uint64_t r) {
      return r < rows &&
             (static_cast<unsigned>(index.data[r]) & (block.count() - 1)) == block.index();
    };
    auto const store = [&](std::uint64_t r, unsigned t, unsigned threads) {
      constexpr unsigned vector = all::vector;
      std::uint64_t const cols = index.cols.divisor(), end = (r + 1) * cols;
      unsigned const step = cols % vector == 0 ? vector : 1;
      for (std::uint64_t i = r * cols + t * step; i < end; i += std::uint64_t{threads} * step)
        step == vector ? f.template vector_with<all::vector>(i, wide, [](auto&&...) {}) : f.one(i);
    };
    block.for_each_thread([&](unsigned t) {
#if defined(__CUDA_ARCH__)
      constexpr unsigned words = 8;  // of 32 indices that are loaded at once; lane k holds word k
      for (std::uint64_t first = 0; first < rows; first += words * 32) {
        unsigned held = 0;
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < words; ++k) {
          unsigned const word = __ballot_sync(~0U, mine(first + k * 32 + t % 32));
          if (t % 32 == k) held = word;
        }
        WARPWRIGHT_NO_UNROLL
        for (unsigned k = 0; k < words; ++k)
          for (unsigned word = __shfl_sync(~0U, held, static_cast<int>(k)); word != 0;
               word &= word - 1)
            store(first + k * 32 + __ffs(static_cast<int>(word)) - 1, t, max_threads);
      }
#else
      for (std::uint64_t r = 0; t == 0 && r < rows; ++r)
        if (mine(r)) store(r, 0, 1);
#endif
    });
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
