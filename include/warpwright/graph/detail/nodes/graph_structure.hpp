// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

/// The nodes of a graph, in CUDA's order, and the dependencies between them.
struct graph_structure {
  struct node {
    cudaGraphNode_t handle = nullptr;
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    std::size_t level = 0;  // the most nodes that run before it, one after another
    std::size_t dependencies = 0;
    std::size_t dependents = 0;
    std::size_t first_edge = 0;  // its dependents' edges
  };
  struct edge {
    std::size_t from = 0;  // indices of nodes
    std::size_t to = 0;
  };
  array<node> nodes;
  array<edge> edges;         // in the order of `from`
  array<std::size_t> order;  // indices of nodes, each behind those that it depends on
  std::size_t levels = 0;
};

/// What the stack is filled with before the last two captures that are compared.
inline constexpr unsigned char stack_fill_now = 0;
inline constexpr unsigned char stack_fill_again = 0xA5;

/// The handles of a graph's nodes, in CUDA's order.
array<cudaGraphNode_t> nodes_of(cudaGraph_t graph, source_location where);
cudaGraphNodeType type_of(cudaGraphNode_t node, source_location where);
/// Orders edges by `from`, then `to`, for qsort().
int compare_edges(void const* a, void const* b) noexcept;
/// Reads a graph. Its child graphs and conditional nodes' bodies are not read.
/// @throws cuda_error  when a query fails
graph_structure structure_of(cudaGraph_t graph, source_location where);

/// The name of a kernel node's kernel, as the compiler mangled it; empty for other nodes, or where
/// the driver does not tell (CUDA older than 12.3).
std::string kernel_name(cudaGraphNode_t node);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/nodes/graph_structure_definitions.hpp>
#endif
