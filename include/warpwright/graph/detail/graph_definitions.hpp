// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/graph.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE std::size_t& counter(graph_node_counts& counts, cudaGraphNodeType type) noexcept {
  switch (static_cast<int>(type)) {  // a later toolkit may have more
    case cudaGraphNodeTypeKernel:
      return counts.kernels;
    case cudaGraphNodeTypeMemcpy:
      return counts.copies;
    case cudaGraphNodeTypeMemset:
      return counts.fills;
    case cudaGraphNodeTypeHost:
      return counts.host_calls;
    case cudaGraphNodeTypeMemAlloc:
      return counts.allocations;
    case cudaGraphNodeTypeMemFree:
      return counts.deallocations;
    case cudaGraphNodeTypeWaitEvent:
    case cudaGraphNodeTypeEventRecord:
      return counts.events;
    case cudaGraphNodeTypeGraph:
      return counts.child_graphs;
    default:
      return counts.other;
  }
}

}  // namespace detail

WARPWRIGHT_INLINE graph_node_counts graph::node_counts(source_location where) const {
  graph_node_counts counts;
  for (cudaGraphNode_t const node : detail::nodes_of(handle_, where)) {
    ++detail::counter(counts, detail::type_of(node, where));
  }
  return counts;
}

WARPWRIGHT_END
