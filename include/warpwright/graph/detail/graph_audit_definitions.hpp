// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/graph_audit.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Whether a copy's pointer is pageable host memory. Memory that the driver does not know is.
WARPWRIGHT_INLINE bool is_pageable(void const* pointer) noexcept {
  if (pointer == nullptr) return false;  // a CUDA array
  cudaPointerAttributes attributes{};
  return discard(cudaPointerGetAttributes(&attributes, pointer)) == cudaSuccess &&
         attributes.type == cudaMemoryTypeUnregistered;
}

WARPWRIGHT_INLINE void audit_node(graph_audit& result, cudaGraphNode_t node,
                                  cudaGraphNodeType type) {
  if (type == cudaGraphNodeTypeMemcpy) {
    cudaMemcpy3DParms copy{};
    // It fails for copies of symbols.
    if (discard(cudaGraphMemcpyNodeGetParams(node, &copy)) != cudaSuccess) return;
    if (is_pageable(copy.srcPtr.ptr) || is_pageable(copy.dstPtr.ptr)) ++result.pageable_copies;
  } else if (type == cudaGraphNodeTypeMemAlloc) {
    cudaMemAllocNodeParams allocation{};
    discard(cudaGraphMemAllocNodeGetParams(node, &allocation));
    result.allocated_bytes += allocation.bytesize;
  } else if (static_cast<int>(type) == 13) {  // conditional; older toolkits have no name for it
    ++result.conditionals;
  }
}

/// @return the most nodes that run one after another, those of child graphs included
WARPWRIGHT_INLINE std::size_t audit_graph(graph_audit& result, cudaGraph_t graph,
                                          source_location where) {
  graph_structure const structure = structure_of(graph, where);
  result.edges += structure.edges.size();
  // Without concurrency there are as many levels as nodes.
  if (structure.levels != structure.nodes.size()) result.straight_line = false;
  array<std::size_t> before(structure.nodes.size());  // the longest path to each node
  std::size_t longest = 0;
  for (std::size_t const i : structure.order) {
    graph_structure::node const& node = structure.nodes[i];
    ++counter(result.counts, node.type);
    audit_node(result, node.handle, node.type);
    std::size_t length = 1;
    if (node.type == cudaGraphNodeTypeGraph) {
      cudaGraph_t child = nullptr;
      check(cudaGraphChildGraphNodeGetGraph(node.handle, &child), "cudaGraphChildGraphNodeGetGraph",
            where);
      length = audit_graph(result, child, where);
    }
    std::size_t const path = before[i] + length;
    if (longest < path) longest = path;
    for (std::size_t e = node.first_edge; e < node.first_edge + node.dependents; ++e) {
      std::size_t& next = before[structure.edges[e].to];
      if (next < path) next = path;
    }
  }
  return longest;
}

WARPWRIGHT_INLINE void append_count(string_builder& line, std::size_t count, char const* what) {
  if (count > 0) line += string_builder{line.empty() ? "" : ", "} + count + " " + what;
}

}  // namespace detail

WARPWRIGHT_INLINE graph_audit audit(graph const& source, source_location where) {
  detail::relaxed_capture_mode const allowed{where};
  graph_audit result;
  result.longest_path = detail::audit_graph(result, source.get(), where);
  if (result.counts.allocations > result.counts.deallocations) {
    result.unfreed_allocations = result.counts.allocations - result.counts.deallocations;
  }
  return result;
}

WARPWRIGHT_INLINE std::string graph_audit::to_text() const {
  detail::string_builder kinds;
  detail::append_count(kinds, counts.kernels, "kernels");
  detail::append_count(kinds, counts.copies, "copies");
  detail::append_count(kinds, counts.fills, "fills");
  detail::append_count(kinds, counts.host_calls, "host functions");
  detail::append_count(kinds, counts.allocations, "allocations");
  detail::append_count(kinds, counts.deallocations, "frees");
  detail::append_count(kinds, counts.events, "event nodes");
  detail::append_count(kinds, counts.child_graphs, "child graphs");
  detail::append_count(kinds, conditionals, "conditional nodes");
  detail::append_count(kinds, counts.other - conditionals, "empty and other nodes");
  detail::string_builder all =
      detail::string_builder{"graph of "} + counts.total() +
      " nodes: " + (empty() ? detail::string_builder{"none"} : kinds) + "; " + edges +
      " dependencies, longest path " + longest_path +
      (straight_line ? ", a straight line\n" : ", with branches that can run concurrently\n");
  if (empty()) {
    all +=
        "- nothing was captured: the work went to another stream than the capturing one, or the "
        "body enqueued none\n";
  }
  if (pageable_copies > 0) {
    all += detail::string_builder{"- "} + pageable_copies +
           " copies from or to pageable memory: each launch accesses that memory again, so it must "
           "stay allocated; copy from page-locked memory (pinned_buffer), or use a graph_param\n";
  }
  if (counts.allocations > 0) {
    all += detail::string_builder{"- "} + counts.allocations + " memory allocation nodes, " +
           allocated_bytes +
           " bytes: a library that allocates its workspace in the body (cuBLAS without "
           "cublasSetWorkspace), or cudaMallocAsync; allocate before the capture or from a "
           "memory_pool\n";
  }
  if (unfreed_allocations > 0) {
    all += detail::string_builder{"- "} + unfreed_allocations +
           " of them are not freed in the graph: a second launch fails unless the program frees "
           "them, or the graph is instantiated with auto_free_on_launch\n";
  }
  if (counts.deallocations > counts.allocations) {
    all += detail::string_builder{"- "} + (counts.deallocations - counts.allocations) +
           " free nodes of memory that the graph does not allocate: a second launch fails, unless "
           "another graph allocates it again; free outside of the capture\n";
  }
  if (counts.host_calls > 0) {
    all +=
        detail::string_builder{"- "} + counts.host_calls +
        " host functions: the device waits for a thread of the CPU each time; they must not call "
        "CUDA\n";
  }
  return all;
}

WARPWRIGHT_END
