// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Assignments that write or add where numbers in memory say, as parts of the kernel of run().
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/indices/index_nodes.hpp>
#include <warpwright/kernel/detail/numeric/no_contract.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// The elements that can be added atomically, on some GPU.
template <class T>
inline constexpr bool is_atomic = std::is_same<T, float>::value || std::is_same<T, double>::value ||
                                  std::is_same<T, __half>::value ||
                                  std::is_same<T, __nv_bfloat16>::value ||
                                  (std::is_integral<T>::value &&
                                   (sizeof(T) == 4 || sizeof(T) == 8));

template <class T>
bits_of<T>* bits_to_add(T* data) {
  static_assert(!std::is_const<T>::value && is_number<std::remove_const_t<T>>,
                "warpwright::ew::scatter_add: the elements must be writable numbers");
  return reinterpret_cast<bits_of<T>*>(data);
}

// The sum of an element and a value of its type of computation, rounded once.
template <class T>
WARPWRIGHT_HOST_DEVICE bits_of<T> with_added(bits_of<T> element,
                                             typename element_traits<T>::value value) {
  using traits = element_traits<T>;
  if constexpr (std::is_integral<T>::value) {
    return static_cast<T>(unwrapped(element) + unwrapped(value));
  } else {
    return traits::encode(no_contract::plus(traits::decode(element), value));
  }
}

#if defined(__CUDA_ARCH__)
#define WARPWRIGHT_ADD(type, constraint, value)                                         \
  asm volatile("red.global.add." type " [%0], %1;" ::"l"(__cvta_generic_to_global(to)), \
               constraint(value)                                                        \
               : "memory")
#define WARPWRIGHT_ADD_2(type, constraint, as)                                                \
  asm volatile("red.global.add." type " [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), \
               constraint(as(w[0])), constraint(as(w[1]))                                     \
               : "memory")
#define WARPWRIGHT_ADD_4(type, constraint, as)                                               \
  asm volatile(                                                                              \
      "red.global.add." type " [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), \
      constraint(as(w[0])), constraint(as(w[1])), constraint(as(w[2])), constraint(as(w[3])) \
      : "memory")
#endif

/// Adds to one element.
template <class T>
WARPWRIGHT_HOST_DEVICE void add_atomically(bits_of<T>* to, bits_of<T> x) {
#if defined(__CUDA_ARCH__)
  constexpr bool bfloat16 = std::is_same<T, __nv_bfloat16>::value;
  static_assert(!bfloat16 || __CUDA_ARCH__ >= 900,
                "warpwright::ew::scatter_add: GPUs add __nv_bfloat16 atomically from compute "
                "capability 9.0 on; add to an array of float, or write .in_order()");
  static_assert(!std::is_same<T, __half>::value || __CUDA_ARCH__ >= 700,
                "warpwright::ew::scatter_add: GPUs add __half atomically from compute capability "
                "7.0 on; add to an array of float, or write .in_order()");
  if constexpr (std::is_same<T, float>::value) {
    WARPWRIGHT_ADD("f32", "f", x);
  } else if constexpr (std::is_same<T, double>::value) {
    WARPWRIGHT_ADD("f64", "d", x);
  } else if constexpr (bfloat16) {
    WARPWRIGHT_ADD("noftz.bf16", "h", x);
  } else if constexpr (sizeof(T) == 2) {
    WARPWRIGHT_ADD("noftz.f16", "h", x);
  } else if constexpr (sizeof(T) == 4) {
    WARPWRIGHT_ADD("u32", "r", x);
  } else {
    WARPWRIGHT_ADD("u64", "l", x);
  }
#else
  auto const value = element_traits<T>::decode(x);
  bits_of<T> seen;
  bits_of<T> sum;
  __atomic_load(to, &seen, __ATOMIC_RELAXED);
  do {
    sum = with_added<T>(seen, value);
  } while (!__atomic_compare_exchange(to, &seen, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
#endif
}

template <class T, int V>
WARPWRIGHT_HOST_DEVICE void add_each_atomically(bits_of<T>* to,
                                                packed_vector<bits_of<T>, V> const& x) {
  WARPWRIGHT_UNROLL
  for (int j = 0; j < V; ++j) add_atomically<T>(to + j, x.get(j));
}

/// Adds to V neighbours. On a GPU as few atomic instructions as it has for them.
/// @pre `to` is aligned as packed_vector requires
template <class T, int V>
WARPWRIGHT_HOST_DEVICE void add_vector_atomically(bits_of<T>* to,
                                                  packed_vector<bits_of<T>, V> const& x) {
#if defined(__CUDA_ARCH__)
  constexpr bool floats = std::is_same<T, float>::value;
  constexpr bool bfloat16 = std::is_same<T, __nv_bfloat16>::value;
  constexpr bool pairs = V % 2 == 0 && (std::is_same<T, __half>::value || bfloat16);
  constexpr int words = floats ? V : V / 2;
  if constexpr ((floats || pairs) && words % 2 == 0 && words <= 4 && __CUDA_ARCH__ >= 900) {
    auto const& w = x.words;
    if constexpr (floats && words == 4) {
      WARPWRIGHT_ADD_4("v4.f32", "f", __uint_as_float);
    } else if constexpr (floats) {
      WARPWRIGHT_ADD_2("v2.f32", "f", __uint_as_float);
    } else if constexpr (bfloat16 && words == 4) {
      WARPWRIGHT_ADD_4("noftz.v4.bf16x2", "r", unsigned);
    } else if constexpr (bfloat16) {
      WARPWRIGHT_ADD_2("noftz.v2.bf16x2", "r", unsigned);
    } else if constexpr (words == 4) {
      WARPWRIGHT_ADD_4("noftz.v4.f16x2", "r", unsigned);
    } else {
      WARPWRIGHT_ADD_2("noftz.v2.f16x2", "r", unsigned);
    }
  } else if constexpr (pairs && (!bfloat16 || __CUDA_ARCH__ >= 900)) {
    WARPWRIGHT_UNROLL
    for (int k = 0; k < words; ++k, to += 2) {
      if constexpr (bfloat16) {
        WARPWRIGHT_ADD("noftz.bf16x2", "r", x.words[k]);
      } else {
        WARPWRIGHT_ADD("noftz.f16x2", "r", x.words[k]);
      }
    }
  } else {
    add_each_atomically<T>(to, x);
  }
#else
  add_each_atomically<T>(to, x);
#endif
}
#if defined(__CUDA_ARCH__)
#undef WARPWRIGHT_ADD
#undef WARPWRIGHT_ADD_2
#undef WARPWRIGHT_ADD_4
#endif

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

// An expression and an index, which are loaded together; the function is never called.
struct beside_index {};
template <class E, class I>
using with_index = call<unconverted, beside_index, E, I>;

// The position of an out_at(), an operand of its assignment.
template <class P>
struct position_leaf : single_input<P> {
  std::uint64_t n;
  template <int V, class Operand>
  void describe(Operand*& next) const {
    *next++ = describe_array<P, 1>(access_pattern::position, this->data, n);
  }
};

// Destinations. They store V elements, of which the indices are the values of an assignment's
// index, from element i on.
template <class T, class P>
struct placed_destination {
  using element = T;
  bits_of<T>* data;
  start_in_memory<P> start;

  template <int V>
  [[nodiscard]] operand describe(std::uint64_t size) const {
    operand o = describe_array<T, V>(access_pattern::placed, data, size);
    o.span = start.count * sizeof(bits_of<T>);
    o.odd_starts = start.stride * o.element_bytes % o.aligned_bytes != 0;
    return o;
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE void store(packed_vector<bits_of<T>, V> const& values,
                                    std::uint64_t const* index, std::uint64_t i, bool wide) const {
    bits_of<T>* const to =
        data + checked_index("out_at", *index, start.limit, i) * start.stride + i;
    if constexpr (V == 1) {
      values.store_wide(to);
    } else if (wide) {
      values.store_wide(to);
    } else {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) to[j] = values.get(j);
    }
  }
  template <class Text, class I>
  void print(Text& line, I const&) const {
    line.template add_type<T>("out_at ");
    line.add_text(text{"["} + start.n + " of " + start.count + "]");
  }
};

template <class T, bool Rows>
struct scatter_destination {
  using element = T;
  bits_of<T>* data;
  std::uint64_t rows;  ///< of the table; by elements each is a row
  fast_divisor cols;

  template <int V>
  [[nodiscard]] operand describe(std::uint64_t size) const {
    operand o =
        describe_array<T, V>(Rows ? access_pattern::table_rows : access_pattern::table, data, size);
    o.span = rows * cols.divisor() * sizeof(bits_of<T>);
    o.odd_starts = Rows && cols.divisor() % V != 0;
    return o;
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE void store(packed_vector<bits_of<T>, V> const& values,
                                    std::uint64_t const* index, std::uint64_t i, bool wide) const {
    std::uint64_t column = Rows ? column_of(i, cols) : 0;
    if (Rows && wide) {
      return add_vector_atomically<T, V>(row(*index, i) + column, values);
    }
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      add_atomically<T>(row(index[j], i + static_cast<unsigned>(j)) + column, values.get(j));
      if (Rows && ++column == cols.divisor()) column = 0;
    }
  }
  template <class Text, class I>
  void print(Text& line, I const& index) const {
    line.template add_type<T>("scatter_add ");
    line.add_text(text{"["} + rows * cols.divisor() + "][");
    line.add(index);
    line.add_text("]");
  }
  WARPWRIGHT_HOST_DEVICE bits_of<T>* row(std::uint64_t index, std::uint64_t i) const {
    std::uint64_t const at = checked_index("scatter_add", index, rows, i);
    return data + (Rows ? at * cols.divisor() : at);
  }
};

}  // namespace WARPWRIGHT_INDEX_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

/// What assigning to out_at() and scatter_add() returns, and run() evaluates.
template <class Destination, class E, class I>
struct indexed_assignment {
  using prints_itself = void;
  Destination data;
  std::uint64_t size;
  detail::with_index<E, I> expression;

  template <class Text>
  void print(Text& line) const {
    data.print(line, detail::at<1>(expression.arguments));
    line.add_text(" = ");
    line.add(detail::at<0>(expression.arguments));
  }
};

}  // namespace WARPWRIGHT_INDEX_NAMESPACE

namespace detail {

template <class D, class E, class I>
inline constexpr bool is_assignment<indexed_assignment<D, E, I>> = true;
template <class A>
inline constexpr bool is_indexed_assignment = false;
template <class D, class E, class I>
inline constexpr bool is_indexed_assignment<indexed_assignment<D, E, I>> = true;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class D, class E, class I>
struct indexed_part {
  using element = typename D::element;
  using values = fused_part<element, E>;
  using node = with_index<E, I>;
  static constexpr bool strided = true;
  static constexpr bool may_have_gaps = false;
  static constexpr bool views = holds_view<node>;
  static constexpr int operands = node::operands + 1;
  static constexpr int widest_bytes = largest(vector_element_bytes<element>, node::widest_bytes);
  static constexpr int loaded_bytes = node::loaded_bytes;
  template <int V>
  using registers = typename node::template registers<V>;
  template <int V>
  struct results {
    packed_vector<bits_of<element>, V> of;
    c_array<std::uint64_t, V> index;
  };

  D data;
  node expression;

  template <int V>
  static operand describe_output(D const& destination, std::uint64_t size) {
    return destination.template describe<V>(size);
  }
  template <int V, int First, class Index>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Index const& i, std::uint64_t wide) const {
    expression.template load<V, First + 1>(r, i, wide);
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE void compute(results<V>& result, registers<V> const& r,
                                      std::uint64_t i) const {
    values const computed{nullptr, at<0>(expression.arguments)};
    computed.template compute<V>(result.of, at<0>(r), i);
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      result.index[j] = static_cast<std::uint64_t>(
          at<1>(expression.arguments)
              .template value<void, V>(at<1>(r), j, i + static_cast<unsigned>(j)));
    }
  }
  template <int V, int First, class Index>
  WARPWRIGHT_HOST_DEVICE void store(results<V> const& result, Index const& i,
                                    std::uint64_t wide) const {
    data.template store<V>(result.of, result.index, i, is_wide_operand<First>(wide));
  }
};
template <class D, class E, class I>
struct part_of<indexed_assignment<D, E, I>> {
  using type = indexed_part<D, E, I>;
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

// The number of elements of an assignment that does not say it: of its in() and the like.
template <class Node>
std::uint64_t size_of_operands(Node const& node) {
  static_assert(any_of_leaves<gives_size, leaves_of<Node>>,
                "warpwright::ew::scatter_add: nothing says how many elements are added: neither "
                "the index nor the right side has an in(pointer, n) or a view()");
  operand all[Node::operands + 1];
  operand* next = all;
  node.template describe<1>(next);
  for (operand const& o : all) {
    bool const elements = o.kind == access_pattern::elements || o.kind == access_pattern::view;
    if (elements || o.kind == access_pattern::position) return o.count;
  }
  return 0;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
