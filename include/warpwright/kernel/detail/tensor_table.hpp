// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors of a list as one kernel sees them: a table in its arguments, and chunks, one a block, of
// which every tensor has as many as it needs. Plain code over addresses and sizes; needs no GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <warpwright/core/detail/array.hpp>
#include <warpwright/kernel/detail/plan.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// What a kernel's arguments can hold: 32,764 bytes since CUDA 12.1 on sm_70 and newer, 4,096 before
// (CUDA C++ Programming Guide, "Function Parameters"). The rest is the function's.
inline constexpr std::size_t table_bytes = CUDART_VERSION >= 12010 ? 31744 : 3072;
inline constexpr std::size_t table_function_bytes = 1000;

inline constexpr unsigned table_threads = 256;
// A chunk has several tiles, so that finding its tensor is paid for once, where that leaves chunks
// for a few dozen waves of blocks: the last of them ends soon after the others.
inline constexpr unsigned most_tiles_a_chunk = 8;
inline constexpr std::uint64_t enough_chunks = 16384;
inline constexpr std::uint64_t most_chunks = 0x7fffffff;  // of a grid
inline constexpr std::uint64_t most_tensor_elements = std::uint64_t{1} << 40U;

/// One tensor of a list: element i of each of its arrays belongs to element i of the others.
template <int Arrays>
struct listed_tensor {
  void* data[Arrays];
  std::uint64_t size;
  std::uint32_t wide;  ///< bit k: array k is moved by vector accesses
  std::uint32_t head;  ///< elements before the first vector
};

/// Answers how many vectors a tensor has behind its head.
template <int Arrays>
WARPWRIGHT_HOST_DEVICE constexpr std::uint64_t vectors_of(listed_tensor<Arrays> const& tensor,
                                                          unsigned vector) {
  return (tensor.size - tensor.head) / vector;
}

constexpr std::uint64_t quotient_up(std::uint64_t dividend, std::uint64_t divisor) {
  return (dividend + divisor - 1) / divisor;  // no overflow: elements are counted up to 2^40
}

/// Answers how many chunks of `chunk` vectors a tensor takes: none when empty, one at the least
/// otherwise, whose block also takes the elements in no vector.
template <int Arrays>
constexpr std::uint64_t chunks_of(listed_tensor<Arrays> const& tensor, unsigned vector,
                                  std::uint64_t chunk) {
  if (tensor.size == 0) return 0;
  std::uint64_t const chunks = quotient_up(vectors_of(tensor, vector), chunk);
  return chunks == 0 ? 1 : chunks;
}

/// Answers how many tiles a chunk is to have, a power of two, for tensors of `tiles` together.
constexpr unsigned tiles_a_chunk(std::uint64_t tiles) {
  unsigned count = 1;
  while (count < most_tiles_a_chunk && tiles / (2 * count) >= enough_chunks) count *= 2;
  return count;
}

/// A kernel's argument: neighbours in a list.
template <int Arrays>
struct tensor_table {
  static constexpr unsigned capacity = static_cast<unsigned>(
      (table_bytes - 4 * sizeof(unsigned)) / (sizeof(listed_tensor<Arrays>) + sizeof(unsigned)));

  listed_tensor<Arrays> tensors[capacity];
  unsigned first_chunk[capacity];  ///< of each tensor
  unsigned count;
  unsigned chunks;         ///< of all tensors
  unsigned chunk;          ///< vectors of a chunk
  unsigned search_stride;  ///< largest power of two below `count`, or 0

  /// Answers which tensor a chunk is of.
  WARPWRIGHT_HOST_DEVICE constexpr unsigned tensor_of(unsigned index) const {
    unsigned k = 0;
    for (unsigned stride = search_stride; stride != 0; stride /= 2) {
      if (k + stride < count && first_chunk[k + stride] <= index) k += stride;
    }
    return k;
  }
};

/// Fills a table with the tensors from all[from] on, as many as it holds.
/// @param chunk       vectors of a chunk, below 2^32
/// @param keep_empty  gives empty tensors a place and a chunk of nothing, else they are left out
/// @return the index of the first tensor that is left for the next table, or `size`
template <int Arrays>
constexpr std::size_t fill_table(tensor_table<Arrays>& table, listed_tensor<Arrays> const* all,
                                 std::size_t from, std::size_t size, unsigned vector,
                                 std::uint64_t chunk, bool keep_empty = false) {
  table.count = 0;
  table.chunk = static_cast<unsigned>(chunk);
  std::uint64_t chunks = 0;
  for (; from != size; ++from) {
    std::uint64_t more = chunks_of(all[from], vector, chunk);
    if (more == 0 && !keep_empty) continue;
    if (more == 0) more = 1;
    if (table.count == table.capacity || chunks + more > most_chunks) break;
    table.tensors[table.count] = all[from];
    table.first_chunk[table.count++] = static_cast<unsigned>(chunks);
    chunks += more;
  }
  table.chunks = static_cast<unsigned>(chunks);
  table.search_stride = 1;
  while (table.search_stride < table.count) table.search_stride *= 2;
  table.search_stride /= 2;
  return from;
}

/// Answers how many vectors a chunk is to have, for tiles of `tile` vectors.
template <int Arrays>
constexpr std::uint64_t chunk_for(listed_tensor<Arrays> const* all, std::size_t size,
                                  unsigned vector, unsigned tile) {
  std::uint64_t tiles = 0;
  for (std::size_t k = 0; k < size; ++k) tiles += chunks_of(all[k], vector, tile);
  return std::uint64_t{tile} * tiles_a_chunk(tiles);
}

/// An array of a tensor as the checks see it.
struct listed_array {
  std::uint64_t address;
  unsigned element_bytes;
  unsigned aligned_bytes;  ///< what a vector access of it needs
  unsigned natural_bytes;  ///< alignment of one element
  bool written;
};

/// Refuses arrays that cannot be one tensor's.
/// @param tensor  its number in the list, counted from 1
/// @throws std::invalid_argument  naming the tensor, the array, the value and the remedy
inline void check_tensor(listed_array const* arrays, int count, std::uint64_t size,
                         std::size_t tensor, source_location where) {
  if (size == 0) return;
  auto const name = [&](int k) { return text{"tensor "} + tensor + ", array " + (k + 1); };
  if (size > most_tensor_elements) {
    refuse(text{"tensor "} + tensor,
           text{"has "} + as_given(size) + " elements; a tensor has 0 to 2^40, counted in elements",
           where);
  }
  for (int k = 0; k < count; ++k) {
    listed_array const& a = arrays[k];
    if (a.address == 0) {
      refuse(name(k), text{"is a null pointer for "} + size + " elements; pass device memory",
             where);
    }
    if (a.address % a.natural_bytes != 0) {
      refuse(name(k),
             text{"is at address "} + a.address + ", not a multiple of its element's " +
                 a.natural_bytes + " bytes; pass a pointer to whole elements of this type",
             where);
    }
    for (int j = 0; j < k; ++j) {
      listed_array const& b = arrays[j];
      if (!a.written && !b.written) continue;
      bool const in_place =
          a.written != b.written && a.address == b.address && a.element_bytes == b.element_bytes;
      std::uint64_t const a_bytes = size * a.element_bytes;
      std::uint64_t const b_bytes = size * b.element_bytes;
      if (in_place || a.address >= b.address + b_bytes || b.address >= a.address + a_bytes) {
        continue;
      }
      bool const before = a.address < b.address;
      refuse(name(k),
             text{"spans "} + a_bytes + " bytes that overlap array " + (j + 1) + "'s " + b_bytes +
                 ", starting " + (before ? b.address - a.address : a.address - b.address) +
                 (before ? " bytes before it" : " bytes into it") +
                 "; give what is written memory of its own, or list it once, as an array that is "
                 "read and written",
             where);
    }
  }
}

/// What the tensors of a list write, so that nothing is written twice in one pass.
class written_ranges {
 public:
  /// @throws std::bad_alloc  and nothing has changed
  void reserve(std::size_t more) { ranges_.reserve(ranges_.size() + more); }
  /// @throws std::invalid_argument  when the array overlaps one that was added
  void check(listed_array const& a, int array, std::uint64_t size, std::size_t tensor,
             source_location where) const {
    std::size_t const k = place_of(a.address);
    if (k == ranges_.size() || ranges_[k].begin >= a.address + size * a.element_bytes) return;
    refuse(text{"tensor "} + tensor + ", array " + array,
           text{"overlaps tensor "} + ranges_[k].tensor + "'s array " + ranges_[k].array +
               ", and both are written; list every tensor once",
           where);
  }
  /// @pre reserved, checked and not empty
  void add(listed_array const& a, int array, std::uint64_t size, std::size_t tensor) {
    std::size_t const place = place_of(a.address);
    ranges_.push_back({});
    for (std::size_t k = ranges_.size() - 1; k != place; --k) ranges_[k] = ranges_[k - 1];
    ranges_[place] = {a.address, a.address + size * a.element_bytes, tensor, array};
  }
  void clear() noexcept { ranges_.clear(); }

 private:
  struct range {
    std::uint64_t begin;
    std::uint64_t end;
    std::size_t tensor;
    int array;
  };
  // The first range that ends behind an address.
  [[nodiscard]] std::size_t place_of(std::uint64_t address) const {
    std::size_t begin = 0;
    std::size_t end = ranges_.size();
    while (begin != end) {
      std::size_t const middle = begin + (end - begin) / 2;
      if (ranges_[middle].end > address) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    return begin;
  }
  warpwright::detail::array<range> ranges_;  // in the order of their addresses
};

/// Sets `wide` and `head`, so that most bytes are moved by vector accesses.
template <int Arrays>
void set_moves(listed_tensor<Arrays>& tensor, listed_array const* arrays, unsigned vector) {
  tensor.wide = 0;
  tensor.head = 0;
  if (tensor.size == 0) return;
  operand all[Arrays];
  for (int k = 0; k < Arrays; ++k) {
    all[k].element_bytes = arrays[k].element_bytes;
    all[k].aligned_bytes = arrays[k].aligned_bytes;
    all[k].natural_bytes = arrays[k].natural_bytes;
    all[k].address = arrays[k].address;
    all[k].count = tensor.size;
  }
  schedule const deal = make_plan(all, Arrays, tensor.size, vector, 1).deal;
  tensor.wide = static_cast<std::uint32_t>(deal.wide);
  tensor.head = deal.head;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
