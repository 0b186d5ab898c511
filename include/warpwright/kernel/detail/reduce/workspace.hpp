// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The device memory that reductions and norms work in: its preparation, its checks, and a
// block of a pool that replaces it.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/kernel/detail/plan/operand_checks.hpp>

#include <cstddef>
#include <cstring>

WARPWRIGHT_BEGIN

namespace ew {

namespace detail {

// Tickets, one for each tile of columns or group of blocks that share a tensor; 0 between launches.
inline constexpr std::size_t workspace_head_bytes = 2048;

constexpr std::size_t round_up_to_16(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

void check_workspace(std::size_t bytes, std::size_t needed, source_location where,
                     char const* size_function = "reduction_workspace_bytes()");

}  // namespace detail

/// Device memory that reduce() works in, prepared by prepare_workspace(). Does not own it.
class reduction_workspace {
 public:
  /// @return the memory given to prepare_workspace()
  [[nodiscard]] void* data() const noexcept { return data_; }
  /// @return its size in bytes
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_; }

 private:
  friend reduction_workspace prepare_workspace(stream_ref, void*, std::size_t, source_location);
  reduction_workspace(void* data, std::size_t bytes) : data_{data}, bytes_{bytes} {}
  void* data_;
  std::size_t bytes_;
};

/// Makes a workspace of device memory, once for any number of reduce() after each other.
/// @pre the memory stays alive, and untouched by others, while it is used
/// @param stream  the first reduce() is on this stream, or ordered behind it
/// @param data    aligned to 16 bytes
/// @param bytes   reduction_workspace_bytes() or more
/// @throws std::invalid_argument  for a null or misaligned pointer, or fewer than 2048 bytes
/// @throws cuda_error             when the memset fails
/// **Stream:** a memset of a few bytes, ordered on `stream`; does not block. **Threads:** any.
/// **Capture:** legal; the graph then prepares the workspace at every launch.
reduction_workspace prepare_workspace(stream_ref stream, void* data, std::size_t bytes,
                                      source_location where = source_location::current());

namespace detail {

// Where a result goes.
struct memory_range {
  std::uint64_t address;
  std::uint64_t bytes;
  unsigned alignment;
  [[nodiscard]] constexpr byte_range range() const { return {address, address + bytes}; }
};

// Refuses results that overlap each other or the workspace.
void check_result_ranges(memory_range const* results, int count, void const* workspace,
                         std::uint64_t workspace_bytes, source_location where);

// Refuses results that overlap what other blocks may still read.
void check_results_disjoint(memory_range const* results, int count, operand const* operands,
                            int operand_count, std::uint64_t n, source_location where);

// Refuses what expressions read beside reductions, from operand 1 on, and does not fit.
void check_operands_of_results(operand* operands, int operand_count, memory_range const* results,
                               int count, std::uint64_t length, source_location where);

// The workspace of a call on the calling thread.
class host_workspace {
 public:
  explicit host_workspace(std::size_t bytes) : memory_(bytes) {
    std::memset(memory_.begin(), 0, bytes < workspace_head_bytes ? bytes : workspace_head_bytes);
  }
  [[nodiscard]] void* data() { return memory_.begin(); }

 private:
  warpwright::detail::array<unsigned char> memory_;  // aligned as by malloc()
};

// The states that blocks leave in a workspace, behind the tickets; null of none.
template <class States>
States* states_in(void* workspace) {
  auto* const head = static_cast<unsigned char*>(workspace);
  return head == nullptr ? nullptr : reinterpret_cast<States*>(head + workspace_head_bytes);
}

// A block of a pool for one call, freed on the stream even when the call throws.
template <class Pool>
class workspace_block {
 public:
  workspace_block(Pool& pool, stream_ref stream, std::size_t bytes, source_location where)
      : pool_{pool}, stream_{stream}, bytes_{bytes}, data_{allocate(where, 0)} {}
  workspace_block(workspace_block const&) = delete;
  workspace_block& operator=(workspace_block const&) = delete;
  ~workspace_block() {
    try {
      pool_.deallocate(stream_, data_, bytes_);
    } catch (...) {  // the first error is reported
    }
  }
  [[nodiscard]] void* data() const { return data_; }

 private:
  // Passes the caller's source location on if the pool takes one, as memory_pool does.
  template <class P = Pool>
  auto allocate(source_location where, int)
      -> decltype(std::declval<P&>().allocate(std::declval<stream_ref>(), 1U,
                                              P::block_alignment_bytes, where)) {
    return pool_.allocate(stream_, bytes_, P::block_alignment_bytes, where);
  }
  void* allocate(source_location, long) { return pool_.allocate(stream_, bytes_); }

  Pool& pool_;
  stream_ref stream_;
  std::size_t bytes_;
  void* data_;
};

template <class Pool>
using if_pool = decltype(std::declval<Pool&>().deallocate(
    std::declval<stream_ref>(), std::declval<Pool&>().allocate(std::declval<stream_ref>(), 1U),
    1U));

template <class Memory>
inline constexpr bool is_workspace = std::is_same<std::decay_t<Memory>, reduction_workspace>::value;
template <class Memory, class = void>
inline constexpr bool is_memory = is_workspace<Memory>;
template <class Pool>
inline constexpr bool is_memory<Pool, std::void_t<if_pool<Pool>>> = true;
template <class Memory>
using if_memory = std::enable_if_t<is_memory<Memory>>;

// Calls use(workspace) with a workspace, or with one made of a block of a pool.
template <class Memory, class Use>
auto with_workspace(stream_ref stream, Memory& memory, std::size_t bytes, source_location where,
                    Use const& use) {
  if constexpr (is_workspace<Memory>) {
    return use(memory);
  } else {
    workspace_block<Memory> const block{memory, stream, bytes, where};
    return use(prepare_workspace(stream, block.data(), bytes, where));
  }
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/reduce/workspace_definitions.hpp>
#endif
