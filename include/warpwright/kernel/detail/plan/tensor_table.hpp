// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a list as one kernel takes them: a table in the kernel's arguments, and chunks,
// one a block. Plain code over addresses and sizes; needs no GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/operand_checks.hpp>
#include <warpwright/kernel/detail/plan/partition.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace ew::detail {

// A kernel's arguments hold 32,764 bytes since CUDA 12.1 on sm_70 and newer, 4,096 before (CUDA C++
// Programming Guide, "Function Parameters"). A function of the user takes what the table leaves.
inline constexpr std::size_t table_kernel_bytes = CUDART_VERSION >= 12010 ? 32764 : 4096;
inline constexpr std::size_t table_bytes = CUDART_VERSION >= 12010 ? 31744 : 3072;
inline constexpr std::size_t table_function_bytes = 1000;

inline constexpr unsigned table_threads = 256;
// A chunk has several tiles, so that its tensor is searched for once, where that leaves enough
// chunks for a few dozen waves of blocks: the blocks of the last wave end soon after the others.
inline constexpr unsigned max_tiles_per_chunk = 8;
inline constexpr std::uint64_t target_chunks = 16384;
inline constexpr std::uint64_t max_chunks = 0x7fffffff;  // of a grid
inline constexpr std::uint64_t max_tensor_elements = std::uint64_t{1} << 40U;

/// One tensor of a list: element i of each of its arrays belongs to element i of the others.
template <int Arrays>
struct listed_tensor {
  c_array<void*, Arrays> data;
  std::uint64_t size;
  std::uint32_t wide;  ///< bit k: array k is moved by vectors
  std::uint32_t head;  ///< elements before the first vector
};

/// The vectors of a tensor behind its head.
template <int Arrays>
WARPWRIGHT_HOST_DEVICE constexpr std::uint64_t vectors_of(listed_tensor<Arrays> const& tensor,
                                                          unsigned vector) {
  return (tensor.size - tensor.head) / vector;
}

/// The chunks of `chunk` vectors that a tensor takes: none when empty, otherwise at least one,
/// whose block also takes the elements in no vector.
template <int Arrays>
constexpr std::uint64_t chunks_of(listed_tensor<Arrays> const& tensor, unsigned vector,
                                  std::uint64_t chunk) {
  if (tensor.size == 0) return 0;
  std::uint64_t const vectors = vectors_of(tensor, vector);
  return vectors == 0 ? 1 : divide_up(vectors, chunk);
}

/// The tiles of a chunk, a power of two, where the tensors have `tiles` together.
constexpr unsigned tiles_per_chunk(std::uint64_t tiles) {
  unsigned count = 1;
  while (count < max_tiles_per_chunk && tiles / (2 * count) >= target_chunks) count *= 2;
  return count;
}

/// Consecutive tensors of a list, as an argument of a kernel.
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

  /// The tensor that a chunk is of.
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
/// @param keep_empty  whether an empty tensor takes an entry and an empty chunk, or is left out
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
    if (table.count == table.capacity || chunks + more > max_chunks) break;
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

/// Zeroes the entries that no tensor takes while a capture may be under way: compare_graphs() looks
/// at all of a captured kernel's arguments.
template <int Arrays>
void clear_unused_if_capturing(tensor_table<Arrays>& table) noexcept {
  if (!warpwright::detail::may_be_capturing_anywhere()) return;
  for (unsigned k = table.count; k < table.capacity; ++k) {
    table.tensors[k] = listed_tensor<Arrays>{};
    table.first_chunk[k] = 0;
  }
}

/// The vectors of a chunk, where a tile has `tile` vectors.
template <int Arrays>
constexpr std::uint64_t chunk_for(listed_tensor<Arrays> const* all, std::size_t size,
                                  unsigned vector, unsigned tile) {
  std::uint64_t tiles = 0;
  for (std::size_t k = 0; k < size; ++k) tiles += chunks_of(all[k], vector, tile);
  return std::uint64_t{tile} * tiles_per_chunk(tiles);
}

constexpr bool is_written(std::uint32_t written, int array) {
  return (written >> static_cast<unsigned>(array) & 1U) != 0;
}

/// Refuses arrays that cannot be those of one tensor.
/// @param tensor  its number in the list, counted from 1
/// @throws std::invalid_argument  naming the tensor, the array, the value and the remedy
void check_tensor(operand const* arrays, int count, std::uint32_t written, std::size_t tensor,
                  source_location where);

/// The memory that the tensors of a list write, so that no element is written twice in one pass.
class written_ranges {
 public:
  /// @throws std::bad_alloc  and nothing has changed
  void reserve(std::size_t more) { ranges_.reserve(ranges_.size() + more); }
  /// @throws std::invalid_argument  when the array overlaps one that was added
  void check(operand const& a, int array, std::size_t tensor, source_location where) const {
    std::size_t const k = first_behind(a.address);
    if (k == ranges_.size() || !overlap(ranges_[k].bytes, bytes_of(a, a.count))) return;
    refuse(text{"tensor "} + tensor + ", array " + array,
           text{"overlaps tensor "} + ranges_[k].tensor + "'s array " + ranges_[k].array +
               ", and both are written; list every tensor once",
           where);
  }
  /// @pre reserved, checked and not empty
  void add(operand const& a, int array, std::size_t tensor) {
    std::size_t const position = first_behind(a.address);
    ranges_.push_back({});
    for (std::size_t k = ranges_.size() - 1; k != position; --k) ranges_[k] = ranges_[k - 1];
    ranges_[position] = {bytes_of(a, a.count), tensor, array};
  }
  void clear() noexcept { ranges_.clear(); }

 private:
  struct range {
    byte_range bytes;
    std::size_t tensor;
    int array;
  };
  // The first range that ends behind an address.
  [[nodiscard]] std::size_t first_behind(std::uint64_t address) const {
    std::size_t begin = 0;
    std::size_t end = ranges_.size();
    while (begin != end) {
      std::size_t const middle = begin + (end - begin) / 2;
      if (ranges_[middle].bytes.end > address) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    return begin;
  }
  warpwright::detail::array<range> ranges_;  // in the order of their addresses
};

}  // namespace ew::detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/plan/tensor_table_definitions.hpp>
#endif
