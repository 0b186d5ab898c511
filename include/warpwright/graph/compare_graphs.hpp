// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether two captures of the same code are the same graph: finds values that were captured and
// have changed since. For debugging.
#pragma once

#include <warpwright/graph/graph.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>

WARPWRIGHT_BEGIN

/// The first difference of two graphs.
struct graph_difference {
  bool found = false;
  std::size_t node = 0;          ///< the index of the node, in the order of the capture
  std::string kernel;            ///< the kernel of that node, mangled; "" for other nodes
  std::ptrdiff_t argument = -1;  ///< the index of the kernel's argument; -1: something else differs
  std::size_t offset = 0;        ///< the first byte of that argument that differs
  std::string text;              ///< what differs, in words

  explicit operator bool() const noexcept { return found; }
};

/// A captured step whose graph would be another one now: a value that its function uses, and that
/// is not among its arguments, has changed.
class graph_mismatch : public std::runtime_error {
 public:
  /// @param difference  copied
  explicit graph_mismatch(graph_difference const& difference, source_location where);
  /// @return where the graphs differ
  [[nodiscard]] graph_difference const& difference() const noexcept { return difference_; }

 private:
  graph_difference difference_;
};

/// Finds the first node of two graphs that differs: its type, kernel, grid, arguments, addresses,
/// events or sizes, or dependencies. Meant for two captures of the same code. Bodies of conditional
/// nodes are not compared, and with `again` an address of device memory that is another one in each
/// capture (buffers that the code swaps) is taken for temporary memory.
///
/// Padding of a structure that is a kernel's argument can be a difference where other code launches
/// the kernel, or clang compiled this file: give the structure members in the place of padding, or
/// compile with -ftrivial-auto-var-init=zero. In captures of the library, g++ and nvcc with g++ as
/// the host's compiler (11 or newer) write zeros there for kernels that the library launches.
/// @param before  a captured graph
/// @param now     a later capture
/// @param again   a further capture, right after `now`, while `now` exists: temporary memory of the
///   code has other addresses in each capture, and is recognised by that. Null: all that differs
///   counts
/// @return the difference; not found, if the graphs are equal. Kernels' arguments are compared with
///   CUDA 12.4 and newer
/// @throws cuda_error  when a query fails
/// **Stream:** does not block. **Capture:** legal. **Cost:** several CUDA calls a node.
[[nodiscard]] graph_difference compare_graphs(graph const& before, graph const& now,
                                              graph const* again = nullptr,
                                              source_location where = source_location::current());

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/compare_graphs_definitions.hpp>
#endif
