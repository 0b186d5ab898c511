// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/graph.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE std::size_t& counter(graph_node_counts& counts, cudaGraphNodeType type) noexcept {
  using count_of = std::size_t graph_node_counts::*;  // nvcc writes such a member in parentheses
  struct kind {
    cudaGraphNodeType type;
    count_of count;
  };
  constexpr kind kinds[] = {{cudaGraphNodeTypeKernel, &graph_node_counts::kernels},
                            {cudaGraphNodeTypeMemcpy, &graph_node_counts::copies},
                            {cudaGraphNodeTypeMemset, &graph_node_counts::fills},
                            {cudaGraphNodeTypeHost, &graph_node_counts::host_calls},
                            {cudaGraphNodeTypeMemAlloc, &graph_node_counts::allocations},
                            {cudaGraphNodeTypeMemFree, &graph_node_counts::deallocations},
                            {cudaGraphNodeTypeWaitEvent, &graph_node_counts::events},
                            {cudaGraphNodeTypeEventRecord, &graph_node_counts::events},
                            {cudaGraphNodeTypeGraph, &graph_node_counts::child_graphs}};
  for (kind const& each : kinds) {
    if (each.type == type) return counts.*each.count;
  }
  return counts.other;
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
