// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/stream.hpp>

WARPWRIGHT_BEGIN

/// How many nodes of each kind a graph holds, child graphs' own nodes not counted.
struct graph_census {
  std::size_t kernels = 0;
  std::size_t copies = 0;         ///< memcpy nodes
  std::size_t fills = 0;          ///< memset nodes
  std::size_t host_calls = 0;     ///< host functions
  std::size_t allocations = 0;    ///< memory allocation nodes (cudaMallocAsync while capturing)
  std::size_t deallocations = 0;  ///< memory free nodes
  std::size_t events = 0;         ///< event record and event wait nodes
  std::size_t children = 0;       ///< child graphs
  std::size_t other = 0;          ///< empty, semaphore and conditional nodes
  /// @return the number of all nodes
  [[nodiscard]] std::size_t total() const noexcept {
    return kernels + copies + fills + host_calls + allocations + deallocations + events + children +
           other;
  }
};

/// A CUDA graph with an owner: work and its order, not yet executable.
/// **Threads:** one at a time.
class graph {
 public:
  /// Takes ownership.
  /// @param handle  a graph that nobody else destroys; null makes an empty object
  explicit graph(cudaGraph_t handle) noexcept : handle_{handle} {}
  graph(graph&& other) noexcept : handle_{detail::exchange(other.handle_, nullptr)} {}
  /// Destroys the graph held so far; the other is left empty.
  graph& operator=(graph&& other) noexcept {
    graph moved{static_cast<graph&&>(other)};
    detail::swap(handle_, moved.handle_);
    return *this;
  }
  ~graph() {
    if (handle_ != nullptr) detail::discard(cudaGraphDestroy(handle_));
  }

  /// @return the CUDA handle; null only after a move
  [[nodiscard]] cudaGraph_t get() const noexcept { return handle_; }

  /// Counts the nodes by kind: no kernel in a capture, say, means that the work went to another
  /// stream.
  /// @throws cuda_error  when a query fails
  /// **Cost:** one CUDA call a node; for reports, not for hot loops.
  [[nodiscard]] graph_census census(source_location where = source_location::current()) const {
    graph_census counts;
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

  static std::size_t& counter(graph_census& counts, cudaGraphNodeType type) noexcept {
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
        return counts.children;
      default:
        return counts.other;
    }
  }

  cudaGraph_t handle_;
};

/// What became of an executable graph that was given new contents.
enum class graph_change {
  updated,        ///< the same executable, new parameters
  reinstantiated  ///< CUDA refused the update, so it was built anew, which costs many times more
};

/// A graph made ready to launch.
/// **Threads:** one at a time; launches of one executable never overlap on the device.
class graph_exec {
 public:
  /// An empty object: only assignment, get() and destruction are legal.
  graph_exec() noexcept = default;
  /// Makes `source` executable.
  /// @param source  may be destroyed afterwards
  /// @throws cuda_error  when CUDA refuses, for lack of memory among others
  /// **Capture:** legal in a thread-local capture of another stream. **Cost:** one CUDA call that
  /// grows with the nodes; do it at start-up.
  explicit graph_exec(graph const& source, source_location where = source_location::current())
      : handle_{instantiate(source, where)} {}
  graph_exec(graph_exec&& other) noexcept : handle_{detail::exchange(other.handle_, nullptr)} {}
  graph_exec& operator=(graph_exec&& other) noexcept {
    detail::swap(handle_, other.handle_);
    return *this;
  }
  /// Launches already made still finish.
  ~graph_exec() {
    if (handle_ != nullptr) detail::discard(cudaGraphExecDestroy(handle_));
  }

  /// @return the CUDA handle; null for an empty object
  [[nodiscard]] cudaGraphExec_t get() const noexcept { return handle_; }

  /// Runs the whole graph once.
  /// @throws cuda_error  when the launch fails
  /// **Stream:** ordered on `stream`, behind this executable's earlier launches; does not block.
  /// **Capture:** legal; becomes a child graph. **Cost:** one CUDA call.
  void launch(stream_ref stream, source_location where = source_location::current()) {
    check(cudaGraphLaunch(handle_, stream.get()), "cudaGraphLaunch", where);
  }

  /// Moves the executable to the device ahead of its first launch, which is then as fast as the
  /// rest.
  /// @throws cuda_error  when CUDA refuses
  /// **Stream:** ordered on `stream`; does not block. **Capture:** not legal.
  void upload(stream_ref stream, source_location where = source_location::current()) {
    check(cudaGraphUpload(handle_, stream.get()), "cudaGraphUpload", where);
  }

  /// Gives the executable the contents of `source`: in place where CUDA can, else by building anew.
  /// @return which of the two it was
  /// @throws cuda_error  when neither works; the executable is then as it was before
  /// **Stream:** launches already made keep the old contents. **Cost:** in place one CUDA
  /// call, a small part of a construction; else that call and a construction.
  graph_change update(graph const& source, source_location where = source_location::current()) {
    cudaGraphExecUpdateResultInfo result{};
    cudaError_t const status = cudaGraphExecUpdate(handle_, source.get(), &result);
    if (status == cudaSuccess) return graph_change::updated;
    if (status != cudaErrorGraphExecUpdateFailure) check(status, "cudaGraphExecUpdate", where);
    static_cast<void>(cudaGetLastError());  // a refusal is an answer, not an error
    cudaGraphExec_t const anew = instantiate(source, where);
    detail::discard(cudaGraphExecDestroy(detail::exchange(handle_, anew)));
    return graph_change::reinstantiated;
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
