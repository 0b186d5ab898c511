// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/detail/nodes/kernel_call.hpp>

#include <cstdlib>

WARPWRIGHT_BEGIN

namespace detail {

struct node_index {
  cudaGraphNode_t handle = nullptr;
  std::size_t index = 0;

  static int compare(void const* a, void const* b) noexcept {
    auto const x = reinterpret_cast<std::size_t>(static_cast<node_index const*>(a)->handle);
    auto const y = reinterpret_cast<std::size_t>(static_cast<node_index const*>(b)->handle);
    return x < y ? -1 : x > y ? 1 : 0;
  }
};

WARPWRIGHT_INLINE int compare_edges(void const* a, void const* b) noexcept {
  auto const& x = *static_cast<graph_structure::edge const*>(a);
  auto const& y = *static_cast<graph_structure::edge const*>(b);
  if (x.from != y.from) return x.from < y.from ? -1 : 1;
  return x.to < y.to ? -1 : x.to > y.to ? 1 : 0;
}

inline cudaError_t get_edges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                             std::size_t* count) {
#if CUDART_VERSION >= 12030
  // Kernels that may start early are connected by edges that a query without edge data refuses.
  array<cudaGraphEdgeData> data(from != nullptr ? *count : 0);
  cudaGraphEdgeData* const edge_data = from != nullptr ? data.begin() : nullptr;
#if CUDART_VERSION >= 13000
  return cudaGraphGetEdges(graph, from, to, edge_data, count);
#else
  return cudaGraphGetEdges_v2(graph, from, to, edge_data, count);
#endif
#else
  return cudaGraphGetEdges(graph, from, to, count);
#endif
}

// Sets the order and each node's level: nodes are taken when all that they depend on are.
inline void set_order(graph_structure& structure) {
  std::size_t const count = structure.nodes.size();
  array<std::size_t> open(count);  // dependencies that are not taken yet
  structure.order.reserve(count);
  std::size_t edge = 0;
  for (std::size_t i = 0; i < count; ++i) {
    open[i] = structure.nodes[i].dependencies;
    structure.nodes[i].first_edge = edge;
    edge += structure.nodes[i].dependents;
    if (open[i] == 0) structure.order.push_back(i);
  }
  for (std::size_t next = 0; next < structure.order.size(); ++next) {
    graph_structure::node const& node = structure.nodes[structure.order[next]];
    if (structure.levels < node.level + 1) structure.levels = node.level + 1;
    for (std::size_t e = node.first_edge; e < node.first_edge + node.dependents; ++e) {
      std::size_t const to = structure.edges[e].to;
      if (structure.nodes[to].level < node.level + 1) structure.nodes[to].level = node.level + 1;
      if (--open[to] == 0) structure.order.push_back(to);
    }
  }
}

WARPWRIGHT_INLINE array<cudaGraphNode_t> nodes_of(cudaGraph_t graph, source_location where) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes", where);
  array<cudaGraphNode_t> found(count);
  if (count > 0) {
    check(cudaGraphGetNodes(graph, found.begin(), &count), "cudaGraphGetNodes", where);
  }
  return found;
}

WARPWRIGHT_INLINE cudaGraphNodeType type_of(cudaGraphNode_t node, source_location where) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType", where);
  return type;
}

WARPWRIGHT_INLINE graph_structure structure_of(cudaGraph_t graph, source_location where) {
  graph_structure structure;
  array<cudaGraphNode_t> const handles = nodes_of(graph, where);
  std::size_t const count = handles.size();
  structure.nodes.resize(count);
  array<node_index> index(count);
  for (std::size_t i = 0; i < count; ++i) {
    structure.nodes[i].handle = handles[i];
    structure.nodes[i].type = type_of(handles[i], where);
    index[i] = node_index{handles[i], i};
  }
  if (count > 0) std::qsort(index.begin(), count, sizeof(node_index), &node_index::compare);

  std::size_t edges = 0;
  check(get_edges(graph, nullptr, nullptr, &edges), "cudaGraphGetEdges", where);
  array<cudaGraphNode_t> from(edges), to(edges);
  if (edges > 0) {
    check(get_edges(graph, from.begin(), to.begin(), &edges), "cudaGraphGetEdges", where);
  }
  structure.edges.resize(edges);
  auto const index_of = [&](cudaGraphNode_t handle) {
    node_index const wanted{handle, 0};
    auto const* found = static_cast<node_index const*>(
        std::bsearch(&wanted, index.begin(), count, sizeof(node_index), &node_index::compare));
    return found->index;  // both ends of an edge are nodes of the graph
  };
  for (std::size_t e = 0; e < edges; ++e) {
    structure.edges[e] = graph_structure::edge{index_of(from[e]), index_of(to[e])};
    ++structure.nodes[structure.edges[e].from].dependents;
    ++structure.nodes[structure.edges[e].to].dependencies;
  }
  if (edges > 0) {
    std::qsort(structure.edges.begin(), edges, sizeof(graph_structure::edge), &compare_edges);
  }
  set_order(structure);
  return structure;
}

WARPWRIGHT_INLINE std::string kernel_name(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  cudaError_t status = node != nullptr ? cudaGraphNodeGetType(node, &type) : cudaErrorInvalidValue;
  kernel_call call;
  if (status == cudaSuccess && type == cudaGraphNodeTypeKernel) status = read_kernel(node, call);
  if (node != nullptr) discard(status);
  char const* const name = call.kernel != nullptr ? call.name() : nullptr;
  return name != nullptr ? name : std::string{};
}

}  // namespace detail

WARPWRIGHT_END
