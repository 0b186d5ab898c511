// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The arrays of a listed tensor as types, and what a kernel's thread does with a chunk of them.
#pragma once

#include <warpwright/kernel/detail/nodes.hpp>
#include <warpwright/kernel/detail/tensor_table.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// Marks an array of a tensor_list that is written and never read: `write_only<__nv_bfloat16>`.
/// The function finds zero in its elements, and the kernel saves the reading.
template <class T>
struct write_only {};

namespace detail {

// What an array of a list is: T is read and written, T const read, write_only<T> written.
template <class S>
struct array_kind {
  using element = S;
  using pointer = S*;
  static constexpr bool reads = true;
  static constexpr bool writes = true;
};
template <class T>
struct array_kind<T const> {
  using element = T;
  using pointer = T const*;
  static constexpr bool reads = true;
  static constexpr bool writes = false;
};
template <class T>
struct array_kind<write_only<T>> : array_kind<T> {
  static constexpr bool reads = false;
};
template <class S>
using element_of = typename array_kind<S>::element;
template <class S>
using element_bits = bits_of<element_of<S>>;
template <class S>
using element_value = typename number<element_of<S>>::value;
// As the function is given it.
template <class S>
using element_argument =
    std::conditional_t<array_kind<S>::writes, element_value<S>&, element_value<S> const&>;

// The arrays of one tensor as types: how their elements are moved, and how a function meets them.
template <class Indices, class... S>
struct tensor_arrays_of;
template <std::size_t... Index, class... S>
struct tensor_arrays_of<std::index_sequence<Index...>, S...> {
  static constexpr int count = static_cast<int>(sizeof...(S));
  static constexpr int vector = vector_elements(largest(lane_bytes<element_of<S>>...));
  static constexpr int loaded_bytes =
      (0 + ... + (array_kind<S>::reads ? static_cast<int>(sizeof(element_bits<S>)) : 0));
  static constexpr int vectors = vectors_per_thread(loaded_bytes * vector);
  static constexpr std::uint32_t all_wide = ~std::uint32_t{0} >> (32 - count);
  static constexpr unsigned tile = table_threads * static_cast<unsigned>(vectors);

  using tensor = listed_tensor<count>;
  using table = tensor_table<count>;
  using pointers = pack<element_bits<S>*...>;
  template <int V>
  using registers = pack<lanes<element_bits<S>, V>...>;
  using values = pack<element_value<S>...>;

  // Where element `i` of a tensor lies.
  WARPWRIGHT_HOST_DEVICE static pointers place(tensor const& t, std::uint64_t i) {
    return {{static_cast<element_bits<S>*>(t.data[Index]) + i}...};
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE static void load(registers<V>& r, pointers const& from, std::uint64_t i,
                                          std::uint32_t wide) {
    (load_array<S>(at<Index>(r), at<Index>(from) + i, (wide >> Index & 1U) != 0), ...);
  }
  /// Calls `f` with each of V elements and writes what is to be written.
  template <int V, class F>
  WARPWRIGHT_HOST_DEVICE static void update(F const& f, registers<V> const& r, pointers const& to,
                                            std::uint64_t i, std::uint32_t wide) {
    registers<V> result;
    if constexpr (V == 1) {
      values const v = updated<1>(f, r, 0);
      (set_one<S>(at<Index>(result), at<Index>(v)), ...);
    } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < V; j += 2) {
        values const low = updated<V>(f, r, j);
        values const high = updated<V>(f, r, j + 1);
        (set_two<S>(at<Index>(result), j, at<Index>(low), at<Index>(high)), ...);
      }
    }
    (store_array<S>(at<Index>(result), at<Index>(to) + i, (wide >> Index & 1U) != 0), ...);
  }

 private:
  template <class A, int V>
  WARPWRIGHT_HOST_DEVICE static void load_array(lanes<element_bits<A>, V>& r,
                                                element_bits<A> const* from, bool wide) {
    if constexpr (array_kind<A>::reads) {
      if constexpr (V == 1) {
        r.only = *from;
      } else if (wide) {
        r.load_wide(from);
      } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (int j = 0; j < V; ++j) r.set(j, from[j]);
      }
    }
  }
  template <class A, int V>
  WARPWRIGHT_HOST_DEVICE static element_value<A> read(lanes<element_bits<A>, V> const& r, int j) {
    if constexpr (array_kind<A>::reads) {
      return decoded<element_of<A>, V>(r, j);
    } else {
      return element_value<A>{};
    }
  }
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
  template <int V, class F>
  WARPWRIGHT_HOST_DEVICE static values updated(F const& f, registers<V> const& r, int j) {
    values v{{read<S, V>(at<Index>(r), j)}...};
    f(static_cast<element_argument<S>>(at<Index>(v))...);
    return v;
  }
  template <class A>
  WARPWRIGHT_HOST_DEVICE static void set_one(lanes<element_bits<A>, 1>& result,
                                             element_value<A> const& v) {
    if constexpr (array_kind<A>::writes) result.set(0, number<element_of<A>>::encode(v));
  }
  template <class A, int V>
  WARPWRIGHT_HOST_DEVICE static void set_two(lanes<element_bits<A>, V>& result, int j,
                                             element_value<A> const& low,
                                             element_value<A> const& high) {
    using how = number<element_of<A>>;
    if constexpr (!array_kind<A>::writes) {
    } else if constexpr (how::packs_pairs) {
      result.set_pair(j, how::encode_pair(low, high));
    } else {
      result.set(j, how::encode(low));
      result.set(j + 1, how::encode(high));
    }
  }
  template <class A, int V>
  WARPWRIGHT_HOST_DEVICE static void store_array(lanes<element_bits<A>, V> const& result,
                                                 element_bits<A>* to, bool wide) {
    if constexpr (array_kind<A>::writes) {
      if constexpr (V == 1) {
        *to = result.only;
      } else if (wide) {
        result.store_wide(to);
      } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (int j = 0; j < V; ++j) to[j] = result.get(j);
      }
    }
  }
};
template <class... S>
using tensor_arrays = tensor_arrays_of<std::index_sequence_for<S...>, S...>;

// ---- The function ----

template <class F, class = void>
inline constexpr bool has_prepare = false;
template <class F>
inline constexpr bool has_prepare<F, std::void_t<decltype(std::declval<F&>().prepare())>> = true;

#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class F>
WARPWRIGHT_HOST_DEVICE bool prepared(F& f) {
  if constexpr (has_prepare<F>) {
    static_assert(std::is_same<decltype(f.prepare()), bool>::value,
                  "warpwright::ew::run_each: prepare() must return bool: false leaves all tensors "
                  "as they are");
    return f.prepare();
  } else {
    static_cast<void>(f);
    return true;
  }
}

// Whether F takes array `Which` by reference, so that what it assigns is seen.
template <class F, std::size_t Which, class Indices, class... S>
inline constexpr bool takes_reference = false;
template <class F, std::size_t Which, std::size_t... Index, class... S>
inline constexpr bool takes_reference<F, Which, std::index_sequence<Index...>, S...> =
    !is_callable<F, std::conditional_t<Which == Index, element_value<S>, element_argument<S>>...>;
template <class F, class Indices, class... S>
inline constexpr bool takes_references = false;
template <class F, std::size_t... Index, class... S>
inline constexpr bool takes_references<F, std::index_sequence<Index...>, S...> = ((
    !array_kind<S>::writes || takes_reference<F, Index, std::index_sequence<Index...>, S...>)&&...);

template <class F, class... S>
constexpr bool check_function() {
  static_assert(is_extended_lambda<F> || std::is_trivially_copyable<F>::value,
                "warpwright::ew::run_each: the function must be trivially copyable, as a kernel's "
                "argument is: hold pointers and numbers, not containers");
  static_assert(sizeof(F) <= table_function_bytes && alignof(F) <= 16,
                "warpwright::ew::run_each: the function takes more than 1000 bytes, or an "
                "alignment past 16, beside the list in a kernel's arguments; pass what it holds by "
                "pointer");
  if constexpr (!is_extended_lambda<F>) {
    constexpr bool callable = is_callable<F, element_argument<S>...>;
    static_assert(callable,
                  "warpwright::ew::run_each: the function cannot be called with one element of "
                  "each array; its operator() must be const, elements of const arrays are const, "
                  "and 16-bit and 8-bit floats are float");
    static_assert(!callable || takes_references<F, std::index_sequence_for<S...>, S...>,
                  "warpwright::ew::run_each: the function takes an array that is written by value, "
                  "so that nothing would change; take a reference, or list the array as const");
  }
  return true;
}

// ---- The kernel ----

// A chunk as its block sees it.
template <class Arrays>
struct located_chunk {
  typename Arrays::pointers data;   ///< where its first vector lies
  typename Arrays::pointers start;  ///< where its tensor does
  unsigned count;                   ///< its vectors
  std::uint32_t wide;
  unsigned head;
  unsigned edge;          ///< elements of its tensor in no vector, for the tensor's first chunk
  std::uint64_t vectors;  ///< of its tensor

  /// @param tensor  where in the table the chunk's tensor is
  WARPWRIGHT_HOST_DEVICE located_chunk(typename Arrays::table const& table, unsigned tensor,
                                       unsigned index) {
    typename Arrays::tensor const& t = table.tensors[tensor];
    unsigned const chunk = index - table.first_chunk[tensor];
    std::uint64_t const first = std::uint64_t{chunk} * table.chunk;
    vectors = vectors_of(t, Arrays::vector);
    count = vectors - first < table.chunk ? static_cast<unsigned>(vectors - first) : table.chunk;
    wide = t.wide;
    head = t.head;
    edge = chunk == 0 ? static_cast<unsigned>(t.size - vectors * Arrays::vector) : 0;
    start = Arrays::place(t, 0);
    data = Arrays::place(t, head + first * Arrays::vector);
  }
  /// Loads vectors v, v + table_threads, … of the chunk, those that it has.
  template <int Vectors>
  WARPWRIGHT_HOST_DEVICE void load(
      typename Arrays::template registers<Arrays::vector> (&r)[Vectors], unsigned v) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < Vectors; ++u) {
      unsigned const i = v + u * table_threads;
      if (i >= count) continue;
      // One branch, the same for a whole block, so that loads of the usual case follow each other.
      if (wide == Arrays::all_wide) {
        Arrays::template load<Arrays::vector>(r[u], data, i * Arrays::vector, Arrays::all_wide);
      } else {
        Arrays::template load<Arrays::vector>(r[u], data, i * Arrays::vector, wide);
      }
    }
  }
  /// Answers which element thread t < edge takes.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t edge_element(unsigned t) const {
    return t < head ? t : vectors * Arrays::vector + t;
  }
};

// The work of one thread: chunk `index` of the table, as one of `table_threads`. All loads of a
// tile are issued before the first is used, and before what prepare() waits for.
template <class Arrays, class F>
WARPWRIGHT_HOST_DEVICE void update_chunk(typename Arrays::table const& table, F f, unsigned index,
                                         unsigned t) {
  constexpr unsigned vector = Arrays::vector;
  located_chunk<Arrays> const chunk{table, table.tensor_of(index), index};
  bool ready = false;
  for (unsigned v = t; v < chunk.count; v += Arrays::tile) {
    typename Arrays::template registers<Arrays::vector> r[Arrays::vectors];
    chunk.load(r, v);
    if (!ready && !prepared(f)) return;
    ready = true;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < Arrays::vectors; ++u) {
      unsigned const i = v + u * table_threads;
      if (i >= chunk.count) continue;
      Arrays::template update<Arrays::vector>(f, r[u], chunk.data, i * vector, chunk.wide);
    }
  }
  if (t < chunk.edge) {
    if (!ready && !prepared(f)) return;
    std::uint64_t const i = chunk.edge_element(t);
    typename Arrays::template registers<1> r;
    Arrays::template load<1>(r, chunk.start, i, 0);
    Arrays::template update<1>(f, r, chunk.start, i, 0);
  }
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
