// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

/// The number of nodes of each kind in a graph; the nodes of child graphs are not counted.
struct graph_node_counts {
  std::size_t kernels = 0;
  std::size_t copies = 0;         ///< memcpy nodes
  std::size_t fills = 0;          ///< memset nodes
  std::size_t host_calls = 0;     ///< host functions
  std::size_t allocations = 0;    ///< memory allocation nodes (cudaMallocAsync while capturing)
  std::size_t deallocations = 0;  ///< memory free nodes
  std::size_t events = 0;         ///< event record and event wait nodes
  std::size_t child_graphs = 0;   ///< child graph nodes
  std::size_t other = 0;          ///< empty, semaphore and conditional nodes
  /// @return the number of all nodes
  [[nodiscard]] std::size_t total() const noexcept {
    return kernels + copies + fills + host_calls + allocations + deallocations + events +
           child_graphs + other;
  }
};

/// An owning CUDA graph: nodes of work and their dependencies. A graph_exec runs it.
/// **Threads:** one at a time.
class graph {
 public:
  /// Takes ownership of a graph and destroys it at the end of its lifetime.
  /// @param handle  a graph without another owner; null makes an empty object
  explicit graph(cudaGraph_t handle) noexcept : handle_{handle} {}
  graph(graph&& other) noexcept : handle_{detail::exchange(other.handle_, nullptr)} {}
  /// Destroys the current graph; the other object becomes empty.
  graph& operator=(graph&& other) noexcept {
    graph moved{static_cast<graph&&>(other)};
    detail::swap(handle_, moved.handle_);
    return *this;
  }
  ~graph() {
    if (handle_ != nullptr) detail::discard(cudaGraphDestroy(handle_));
  }

  /// @return the CUDA handle; null after a move
  [[nodiscard]] cudaGraph_t get() const noexcept { return handle_; }

  /// Counts the nodes by kind. A captured graph without kernels, for instance, means that the work
  /// went to another stream.
  /// @throws cuda_error  when a query fails
  /// **Cost:** one CUDA call per node; for reports, not for hot loops.
  [[nodiscard]] graph_node_counts node_counts(
      source_location where = source_location::current()) const;

  /// Returns the number of nodes, those of child graphs excluded.
  /// @throws cuda_error  when the query fails
  /// **Cost:** one CUDA call.
  [[nodiscard]] std::size_t size(source_location where = source_location::current()) const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(handle_, nullptr, &count), "cudaGraphGetNodes", where);
    return count;
  }

  /// Writes the graph to a file in the DOT language, which Graphviz draws:
  /// `dot -Tsvg graph.dot -o graph.svg`.
  /// @param path     the file, which is replaced
  /// @param verbose  whether to write all parameters of each node
  /// @throws cuda_error  when the file cannot be written
  /// **Cost:** CUDA's; for reports.
  void to_dot(char const* path, bool verbose = false,
              source_location where = source_location::current()) const {
    unsigned const flags = verbose ? unsigned{cudaGraphDebugDotFlagsVerbose} : 0U;
    check(cudaGraphDebugDotPrint(handle_, path, flags), "cudaGraphDebugDotPrint", where);
  }

 private:
  cudaGraph_t handle_;
};

namespace detail {

std::size_t& counter(graph_node_counts& counts, cudaGraphNodeType type) noexcept;

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/graph_definitions.hpp>
#endif
