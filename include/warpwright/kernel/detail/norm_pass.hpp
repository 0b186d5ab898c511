// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One pass over listed tensors that only reads them: which chunks a block takes, and what a thread
// makes of them for the norm of all tensors or of each.
#pragma once

#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/reduce.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// ---- Norms: how a value enters one, how two parts become one, and what comes of it ----

struct sum_of_squares {
  template <class V>
  WARPWRIGHT_HOST_DEVICE static V lifted(V x) {
    return x * x;
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE static V both(V a, V b) {
    return a + b;
  }
  WARPWRIGHT_HOST_DEVICE static double finished(double squares) { return library::sqrt(squares); }
};
struct largest_magnitude {
  template <class V>
  WARPWRIGHT_HOST_DEVICE static V lifted(V x) {
    return absolute{}(x);
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE static V both(V a, V b) {
    return a > b || a != a ? a : b;  // NaN stays
  }
  WARPWRIGHT_HOST_DEVICE static double finished(double largest) { return largest; }
};

// As fold_block() wants a state.
template <class How>
struct norm_states {
  using states = pack<double>;
  using indices = std::index_sequence<0>;
  WARPWRIGHT_HOST_DEVICE static states identities() { return {{0.0}}; }
  WARPWRIGHT_HOST_DEVICE static states combined(states const& a, states const& b) {
    return {{How::both(at<0>(a), at<0>(b))}};
  }
};

// ---- Which chunks a block takes: neighbouring ones, as many as the others but for one ----

/// Answers the first chunk of a block.
WARPWRIGHT_HOST_DEVICE constexpr unsigned first_chunk_of(unsigned block, unsigned chunks,
                                                         unsigned blocks) {
  return static_cast<unsigned>(std::uint64_t{chunks} * block / blocks);
}
/// Answers which block takes a chunk.
WARPWRIGHT_HOST_DEVICE constexpr unsigned block_of(unsigned chunk, unsigned chunks,
                                                   unsigned blocks) {
  return static_cast<unsigned>(((std::uint64_t{chunk} + 1) * blocks - 1) / chunks);
}

constexpr unsigned norm_blocks(unsigned chunks, unsigned most) {
  return chunks == 0 ? 1 : chunks < most ? chunks : most;
}

/// The chunks of one tensor that one block takes, and the blocks that share the tensor.
struct norm_part {
  unsigned begin;
  unsigned end;
  unsigned first_block;
  unsigned last_block;

  /// @param begin,end  the block's chunks from this tensor on, at least one
  template <class Table>
  WARPWRIGHT_HOST_DEVICE norm_part(Table const& table, unsigned tensor, unsigned begin_,
                                   unsigned end_, unsigned block, unsigned blocks)
      : begin{begin_}, end{end_}, first_block{block}, last_block{block} {
    unsigned const first = table.first_chunk[tensor];
    unsigned const next = tensor + 1 < table.count ? table.first_chunk[tensor + 1] : table.chunks;
    if (first < begin) first_block = block_of(first, table.chunks, blocks);
    if (next > end) last_block = block_of(next - 1, table.chunks, blocks);
    if (next < end) end = next;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE bool whole() const { return first_block == last_block; }
};

// ---- What a thread adds up ----

// `Arrays` is named, for nvcc's front end would take the alias apart.
template <class T, class How, class Arrays = tensor_arrays<T const>>
struct norm_arrays {
  static_assert(std::is_floating_point<typename number<T>::value>::value,
                "warpwright::ew: global_norm() and norm_each() want elements of floating point");
  static_assert(table_threads == reduce_threads, "fold_block() is for so many");
  static constexpr int loads = reduce_bytes_a_thread / 16;
  static constexpr unsigned tile = table_threads * static_cast<unsigned>(loads);

  template <int V>
  WARPWRIGHT_HOST_DEVICE static typename number<T>::value of_vector(
      typename Arrays::template registers<V> const& r) {
    typename number<T>::value state{};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int j = 0; j < V; ++j) {
      state = How::both(state, How::lifted(decoded<T, V>(at<0>(r), j)));
    }
    return state;
  }
  // What thread t makes of a chunk: up to 64 elements in their own type, and at most one more.
  WARPWRIGHT_HOST_DEVICE static double of_chunk(typename Arrays::table const& table,
                                                unsigned tensor, unsigned index, unsigned t) {
    constexpr int vector = Arrays::vector;
    located_chunk<Arrays> const chunk{table, tensor, index};
    typename Arrays::template registers<vector> r[loads];
    chunk.load(r, t);
    typename number<T>::value state{};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < loads; ++u) {
      if (t + u * table_threads < chunk.count) state = How::both(state, of_vector<vector>(r[u]));
    }
    if (t < chunk.edge) {
      typename Arrays::template registers<1> one;
      Arrays::template load<1>(one, chunk.start, chunk.edge_element(t), 0);
      state = How::both(state, of_vector<1>(one));
    }
    return static_cast<double>(state);
  }
  // Thread t of a block, over all chunks of the block: of all tensors together.
  WARPWRIGHT_HOST_DEVICE static double partial(typename Arrays::table const& table, unsigned block,
                                               unsigned blocks, unsigned t) {
    unsigned const begin = first_chunk_of(block, table.chunks, blocks);
    unsigned const end = first_chunk_of(block + 1, table.chunks, blocks);
    double state = 0;
    unsigned tensor = table.tensor_of(begin);
    for (unsigned index = begin; index < end; ++index) {
      if (tensor + 1 < table.count && table.first_chunk[tensor + 1] == index) ++tensor;
      state = How::both(state, of_chunk(table, tensor, index, t));
    }
    return state;
  }
  // Thread t of a block, over the block's chunks of one tensor.
  WARPWRIGHT_HOST_DEVICE static double partial(typename Arrays::table const& table, unsigned tensor,
                                               norm_part const& part, unsigned t) {
    double state = 0;
    for (unsigned index = part.begin; index < part.end; ++index) {
      state = How::both(state, of_chunk(table, tensor, index, t));
    }
    return state;
  }
};

// ---- The tables of a list, and the workspace ----

inline void check_norm_workspace(std::size_t has, std::size_t wants, char const* function,
                                 char const* told_by, source_location where) {
  if (has >= wants) return;
  refuse(
      "the workspace",
      text{"has "} + has + " bytes, but " + function + " wants " + wants + "; give it " + told_by,
      where);
}

// Calls with(fill, from): fill(table) fills the next table, whose first tensor is the list's
// number `from` where empty tensors are kept, and answers whether it is the last.
template <class T, class With>
void for_each_norm_table(tensor_list<T> const& list, bool keep_empty, With const& with) {
  using element = std::remove_const_t<T>;
  using arrays = tensor_arrays<element const>;
  auto const& all = list_access::tensors(list);
  std::size_t next = 0;
  do {
    std::size_t const from = next;
    with(
        [&](typename arrays::table& table) {
          next = fill_table(table, all.begin(), from, all.size(), arrays::vector,
                            norm_arrays<element, sum_of_squares>::tile, keep_empty);
          return next == all.size();
        },
        from);
  } while (next != all.size());
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
