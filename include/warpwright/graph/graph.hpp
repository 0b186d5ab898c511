// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/stream.hpp>

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
      source_location where = source_location::current()) const {
    graph_node_counts counts;
    for (cudaGraphNode_t const node : nodes(where)) {
      cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
      check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType", where);
      ++counter(counts, type);
    }
    return counts;
  }

 private:
  [[nodiscard]] detail::array<cudaGraphNode_t> nodes(source_location where) const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(handle_, nullptr, &count), "cudaGraphGetNodes", where);
    detail::array<cudaGraphNode_t> found(count);
    if (count > 0) {
      check(cudaGraphGetNodes(handle_, found.begin(), &count), "cudaGraphGetNodes", where);
    }
    return found;
  }

  static std::size_t& counter(graph_node_counts& counts, cudaGraphNodeType type) noexcept {
    switch (type) {
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

  cudaGraph_t handle_;
};

/// How an executable graph took over another graph's contents.
enum class graph_update_result {
  updated,        ///< updated in place
  reinstantiated  ///< CUDA could not update it, so it was instantiated again, at many times the
                  ///< cost
};

/// An owning executable graph.
/// **Threads:** one at a time; launches of one executable graph do not overlap on the device.
class graph_exec {
 public:
  /// An empty object: only assignment, get() and destruction are legal.
  graph_exec() noexcept = default;
  /// Instantiates a graph.
  /// @param source  may be destroyed afterwards
  /// @throws cuda_error  if the call fails, for instance for lack of memory
  /// **Capture:** legal in a thread-local capture of another stream. **Cost:** one CUDA call whose
  /// time grows with the number of nodes; do it at start-up.
  explicit graph_exec(graph const& source, source_location where = source_location::current())
      : handle_{instantiate(source, where)} {}
  graph_exec(graph_exec&& other) noexcept : handle_{detail::exchange(other.handle_, nullptr)} {}
  graph_exec& operator=(graph_exec&& other) noexcept {
    detail::swap(handle_, other.handle_);
    return *this;
  }
  /// Launches already made still run to completion.
  ~graph_exec() {
    if (handle_ != nullptr) detail::discard(cudaGraphExecDestroy(handle_));
  }

  /// @return the CUDA handle; null for an empty object
  [[nodiscard]] cudaGraphExec_t get() const noexcept { return handle_; }

  /// Launches the graph once.
  /// @throws cuda_error  when the launch fails
  /// **Stream:** ordered on `stream` and after this object's earlier launches; does not block.
  /// **Capture:** legal; becomes a child graph. **Cost:** one CUDA call.
  void launch(stream_ref stream, source_location where = source_location::current()) {
    check(cudaGraphLaunch(handle_, stream.get()), "cudaGraphLaunch", where);
  }

  /// Uploads the executable graph to the device, so that the first launch is as fast as later ones.
  /// @throws cuda_error  if the call fails
  /// **Stream:** ordered on `stream`; does not block. **Capture:** not legal.
  void upload(stream_ref stream, source_location where = source_location::current()) {
    check(cudaGraphUpload(handle_, stream.get()), "cudaGraphUpload", where);
  }

  /// Replaces the contents by those of `source`: in place if CUDA can, else by instantiating again.
  /// @return which of the two was done
  /// @throws cuda_error  if neither works; the executable graph is then unchanged
  /// **Stream:** launches already made keep the old contents. **Cost:** in place one CUDA call,
  /// much less than an instantiation; otherwise that call and an instantiation.
  graph_update_result update(graph const& source,
                             source_location where = source_location::current()) {
    cudaGraphExecUpdateResultInfo result{};
    cudaError_t const status = cudaGraphExecUpdate(handle_, source.get(), &result);
    if (status == cudaSuccess) return graph_update_result::updated;
    if (status != cudaErrorGraphExecUpdateFailure) check(status, "cudaGraphExecUpdate", where);
    static_cast<void>(cudaGetLastError());  // expected: the last error must not remain
    cudaGraphExec_t const replacement = instantiate(source, where);
    detail::discard(cudaGraphExecDestroy(detail::exchange(handle_, replacement)));
    return graph_update_result::reinstantiated;
  }

 private:
  static cudaGraphExec_t instantiate(graph const& source, source_location where) {
    cudaGraphExec_t handle = nullptr;
    check(cudaGraphInstantiate(&handle, source.get(), 0), "cudaGraphInstantiate", where);
    return handle;
  }

  cudaGraphExec_t handle_ = nullptr;
};

WARPWRIGHT_END
