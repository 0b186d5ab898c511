// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Assignments that write or add where indices say, as parts of the kernel of run().
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/expression/operators.hpp>
#include <warpwright/kernel/detail/indices/index_nodes.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

template <class T>
inline constexpr bool is_16_bit_float =
    std::is_same<T, __half>::value || std::is_same<T, __nv_bfloat16>::value;
// The elements that some GPU adds atomically.
template <class T>
inline constexpr bool is_atomic = is_16_bit_float<T> || std::is_floating_point<T>::value ||
                                  (std::is_integral<T>::value && sizeof(T) >= 4);

#if defined(__CUDA_ARCH__)
#define WARPWRIGHT_ADD(type, constraint, value)                                         \
  asm volatile("red.global.add." type " [%0], %1;" ::"l"(__cvta_generic_to_global(to)), \
               constraint(value)                                                        \
               : "memory")
#define WARPWRIGHT_ADD_4(type, w)                                              \
  asm volatile("red.global.add." type                                          \
               " [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), \
               "r"((w)[0]), "r"((w)[1]), "r"((w)[2]), "r"((w)[3])              \
               : "memory")
#endif

/// Adds to one element.
template <class T>
WARPWRIGHT_HOST_DEVICE void add_atomically(bits_of<T>* to, bits_of<T> x) {
#if defined(__CUDA_ARCH__)
  constexpr bool bfloat16 = std::is_same<T, __nv_bfloat16>::value;
  static_assert(!is_16_bit_float<T> || __CUDA_ARCH__ >= (bfloat16 ? 900 : 700),
                "warpwright::ew::scatter_add: GPUs add __nv_bfloat16 atomically from compute "
                "capability 9.0 on, __half from 7.0; add to floats, or by .in_order()");
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
  using traits = element_traits<T>;
  bits_of<T> seen;
  bits_of<T> sum;
  __atomic_load(to, &seen, __ATOMIC_RELAXED);
  do {
    sum = traits::encode(
        static_cast<typename traits::value>(plus{}(traits::decode(seen), traits::decode(x))));
  } while (!__atomic_compare_exchange(to, &seen, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
#endif
}

/// Adds to V neighbours, by as few atomic instructions as the GPU has for them.
/// @pre `to` is aligned as packed_vector requires
template <class T, int V>
WARPWRIGHT_HOST_DEVICE void add_vector_atomically(bits_of<T>* to,
                                                  packed_vector<bits_of<T>, V> const& x) {
#if defined(__CUDA_ARCH__)
  constexpr bool bfloat16 = std::is_same<T, __nv_bfloat16>::value;
  constexpr bool pairs = is_16_bit_float<T> && V % 2 == 0;
  if constexpr (std::is_same<T, float>::value && V == 4 && __CUDA_ARCH__ >= 900) {
    WARPWRIGHT_ADD_4("v4.f32", x.words);
  } else if constexpr (pairs && V == 8 && __CUDA_ARCH__ >= 900) {
    if constexpr (bfloat16) {
      WARPWRIGHT_ADD_4("noftz.v4.bf16x2", x.words);
    } else {
      WARPWRIGHT_ADD_4("noftz.v4.f16x2", x.words);
    }
  } else if constexpr (pairs && (!bfloat16 || __CUDA_ARCH__ >= 900)) {
    WARPWRIGHT_UNROLL
    for (int k = 0; k < V / 2; ++k, to += 2) {
      if constexpr (bfloat16) {
        WARPWRIGHT_ADD("noftz.bf16x2", "r", x.words[k]);
      } else {
        WARPWRIGHT_ADD("noftz.f16x2", "r", x.words[k]);
      }
    }
  } else
#endif
  {
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) add_atomically<T>(to + j, x.get(j));
  }
}
#undef WARPWRIGHT_ADD
#undef WARPWRIGHT_ADD_4

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

// An expression and an index, which are loaded together; the function is never called.
struct beside_index {};

/// Where an assignment writes or adds.
template <class T, by_index By>
struct indexed_destination {
  static constexpr char const* name = By == by_index::placed ? "out_at" : "scatter_add";
  bits_of<T>* data;
  indexed_array<By> array;

  /// @param index  of V elements from element i on, values of the node `from`
  template <int V, class K>
  WARPWRIGHT_HOST_DEVICE void store(packed_vector<bits_of<T>, V> const& x,
                                    std::uint64_t const* index, std::uint64_t i, bool wide,
                                    K const& from) const {
    if (By != by_index::elements && wide) {
      bits_of<T>* const to = data + array.at(name, *index, i, from);
      if constexpr (By == by_index::placed) {
        x.store_wide(to);
      } else {
        add_vector_atomically<T, V>(to, x);
      }
      return;
    }
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      bits_of<T>* const to = data + array.at(name, index[j], i + static_cast<unsigned>(j), from);
      if constexpr (By == by_index::placed) {
        *to = x.get(j);
      } else {
        add_atomically<T>(to, x.get(j));
      }
    }
  }
};

}  // namespace WARPWRIGHT_INDEX_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_INDEX_NAMESPACE {

/// What assigning to out_at() and scatter_add() returns, and run() evaluates.
template <class T, detail::by_index By, class E, class K>
struct indexed_assignment {
  using prints_itself = void;
  detail::indexed_destination<T, By> data;
  std::uint64_t size;
  call<detail::unconverted, detail::beside_index, E, K> expression;

  template <class Text>
  void print(Text& line) const {
    data.array.template print<T>(data.name, line, detail::at<1>(expression.arguments));
    line.add_text(" = ");
    line.add(detail::at<0>(expression.arguments));
  }
};

}  // namespace WARPWRIGHT_INDEX_NAMESPACE

namespace detail {

template <class T, by_index By, class E, class K>
inline constexpr bool is_assignment<indexed_assignment<T, By, E, K>> = true;
template <class A>
inline constexpr bool is_indexed_assignment = false;
template <class T, by_index By, class E, class K>
inline constexpr bool is_indexed_assignment<indexed_assignment<T, By, E, K>> = true;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class T, by_index By, class E, class K>
struct indexed_part {
  static_assert(By != by_index::rows_in_order,
                "warpwright::ew: scatter_add().in_order() is a kernel of its own: run(stream, "
                "scatter_add(…).in_order() = …), neither beside others in tie() nor in plan()");
  using destination = indexed_destination<T, By>;
  using node = call<unconverted, beside_index, E, K>;
  using plain = fused_part<T, node>;
  static constexpr bool strided = true;
  static constexpr bool may_have_gaps = false;
  static constexpr bool views = plain::views;
  static constexpr int operands = plain::operands;
  static constexpr int widest_bytes = plain::widest_bytes;
  static constexpr int loaded_bytes = plain::loaded_bytes;
  template <int V>
  using registers = typename plain::template registers<V>;
  template <int V>
  struct results {
    packed_vector<bits_of<T>, V> of;
    c_array<std::uint64_t, V> index;
  };

  destination data;
  node expression;

  template <int V>
  static operand describe_output(destination const& to, std::uint64_t size) {
    operand o;
    to.array.template describe<T, V>(o, to.data, size);
    o.span = to.array.count * sizeof(bits_of<T>);
    return o;
  }
  template <int V, int First, class Index>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Index const& i, std::uint64_t wide) const {
    expression.template load<V, First + 1>(r, i, wide);
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE void compute(results<V>& result, registers<V> const& r,
                                      std::uint64_t i) const {
    fused_part<T, E> const values{nullptr, at<0>(expression.arguments)};
    values.template compute<V>(result.of, at<0>(r), i);
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      auto const index = at<1>(expression.arguments)
                             .template value<void, V>(at<1>(r), j, i + static_cast<unsigned>(j));
      result.index[j] = static_cast<std::uint64_t>(index);
    }
  }
  template <int V, int First, class Index>
  WARPWRIGHT_HOST_DEVICE void store(results<V> const& result, Index const& i,
                                    std::uint64_t wide) const {
    data.template store<V>(result.of, result.index, i, is_wide_operand<First>(wide),
                           at<1>(expression.arguments));
  }
};
template <class T, by_index By, class E, class K>
struct part_of<indexed_assignment<T, By, E, K>> {
  using type = indexed_part<T, By, E, K>;
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

// The number of elements of an assignment: what its in() and the like have.
template <class Node>
std::uint64_t size_of_operands(Node const& node) {
  static_assert(any_of_leaves<gives_size, leaves_of<Node>>,
                "warpwright::ew::scatter_add: nothing says how many elements are added: neither "
                "the index nor the right side has an in(pointer, n) or a view()");
  operand all[Node::operands + 1];
  operand* next = all;
  node.template describe<1>(next);
  operand const* o = all;
  while (o->kind != access_pattern::elements && o->kind != access_pattern::view &&
         o->kind != access_pattern::position) {
    ++o;  // ends at the last one, which is of elements
  }
  return o->count;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
