// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether two captures of the same code are the same graph: finds values that were captured and
// have changed since. For debugging.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/graph/detail/kernel_name.hpp>
#include <warpwright/graph/graph.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
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
  explicit graph_mismatch(graph_difference const& difference, source_location where)
      : std::runtime_error{(detail::text{where.file(), where.line()} +
                            ": the captured graph is not what the step would do now: " +
                            difference.text.c_str() +
                            "; pass the value as an argument of run(), or as a graph_param")
                               .c_str()},
        difference_{difference} {}
  /// @return where the graphs differ
  [[nodiscard]] graph_difference const& difference() const noexcept { return difference_; }

 private:
  graph_difference difference_;
};

namespace detail {

/// Compares two graphs node by node. Words that differ also between two captures made right after
/// each other, and are addresses of device memory in both, are the body's own temporary memory.
class graph_comparison {
 public:
  graph_comparison(cudaGraph_t before, cudaGraph_t now, cudaGraph_t again, source_location where)
      : before_graph_{before},
        now_graph_{now},
        before_{list(before, where)},
        now_{list(now, where)},
        again_{again != nullptr ? list(again, where) : array<cudaGraphNode_t>{}},
        where_{where} {}

  graph_difference run() {
    if (before_.size() != now_.size()) {
      difference("the number of nodes", before_.size(), now_.size());
      return static_cast<graph_difference&&>(result_);
    }
    std::size_t const edges_before = edges_of(before_graph_);
    std::size_t const edges_now = edges_of(now_graph_);
    if (edges_before != edges_now) {
      difference("the number of dependencies", edges_before, edges_now);
      return static_cast<graph_difference&&>(result_);
    }
    three_way_ = again_.size() == now_.size();
    if (three_way_) {
      array<range> of_now = memory_of(now_);
      array<range> of_again = memory_of(again_);
      now_memory_.swap(of_now);
      again_memory_.swap(of_again);
    }
    for (std::size_t i = 0; i < before_.size() && !result_.found; ++i) {
      result_ = graph_difference{};
      result_.node = i;
      compare_node(i);
    }
    return static_cast<graph_difference&&>(result_);
  }

 private:
  static array<cudaGraphNode_t> list(cudaGraph_t graph, source_location where) {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes", where);
    array<cudaGraphNode_t> nodes(count);
    if (count > 0)
      check(cudaGraphGetNodes(graph, nodes.begin(), &count), "cudaGraphGetNodes", where);
    return nodes;
  }

  std::size_t edges_of(cudaGraph_t graph) const {
    std::size_t count = 0;
#if CUDART_VERSION >= 13000
    cudaError_t const status = cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count);
#else
    cudaError_t const status = cudaGraphGetEdges(graph, nullptr, nullptr, &count);
#endif
    check(status, "cudaGraphGetEdges", where_);
    return count;
  }

  cudaGraphNodeType type_of(cudaGraphNode_t node) const {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType", where_);
    return type;
  }

  void compare_node(std::size_t i) {
    cudaGraphNodeType const type = type_of(before_[i]);
    if (type != type_of(now_[i])) {
      return difference("the type of a node", static_cast<std::size_t>(type),
                        static_cast<std::size_t>(type_of(now_[i])));
    }
    // Without an equal node in the second capture, every difference counts.
    cudaGraphNode_t const again = three_way_ && type_of(again_[i]) == type ? again_[i] : now_[i];
    switch (static_cast<int>(type)) {  // a later toolkit may have more
      case cudaGraphNodeTypeKernel:
        return compare_kernels(before_[i], now_[i], again);
      case cudaGraphNodeTypeMemcpy:
        return compare_parameters<cudaMemcpy3DParms>(before_[i], now_[i], again);
      case cudaGraphNodeTypeMemset:
        return compare_parameters<cudaMemsetParams>(before_[i], now_[i], again);
      case cudaGraphNodeTypeHost:
        return compare_parameters<cudaHostNodeParams>(before_[i], now_[i], again);
      case cudaGraphNodeTypeGraph:
        return compare_children(before_[i], now_[i], again);
      default:
        return;  // nothing that code captures by value
    }
  }

  void compare_kernels(cudaGraphNode_t before, cudaGraphNode_t now, cudaGraphNode_t again) {
    cudaKernelNodeParams a{};
    cudaKernelNodeParams b{};
    cudaKernelNodeParams c{};
    read(before, a);
    read(now, b);
    read(again, c);
    result_.kernel = kernel_name(now);
    // It has the handles of conditional nodes, which each graph has of its own.
    sets_condition_ = result_.kernel.find("evaluate_condition") != std::string::npos ||
                      result_.kernel == "run_if" || result_.kernel == "repeat_while";
    if (a.func != b.func) return difference("the kernel of a node", 0, 0);
    if (!same(a.gridDim, b.gridDim))
      return difference("the grid of a kernel", a.gridDim.x, b.gridDim.x);
    if (!same(a.blockDim, b.blockDim)) {
      return difference("the blocks of a kernel", a.blockDim.x, b.blockDim.x);
    }
    if (a.sharedMemBytes != b.sharedMemBytes) {
      return difference("the shared memory of a kernel", a.sharedMemBytes, b.sharedMemBytes);
    }
#if CUDART_VERSION >= 12040
    if (a.kernelParams == nullptr || b.kernelParams == nullptr || c.kernelParams == nullptr) return;
    for (std::size_t p = 0; !result_.found; ++p) {
      std::size_t offset = 0;
      std::size_t bytes = 0;
      cudaError_t const status = cudaFuncGetParamInfo(a.func, p, &offset, &bytes);
      if (status != cudaSuccess) return discard(status);  // past the last argument
      result_.argument = static_cast<std::ptrdiff_t>(p);
      compare_bytes(a.kernelParams[p], b.kernelParams[p], c.kernelParams[p], bytes);
    }
#endif
  }

  static bool same(dim3 const& a, dim3 const& b) noexcept {
    return a.x == b.x && a.y == b.y && a.z == b.z;
  }

  void read(cudaGraphNode_t node, cudaKernelNodeParams& to) const {
    check(cudaGraphKernelNodeGetParams(node, &to), "cudaGraphKernelNodeGetParams", where_);
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
    compare_bytes(&a, &b, &c, sizeof a);
  }

  void compare_bytes(void const* before, void const* now, void const* again, std::size_t bytes) {
    auto const* const a = static_cast<unsigned char const*>(before);
    auto const* const b = static_cast<unsigned char const*>(now);
    auto const* const c = static_cast<unsigned char const*>(again);
    for (std::size_t at = 0; at < bytes; at += 8) {
      std::size_t const width = bytes - at < 8 ? bytes - at : 8;
      if (std::memcmp(a + at, b + at, width) == 0) continue;
      if (width == 8 && std::memcmp(b + at, c + at, 8) != 0 &&
          (sets_condition_ ||
           (is_device_memory(b + at, now_memory_) && is_device_memory(c + at, again_memory_)))) {
        continue;
      }
      result_.offset = at;
      while (a[result_.offset] == b[result_.offset]) ++result_.offset;
      return difference_of_bytes(a + at, b + at, width);
    }
  }

  struct range {
    std::uintptr_t begin;
    std::size_t bytes;
  };
  // The memory that a graph allocates; it exists only while the graph runs.
  array<range> memory_of(array<cudaGraphNode_t> const& nodes) const {
    array<range> all;
    for (cudaGraphNode_t const node : nodes) {
      if (type_of(node) != cudaGraphNodeTypeMemAlloc) continue;
      cudaMemAllocNodeParams parameters{};
      check(cudaGraphMemAllocNodeGetParams(node, &parameters), "cudaGraphMemAllocNodeGetParams",
            where_);
      all.push_back({reinterpret_cast<std::uintptr_t>(parameters.dptr), parameters.bytesize});
    }
    return all;
  }

  static bool is_device_memory(unsigned char const* word, array<range> const& own) noexcept {
    void const* address = nullptr;
    std::memcpy(&address, word, sizeof address);
    for (range const& r : own) {
      if (reinterpret_cast<std::uintptr_t>(address) - r.begin < r.bytes) return true;
    }
    cudaPointerAttributes attributes{};
    cudaError_t const status = cudaPointerGetAttributes(&attributes, address);
    discard(status);
    return status == cudaSuccess &&
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

  cudaGraph_t before_graph_;
  cudaGraph_t now_graph_;
  array<cudaGraphNode_t> before_;
  array<cudaGraphNode_t> now_;
  array<cudaGraphNode_t> again_;
  source_location where_;
  bool sets_condition_ = false;
  bool three_way_ = false;
  array<range> now_memory_;
  array<range> again_memory_;
  graph_difference result_;
};

}  // namespace detail

/// Finds the first node of two graphs that differs: its type, kernel, grid, arguments, addresses or
/// sizes; or that they have different numbers of dependencies. Meant for two captures of the same
/// code. Bodies of conditional nodes are not compared, and with `again` an address of device memory
/// that is another one in each capture (buffers that the code swaps) is taken for temporary memory.
/// @param before  a captured graph
/// @param now     a later capture
/// @param again   a further capture, right after `now`, while `now` exists: temporary memory of the
///   code has other addresses in each capture, and is recognised by that. Null: all that differs
///   counts
/// @return the difference; not found, if the graphs are equal. Kernels' arguments are compared with
///   CUDA 12.4 and newer
/// @throws cuda_error  when a query fails
/// **Stream:** does not block. **Capture:** legal. **Cost:** several CUDA calls a node.
[[nodiscard]] inline graph_difference compare_graphs(
    graph const& before, graph const& now, graph const* again = nullptr,
    source_location where = source_location::current()) {
  return detail::graph_comparison{before.get(), now.get(),
                                  again != nullptr ? again->get() : nullptr, where}
      .run();
}

WARPWRIGHT_END
