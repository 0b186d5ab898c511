// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/graph_svg.hpp>

WARPWRIGHT_BEGIN

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
