// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/graph/compare_graphs.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/detail/nodes/kernel_call.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

WARPWRIGHT_BEGIN

namespace detail {

/// Compares two graphs node by node. Words that differ also between two captures made right after
/// each other, and are addresses of device memory in both, are the body's own temporary memory;
/// bytes with what the stack was filled with before these captures are padding.
class graph_comparison {
 public:
  graph_comparison(cudaGraph_t before, cudaGraph_t now, cudaGraph_t again, source_location where)
      : before_{structure_of(before, where)},
        now_{structure_of(now, where)},
        again_{again != nullptr ? structure_of(again, where) : graph_structure{}},
        where_{where} {}

  graph_difference run() {
    compare();
    return static_cast<graph_difference&&>(result_);
  }

 private:
  using node_entry = graph_structure::node;

  void compare() {
    if (before_.nodes.size() != now_.nodes.size()) {
      return difference("the number of nodes", before_.nodes.size(), now_.nodes.size());
    }
    if (before_.edges.size() != now_.edges.size()) {
      return difference("the number of dependencies", before_.edges.size(), now_.edges.size());
    }
    three_way_ = again_.nodes.size() == now_.nodes.size();
    if (three_way_) {
      array<range> of_now = memory_of(now_);
      array<range> of_again = memory_of(again_);
      now_memory_.swap(of_now);
      again_memory_.swap(of_again);
    }
    for (std::size_t i = 0; i < before_.nodes.size() && !result_.found; ++i) {
      result_ = graph_difference{};
      result_.node = i;
      compare_node(i);
    }
    for (std::size_t i = 0; i < before_.edges.size() && !result_.found; ++i) {
      if (compare_edges(&before_.edges[i], &now_.edges[i]) == 0) continue;
      result_ = graph_difference{};
      result_.node = now_.edges[i].to;
      difference("the nodes that it depends on", 0, 0);
    }
  }

  void compare_node(std::size_t i) {
    node_entry const& before = before_.nodes[i];
    node_entry const& now = now_.nodes[i];
    cudaGraphNodeType const type = before.type;
    if (type != now.type) {
      return difference("the type of a node", static_cast<std::size_t>(type),
                        static_cast<std::size_t>(now.type));
    }
    // Without an equal node in the second capture, every difference counts.
    bool const twice = three_way_ && again_.nodes[i].type == type;
    cudaGraphNode_t const again = (twice ? again_ : now_).nodes[i].handle;
    switch (static_cast<int>(type)) {  // a later toolkit may have more
      case cudaGraphNodeTypeKernel:
        return compare_kernels(before.handle, now.handle, again);
      case cudaGraphNodeTypeMemcpy:
        return compare_parameters<cudaMemcpy3DParms>(before.handle, now.handle, again);
      case cudaGraphNodeTypeMemset:
        return compare_parameters<cudaMemsetParams>(before.handle, now.handle, again);
      case cudaGraphNodeTypeHost:
        return compare_parameters<cudaHostNodeParams>(before.handle, now.handle, again);
      case cudaGraphNodeTypeGraph:
        return compare_children(before.handle, now.handle, again);
      case cudaGraphNodeTypeMemAlloc:
        return compare_allocations(before.handle, now.handle);
      case cudaGraphNodeTypeEventRecord:
        return compare_events(before.handle, now.handle, cudaGraphEventRecordNodeGetEvent);
      case cudaGraphNodeTypeWaitEvent:
        return compare_events(before.handle, now.handle, cudaGraphEventWaitNodeGetEvent);
      default:
        return;  // nothing that code captures by value
    }
  }

  void compare_allocations(cudaGraphNode_t before, cudaGraphNode_t now) {
    std::size_t const a = allocation(before).bytes;
    std::size_t const b = allocation(now).bytes;
    if (a != b) difference("the bytes of an allocation", a, b);
  }
  void compare_events(cudaGraphNode_t before, cudaGraphNode_t now,
                      cudaError_t (*get)(cudaGraphNode_t, cudaEvent_t*)) {
    cudaEvent_t events[2] = {};
    check(get(before, &events[0]), "cudaGraphEvent...NodeGetEvent", where_);
    check(get(now, &events[1]), "cudaGraphEvent...NodeGetEvent", where_);
    if (events[0] != events[1]) difference("the event of a node", 0, 0);
  }

  void compare_kernels(cudaGraphNode_t before, cudaGraphNode_t now, cudaGraphNode_t again) {
    kernel_call a;
    kernel_call b;
    kernel_call c;
    check(read_kernel(before, a), "cudaGraphKernelNodeGetParams", where_);
    check(read_kernel(now, b), "cudaGraphKernelNodeGetParams", where_);
    check(read_kernel(again, c), "cudaGraphKernelNodeGetParams", where_);
    result_.kernel = kernel_name(now);
    // It has the handles of conditional nodes, which each graph has of its own.
    sets_condition_ = result_.kernel.find("evaluate_condition") != std::string::npos ||
                      result_.kernel == "run_if" || result_.kernel == "repeat_while";
    if (a.kernel != b.kernel) return difference("the kernel of a node", 0, 0);
    if (!same(a.grid, b.grid)) return difference("the grid of a kernel", a.grid.x, b.grid.x);
    if (!same(a.block, b.block)) {
      return difference("the blocks of a kernel", a.block.x, b.block.x);
    }
    if (a.shared_bytes != b.shared_bytes) {
      return difference("the shared memory of a kernel", a.shared_bytes, b.shared_bytes);
    }
    if (a.arguments == nullptr || b.arguments == nullptr || c.arguments == nullptr) return;
    for (std::size_t p = 0; !result_.found; ++p) {
      std::size_t const bytes = a.argument_bytes(p);
      if (bytes == 0) return;
      result_.argument = static_cast<std::ptrdiff_t>(p);
      compare_bytes(a.arguments[p], b.arguments[p], c.arguments[p], bytes);
    }
  }

  static bool same(dim3 const& a, dim3 const& b) noexcept {
    return a.x == b.x && a.y == b.y && a.z == b.z;
  }

  void read(cudaGraphNode_t node, cudaMemcpy3DParms& to) const {
    check(cudaGraphMemcpyNodeGetParams(node, &to), "cudaGraphMemcpyNodeGetParams", where_);
  }
  void read(cudaGraphNode_t node, cudaMemsetParams& to) const {
    check(cudaGraphMemsetNodeGetParams(node, &to), "cudaGraphMemsetNodeGetParams", where_);
  }
  void read(cudaGraphNode_t node, cudaHostNodeParams& to) const {
    check(cudaGraphHostNodeGetParams(node, &to), "cudaGraphHostNodeGetParams", where_);
  }

  template <class Parameters>
  void compare_parameters(cudaGraphNode_t before, cudaGraphNode_t now, cudaGraphNode_t again) {
    Parameters a;
    Parameters b;
    Parameters c;
    // Padding is not written by the queries.
    std::memset(static_cast<void*>(&a), 0, sizeof a);
    std::memset(static_cast<void*>(&b), 0, sizeof b);
    std::memset(static_cast<void*>(&c), 0, sizeof c);
    read(before, a);
    read(now, b);
    read(again, c);
    sets_condition_ = false;
    compare_bytes(&a, &b, &c, size_of(a));
  }
  // Without the padding at the end, which a query can copy. There is none elsewhere.
  static constexpr std::size_t size_of(cudaMemcpy3DParms const&) noexcept {
    return offsetof(cudaMemcpy3DParms, kind) + sizeof(cudaMemcpyKind);
  }
  template <class Parameters>
  static constexpr std::size_t size_of(Parameters const&) noexcept {
    static_assert(std::has_unique_object_representations_v<Parameters>, "it has padding");
    return sizeof(Parameters);
  }

  void compare_bytes(void const* before, void const* now, void const* again, std::size_t bytes) {
    auto const* const a = static_cast<unsigned char const*>(before);
    auto const* const b = static_cast<unsigned char const*>(now);
    auto const* const c = static_cast<unsigned char const*>(again);
    for (std::size_t at = 0; at < bytes; at += 8) {
      std::size_t const width = bytes - at < 8 ? bytes - at : 8;
      std::size_t first = at;  // the first byte that differs
      while (first < at + width && (a[first] == b[first] || is_padding(b[first], c[first]))) {
        ++first;
      }
      if (first == at + width) continue;
      if (width == 8 && std::memcmp(b + at, c + at, 8) != 0 &&
          (sets_condition_ ||
           (is_device_memory(b + at, now_memory_) && is_device_memory(c + at, again_memory_)))) {
        continue;
      }
      result_.offset = first;
      return difference_of_bytes(a + at, b + at, width);
    }
  }
  static bool is_padding(unsigned char now, unsigned char again) noexcept {
    return now == stack_fill_now && again == stack_fill_again;
  }

  struct range {
    std::uintptr_t begin;
    std::size_t bytes;
  };
  // The memory that a graph allocates; it exists only while the graph runs.
  array<range> memory_of(graph_structure const& graph) const {
    array<range> all;
    for (node_entry const& each : graph.nodes) {
      if (each.type != cudaGraphNodeTypeMemAlloc) continue;
      all.push_back(allocation(each.handle));
    }
    return all;
  }
  range allocation(cudaGraphNode_t node) const {
    cudaMemAllocNodeParams parameters{};
    check(cudaGraphMemAllocNodeGetParams(node, &parameters), "cudaGraphMemAllocNodeGetParams",
          where_);
    return {reinterpret_cast<std::uintptr_t>(parameters.dptr), parameters.bytesize};
  }

  static bool is_device_memory(unsigned char const* word, array<range> const& own) noexcept {
    void const* address = nullptr;
    std::memcpy(&address, word, sizeof address);
    for (range const& r : own) {
      if (reinterpret_cast<std::uintptr_t>(address) - r.begin < r.bytes) return true;
    }
    cudaPointerAttributes attributes{};
    return discard(cudaPointerGetAttributes(&attributes, address)) == cudaSuccess &&
           (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
  }

  void compare_children(cudaGraphNode_t before, cudaGraphNode_t now, cudaGraphNode_t again) {
    cudaGraph_t graphs[3] = {};
    cudaGraphNode_t const nodes[3] = {before, now, again};
    for (int i = 0; i < 3; ++i) {
      check(cudaGraphChildGraphNodeGetGraph(nodes[i], &graphs[i]),
            "cudaGraphChildGraphNodeGetGraph", where_);
    }
    graph_difference inner = graph_comparison{graphs[0], graphs[1], graphs[2], where_}.run();
    if (!inner.found) return;
    inner.text += string_builder{" (in the child graph of node "} + result_.node + ")";
    result_ = static_cast<graph_difference&&>(inner);
  }

  string_builder place() const {
    string_builder text = string_builder{"node "} + result_.node;
    if (!result_.kernel.empty()) text += string_builder{", kernel "} + result_.kernel;
    if (result_.argument >= 0) {
      text += string_builder{", argument "} + static_cast<std::size_t>(result_.argument) +
              ", byte " + result_.offset;
    }
    return text;
  }
  void difference(char const* what, std::size_t before, std::size_t now) {
    result_.found = true;
    result_.text = place() + ": " + what + " changed";
    if (before != now) result_.text += string_builder{" from "} + before + " to " + now;
  }
  void difference_of_bytes(unsigned char const* before, unsigned char const* now,
                           std::size_t width) {
    result_.found = true;
    result_.text = place() + (result_.argument < 0 ? ": a parameter" : ":") + " was " +
                   hexadecimal(before, width) + ", is " + hexadecimal(now, width);
  }
  // Little-endian words, as a debugger prints them.
  static string_builder hexadecimal(unsigned char const* bytes, std::size_t width) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text = "0x";
    for (std::size_t i = width; i > 0; --i) {
      text += digits[bytes[i - 1] >> 4U];
      text += digits[bytes[i - 1] & 15U];
    }
    return text;
  }

  graph_structure before_;
  graph_structure now_;
  graph_structure again_;
  source_location where_;
  bool sets_condition_ = false;
  bool three_way_ = false;
  array<range> now_memory_;
  array<range> again_memory_;
  graph_difference result_;
};

}  // namespace detail

WARPWRIGHT_INLINE graph_mismatch::graph_mismatch(graph_difference const& difference,
                                                 source_location where)
    : std::runtime_error{(detail::text{where.file(), where.line()} +
                          ": the captured graph is not what the step would do now: " +
                          difference.text.c_str() +
                          "; pass the value as an argument of run(), or as a graph_param")
                             .c_str()},
      difference_{difference} {}

WARPWRIGHT_INLINE graph_difference compare_graphs(graph const& before, graph const& now,
                                                  graph const* again, source_location where) {
  return detail::graph_comparison{before.get(), now.get(),
                                  again != nullptr ? again->get() : nullptr, where}
      .run();
}

WARPWRIGHT_END
