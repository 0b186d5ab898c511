// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/text/kernel_label.hpp>
#include <warpwright/core/detail/text/markup.hpp>
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

// ---- drawings

namespace detail {

struct svg_node {
  string_builder label;    // in the box
  string_builder details;  // shown under the mouse pointer
  char const* colour = "#e0e0e0";
};

WARPWRIGHT_INLINE svg_node describe_kernel(cudaGraphNode_t node) {
  std::string const mangled = kernel_name(node);
  if (mangled.empty()) return {"kernel", "kernel", "#bbdefb"};
  return {kernel_label(mangled), demangled(mangled), "#bbdefb"};
}

WARPWRIGHT_INLINE svg_node describe_copy(cudaGraphNode_t node) {
  cudaMemcpy3DParms copy{};
  cudaError_t const status = discard(cudaGraphMemcpyNodeGetParams(node, &copy));
  if (status != cudaSuccess) return {"copy", "copy", "#c8e6c9"};
  char const* direction = "";
  switch (static_cast<int>(copy.kind)) {
    case cudaMemcpyHostToDevice:
      direction = " to the device";
      break;
    case cudaMemcpyDeviceToHost:
      direction = " to the host";
      break;
    default:
      break;
  }
  std::size_t const bytes = copy.extent.width * copy.extent.height * copy.extent.depth;
  string_builder const what = string_builder{"copy "} + bytes + " B" + direction;
  return {what, what, "#c8e6c9"};
}

WARPWRIGHT_INLINE svg_node describe_fill(cudaGraphNode_t node) {
  cudaMemsetParams fill{};
  cudaError_t const status = discard(cudaGraphMemsetNodeGetParams(node, &fill));
  if (status != cudaSuccess) return {"fill", "fill", "#dcedc8"};
  string_builder const what =
      string_builder{"fill "} + fill.width * fill.height * fill.elementSize + " B";
  return {what, what, "#dcedc8"};
}

WARPWRIGHT_INLINE svg_node describe_child(cudaGraphNode_t node, source_location where) {
  cudaGraph_t child = nullptr;
  check(cudaGraphChildGraphNodeGetGraph(node, &child), "cudaGraphChildGraphNodeGetGraph", where);
  std::size_t count = 0;
  check(cudaGraphGetNodes(child, nullptr, &count), "cudaGraphGetNodes", where);
  string_builder const what = string_builder{"child graph, "} + count + " nodes";
  return {what, what, "#f8bbd0"};
}

WARPWRIGHT_INLINE svg_node describe_node(graph_structure::node const& node, source_location where) {
  switch (static_cast<int>(node.type)) {  // a later toolkit may have more
    case cudaGraphNodeTypeKernel:
      return describe_kernel(node.handle);
    case cudaGraphNodeTypeMemcpy:
      return describe_copy(node.handle);
    case cudaGraphNodeTypeMemset:
      return describe_fill(node.handle);
    case cudaGraphNodeTypeGraph:
      return describe_child(node.handle, where);
    case cudaGraphNodeTypeHost:
      return {"host function", "host function", "#ffe0b2"};
    case cudaGraphNodeTypeMemAlloc:
      return {"allocation", "memory allocation", "#fff9c4"};
    case cudaGraphNodeTypeMemFree:
      return {"free", "memory free", "#fff9c4"};
    case cudaGraphNodeTypeWaitEvent:
      return {"wait for event", "wait for event", "#d1c4e9"};
    case cudaGraphNodeTypeEventRecord:
      return {"record event", "record event", "#d1c4e9"};
    case cudaGraphNodeTypeEmpty:
      return {"empty", "empty", "#eeeeee"};
    default:
      // Older toolkits have no name for conditional nodes.
      return static_cast<int>(node.type) == 13 ? svg_node{"conditional", "conditional", "#ffcdd2"}
                                               : svg_node{"other", "other", "#eeeeee"};
  }
}

// Centre of the box of a node, in pixels.
struct svg_place {
  std::size_t x = 0;
  std::size_t y = 0;
};

}  // namespace detail

WARPWRIGHT_INLINE std::string to_svg(graph const& source, source_location where) {
  constexpr std::size_t box_width = 220, box_height = 30, step_x = 240, step_y = 60, margin = 20;
  constexpr std::size_t label_length = 32;
  detail::graph_structure const structure = detail::structure_of(source.get(), where);
  detail::array<std::size_t> widths(structure.levels);  // nodes a level
  for (auto const& node : structure.nodes) ++widths[node.level];
  std::size_t widest = 1;
  for (std::size_t const width : widths) widest = width > widest ? width : widest;
  std::size_t const image_width = widest * step_x + 2 * margin;

  detail::array<std::size_t> placed(structure.levels);
  detail::array<detail::svg_place> places(structure.nodes.size());
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    std::size_t const level = structure.nodes[i].level;
    std::size_t const left = (image_width - widths[level] * step_x) / 2;
    places[i].x = left + placed[level]++ * step_x + step_x / 2;
    places[i].y = margin + level * step_y + box_height / 2;
  }

  using text = detail::string_builder;
  text svg = text{"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\""} + image_width +
             "\" height=\"" + (structure.levels * step_y + 2 * margin) +
             "\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (auto const& edge : structure.edges) {
    svg += text{"<line x1=\""} + places[edge.from].x + "\" y1=\"" +
           (places[edge.from].y + box_height / 2) + "\" x2=\"" + places[edge.to].x + "\" y2=\"" +
           (places[edge.to].y - box_height / 2) + "\" stroke=\"#555\"/>\n";
  }
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    detail::svg_node const node = detail::describe_node(structure.nodes[i], where);
    svg += text{"<g><title>"} + i + ": ";
    svg += detail::xml_text(node.details);
    svg += text{"</title><rect x=\""} + (places[i].x - box_width / 2) + "\" y=\"" +
           (places[i].y - box_height / 2) + "\" width=\"" + box_width + "\" height=\"" +
           box_height + "\" rx=\"4\" fill=\"" + node.colour +
           "\" stroke=\"#555\"/><text text-anchor=\"middle\" x=\"" + places[i].x + "\" y=\"" +
           (places[i].y + 4) + "\">";
    std::string const& label = node.label;
    bool const cut = label.size() > label_length;
    svg += detail::xml_text(cut ? label.substr(0, label_length - 1) : label);
    svg += cut ? "…</text></g>\n" : "</text></g>\n";
  }
  if (structure.nodes.empty()) {
    svg += "<text x=\"20\" y=\"24\">an empty graph</text>\n";
  }
  svg += "</svg>\n";
  return svg;
}

WARPWRIGHT_END
