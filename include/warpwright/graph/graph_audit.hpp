// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/graph.hpp>

#include <string>

WARPWRIGHT_BEGIN

/// What a graph is made of, and what in it is likely to be a mistake or slow. From audit().
struct graph_audit {
  graph_node_counts counts;      ///< nodes by kind, those of child graphs included
  std::size_t conditionals = 0;  ///< conditional nodes, a part of counts.other; bodies not included
  std::size_t edges = 0;         ///< dependencies
  std::size_t longest_path = 0;  ///< the most nodes that run one after another
  bool straight_line = true;     ///< whether each node runs alone
  std::size_t pageable_copies = 0;      ///< copies from or to pageable host memory
  std::size_t allocated_bytes = 0;      ///< of memory allocation nodes
  std::size_t unfreed_allocations = 0;  ///< that no node of the graph frees

  /// @return whether there are no nodes
  [[nodiscard]] bool empty() const noexcept { return counts.total() == 0; }
  /// @return whether to_text() has a finding that asks for a change
  [[nodiscard]] bool clean() const noexcept {
    return !empty() && pageable_copies == 0 && counts.allocations == 0 &&
           counts.deallocations == 0 && counts.host_calls == 0;
  }
  /// @return one line of figures, and one for each finding, with its remedy
  [[nodiscard]] std::string to_text() const;
};

/// Reads a graph, for reports.
/// @param source  a captured graph; its child graphs are read, conditional nodes' bodies are not
/// @throws cuda_error  when a query fails
/// **Capture:** legal. **Cost:** a few CUDA calls a node; for reports, not for hot loops.
[[nodiscard]] graph_audit audit(graph const& source,
                                source_location where = source_location::current());

/// Draws a graph: a box a node, those that can run concurrently beside each other, time from top to
/// bottom. A box's title, which browsers show under the pointer, has the kernel's full name.
/// @param source  a captured graph; a child graph or a conditional node is one box
/// @return an SVG document
/// @throws cuda_error  when a query fails
/// **Capture:** legal. **Cost:** a few CUDA calls a node; for reports.
[[nodiscard]] std::string to_svg(graph const& source,
                                 source_location where = source_location::current());

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/graph_audit_definitions.hpp>
#endif
