// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The arrays of a listed tensor as types, and a chunk of them as a kernel loads it.
#pragma once

#include <warpwright/kernel/detail/expression/nodes.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/tensor_table.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// Marks an array of a tensor_list that is written and never read: `write_only<__nv_bfloat16>`.
/// Its elements are zero when the function is called; the kernel does not load them.
template <class T>
struct write_only {};

template <class... S>
class tensor_list;

namespace detail {

struct list_access;  // to a tensor_list

// How an array of a list is accessed: T is read and written, T const read, write_only<T> written.
template <class S>
struct array_kind {
  using element = std::remove_const_t<S>;
  using pointer = S*;
  static constexpr bool reads = true;
  static constexpr bool writes = !std::is_const<S>::value;
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
using element_value = typename element_traits<element_of<S>>::value;
// What the function is called with.
template <class S>
using element_argument =
    std::conditional_t<array_kind<S>::writes, element_value<S>&, element_value<S> const&>;

// The arrays of one tensor as types: how their elements are moved, and how a function is called
// with them.
template <class Indices, class... S>
struct tensor_arrays_of;
template <std::size_t... Index, class... S>
struct tensor_arrays_of<std::index_sequence<Index...>, S...> {
  static constexpr int count = static_cast<int>(sizeof...(S));
  static constexpr int vector = vector_elements(largest(vector_element_bytes<element_of<S>>...));
  static constexpr int loaded_bytes =
      (0 + ... + (array_kind<S>::reads ? static_cast<int>(sizeof(element_bits<S>)) : 0));
  static constexpr int vectors = vectors_per_thread(loaded_bytes * vector);
  static constexpr std::uint32_t all_wide = ~std::uint32_t{0} >> (32 - count);
  static constexpr std::uint32_t written =  // bit k: array k
      ((std::uint32_t{array_kind<S>::writes} << Index) | ...);
  static constexpr unsigned tile = table_threads * static_cast<unsigned>(vectors);

  using tensor = listed_tensor<count>;
  using table = tensor_table<count>;
  using pointers = pack<element_bits<S>*...>;
  template <int V>
  using registers = pack<packed_vector<element_bits<S>, V>...>;
  using values = pack<element_value<S>...>;

  // The addresses of element `i` of a tensor.
  WARPWRIGHT_HOST_DEVICE static pointers locate(tensor const& t, std::uint64_t i) {
    return {{static_cast<element_bits<S>*>(t.data[Index]) + i}...};
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE static void load(registers<V>& r, pointers const& from, std::uint64_t i,
                                          std::uint32_t wide) {
    (load_array<S>(at<Index>(r), at<Index>(from) + i, (wide >> Index & 1U) != 0), ...);
  }
  // Calls `f` with each of V elements and stores the arrays that are written.
  template <int V, class F>
  WARPWRIGHT_HOST_DEVICE static void update(F const& f, registers<V> const& r, pointers const& to,
                                            std::uint64_t i, std::uint32_t wide) {
    registers<V> result WARPWRIGHT_ZERO_ON_HOST;
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; j += 2) {
      values const low = updated<V>(f, r, j);
      values const high = V == 1 ? low : updated<V>(f, r, j + 1);
      (set<S>(at<Index>(result), j, at<Index>(low), at<Index>(high)), ...);
    }
    (store_array<S>(at<Index>(result), at<Index>(to) + i, (wide >> Index & 1U) != 0), ...);
  }

 private:
  template <class A, int V>
  WARPWRIGHT_HOST_DEVICE static void load_array(packed_vector<element_bits<A>, V>& r,
                                                element_bits<A> const* from, bool wide) {
    if constexpr (array_kind<A>::reads) {
      if constexpr (V > 1) {
        if (wide) return r.load_wide(from);
      }
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) r.set(j, from[j]);
    }
  }
  template <class A, int V>
  WARPWRIGHT_HOST_DEVICE static element_value<A> read(packed_vector<element_bits<A>, V> const& r,
                                                      int j) {
    if constexpr (array_kind<A>::reads) {
      return decoded<element_of<A>, V>(r, j);
    } else {
      return element_value<A>{};
    }
  }
  WARPWRIGHT_NO_EXEC_CHECK
  template <int V, class F>
  WARPWRIGHT_HOST_DEVICE static values updated(F const& f, registers<V> const& r, int j) {
    values v{{read<S, V>(at<Index>(r), j)}...};
    f(static_cast<element_argument<S>>(at<Index>(v))...);
    return v;
  }
  // Sets elements j and j + 1, or the only one.
  template <class A, int V>
  WARPWRIGHT_HOST_DEVICE static void set(packed_vector<element_bits<A>, V>& result, int j,
                                         element_value<A> const& low,
                                         element_value<A> const& high) {
    using traits = element_traits<element_of<A>>;
    if constexpr (!array_kind<A>::writes) {
    } else if constexpr (V > 1 && traits::packs_pairs) {
      result.set_pair(j, traits::encode_pair(low, high));
    } else {
      result.set(j, traits::encode(low));
      if constexpr (V > 1) result.set(j + 1, traits::encode(high));
    }
  }
  template <class A, int V>
  WARPWRIGHT_HOST_DEVICE static void store_array(packed_vector<element_bits<A>, V> const& result,
                                                 element_bits<A>* to, bool wide) {
    if constexpr (array_kind<A>::writes) {
      if (V > 1 && wide) return result.store_wide(to);
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) to[j] = result.get(j);
    }
  }
};
template <class... S>
using tensor_arrays = tensor_arrays_of<std::index_sequence_for<S...>, S...>;

// One chunk of a table, for the block that takes it.
template <class Arrays>
struct chunk_location {
  typename Arrays::pointers data;   ///< of its first vector
  typename Arrays::pointers start;  ///< of its tensor's first element
  unsigned count;                   ///< its vectors
  std::uint32_t wide;
  unsigned head;
  unsigned edge;          ///< elements of its tensor in no vector, for the tensor's first chunk
  std::uint64_t vectors;  ///< of its tensor

  /// @param tensor  of the chunk, as its index in the table
  WARPWRIGHT_HOST_DEVICE chunk_location(typename Arrays::table const& table, unsigned tensor,
                                        unsigned index) {
    typename Arrays::tensor const& t = table.tensors[tensor];
    unsigned const chunk = index - table.first_chunk[tensor];
    std::uint64_t const first = std::uint64_t{chunk} * table.chunk;
    vectors = vectors_of(t, Arrays::vector);
    count = vectors - first < table.chunk ? static_cast<unsigned>(vectors - first) : table.chunk;
    wide = t.wide;
    head = t.head;
    edge = chunk == 0 ? static_cast<unsigned>(t.size - vectors * Arrays::vector) : 0;
    start = Arrays::locate(t, 0);
    data = Arrays::locate(t, head + first * Arrays::vector);
  }
  /// Loads those of the vectors v, v + table_threads, … that the chunk has.
  template <int Vectors>
  WARPWRIGHT_HOST_DEVICE void load(
      c_array<typename Arrays::template registers<Arrays::vector>, Vectors>& r, unsigned v) const {
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < Vectors; ++u) {
      unsigned const i = v + u * table_threads;
      if (i >= count) continue;
      // One branch, the same for a whole block, so that loads of the fast path follow each other.
      if (wide == Arrays::all_wide) {
        Arrays::template load<Arrays::vector>(r[u], data, i * Arrays::vector, Arrays::all_wide);
      } else {
        Arrays::template load<Arrays::vector>(r[u], data, i * Arrays::vector, wide);
      }
    }
  }
  /// The element that thread t < edge takes.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t edge_element(unsigned t) const {
    return t < head ? t : vectors * Arrays::vector + t;
  }
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
