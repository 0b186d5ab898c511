// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>
#include <warpwright/graph/graph.hpp>

#include <string>

WARPWRIGHT_BEGIN

/// Options of an instantiation, combined with `|` (CUDA runtime API, cudaGraphInstantiateFlags).
enum class graph_flags : unsigned {
  none = 0,
  /// A launch first frees what the previous launch allocated and did not free. Without it, such a
  /// graph can be launched again only after the program has freed that memory.
  auto_free_on_launch = cudaGraphInstantiateFlagAutoFreeOnLaunch,
  /// Uploads at once; needs the constructor with a stream.
  upload = cudaGraphInstantiateFlagUpload,
  device_launch = cudaGraphInstantiateFlagDeviceLaunch,  ///< may be launched by a kernel
  /// Nodes have the priorities of the streams from which they were captured.
  node_priority = cudaGraphInstantiateFlagUseNodePriority
};
constexpr graph_flags operator|(graph_flags a, graph_flags b) noexcept {
  return static_cast<graph_flags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr graph_flags operator&(graph_flags a, graph_flags b) noexcept {
  return static_cast<graph_flags>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
constexpr graph_flags operator~(graph_flags a) noexcept {
  return static_cast<graph_flags>(~static_cast<unsigned>(a) & 15U);
}

/// How an executable graph took over another graph's contents.
enum class graph_update_result {
  updated,         ///< updated in place
  reinstantiated,  ///< CUDA could not update it, so it was instantiated again, at many times the
                   ///< cost
  refused          ///< CUDA could not update it, and it is unchanged (graph_exec::try_update)
};

/// The outcome of an update, and why CUDA could not do it in place.
struct graph_update {
  graph_update_result result = graph_update_result::updated;
  cudaGraphExecUpdateResult reason = cudaGraphExecUpdateSuccess;  ///< CUDA's
  /// The node of the new graph at which CUDA stopped; null if it names none, as for another number
  /// of nodes. Valid as long as that graph.
  cudaGraphNode_t node = nullptr;
  std::string kernel;  ///< the kernel of that node, mangled; empty where CUDA does not tell

  /// @return the reason in words, without its end of sentence
  [[nodiscard]] char const* reason_text() const noexcept;
  friend bool operator==(graph_update const& a, graph_update_result b) noexcept {
    return a.result == b;
  }
  friend bool operator!=(graph_update const& a, graph_update_result b) noexcept {
    return a.result != b;
  }
};

/// An owning executable graph.
/// **Threads:** one at a time; launches of one executable graph do not overlap on the device.
class graph_exec {
 public:
  /// An empty object: only assignment, get() and destruction are legal.
  graph_exec() noexcept = default;
  /// Instantiates a graph.
  /// @param source  may be destroyed afterwards, unless enable() is used
  /// @param flags   options, without graph_flags::upload
  /// @throws std::invalid_argument  for graph_flags::upload, which needs a stream
  /// @throws cuda_error             if the call fails, for instance for lack of memory
  /// **Capture:** legal while other streams capture, also in this thread. **Cost:** one CUDA call
  /// whose time grows with the number of nodes, and two cheap ones; do it at start-up.
  explicit graph_exec(graph const& source, graph_flags flags = graph_flags::none,
                      source_location where = source_location::current())
      : flags_{checked(flags, where)}, handle_{instantiate(source, flags, where)} {}
  /// As above.
  graph_exec(graph const& source, source_location where)
      : graph_exec{source, graph_flags::none, where} {}
  /// Instantiates a graph and uploads it in one CUDA call, so that its first launch is as fast as
  /// later ones.
  /// @param upload_stream  the upload is ordered on it; not capturing
  /// @throws cuda_error  if the call fails, for instance for lack of memory
  /// **Stream:** does not block. **Capture:** not legal on `upload_stream`.
  graph_exec(graph const& source, stream_ref upload_stream, graph_flags flags = graph_flags::none,
             source_location where = source_location::current());
  graph_exec(graph_exec&& other) noexcept
      : flags_{other.flags_}, handle_{detail::exchange(other.handle_, nullptr)} {}
  graph_exec& operator=(graph_exec&& other) noexcept {
    detail::swap(handle_, other.handle_);
    detail::swap(flags_, other.flags_);
    return *this;
  }
  /// Launches already made still run to completion.
  ~graph_exec() { destroy(handle_); }

  /// @return the CUDA handle; null for an empty object
  [[nodiscard]] cudaGraphExec_t get() const noexcept { return handle_; }

  /// Launches the graph once.
  /// @throws cuda_error  when the launch fails; for a graph that did not free what its previous
  ///   launch allocated, with the remedy
  /// **Stream:** ordered on `stream` and after this object's earlier launches; does not block.
  /// **Capture:** not legal: CUDA cannot launch a graph into a capture, which becomes invalid. Call
  /// what the graph was captured from instead. **Cost:** one CUDA call.
  void launch(stream_ref stream, source_location where = source_location::current()) {
    cudaError_t const status = cudaGraphLaunch(handle_, stream.get());
    if (status != cudaSuccess) throw_launch_error(status, where);
  }

  /// Uploads the executable graph to the device, so that the first launch is as fast as later ones.
  /// @throws cuda_error  if the call fails
  /// **Stream:** ordered on `stream`; does not block. **Capture:** not legal.
  void upload(stream_ref stream, source_location where = source_location::current()) {
    check(cudaGraphUpload(handle_, stream.get()), "cudaGraphUpload", where);
  }

  /// Switches a node on or off in later launches: an optional part of a step, without an update or
  /// a second graph. What depends on a node that is off runs as if it had completed.
  /// @pre the graph of which this object was instantiated exists, and `node` is one of its kernel,
  ///   copy and fill nodes: capture_scope::last_node() returns it while capturing
  /// @param node  a node of that graph, also after an update
  /// @param on    whether later launches run it
  /// @throws cuda_error  for a node of another kind or of another graph
  /// **Stream:** launches already made are not changed. **Cost:** one CUDA call.
  void enable(cudaGraphNode_t node, bool on, source_location where = source_location::current()) {
    check(cudaGraphNodeSetEnabled(handle_, node, on ? 1U : 0U), "cudaGraphNodeSetEnabled", where);
  }
  /// Returns whether launches run a node; see enable().
  /// @throws cuda_error  for a node of another kind or of another graph
  [[nodiscard]] bool enabled(cudaGraphNode_t node,
                             source_location where = source_location::current()) const {
    unsigned on = 0;
    check(cudaGraphNodeGetEnabled(handle_, node, &on), "cudaGraphNodeGetEnabled", where);
    return on != 0;
  }

  /// Replaces the contents by those of `source`: in place if CUDA can, else by instantiating again
  /// with the same flags.
  /// @return which of the two was done, and why not in place
  /// @throws cuda_error  if neither works; the executable graph is then unchanged
  /// **Stream:** launches already made keep the old contents. **Cost:** in place one CUDA call,
  /// much less than an instantiation; otherwise that call and an instantiation.
  graph_update update(graph const& source, source_location where = source_location::current());

  /// Replaces the contents by those of `source` in place, or leaves them unchanged.
  /// @return `updated` or `refused`, and why
  /// @throws cuda_error  if the call fails for another reason than a difference of the graphs
  /// **Stream:** launches already made keep the old contents. **Cost:** one CUDA call; a few more
  /// to find the kernel's name when it is refused.
  graph_update try_update(graph const& source, source_location where = source_location::current());

 private:
  static graph_flags checked(graph_flags flags, source_location where);
  static cudaGraphExec_t instantiate(graph const& source, graph_flags flags, source_location where);
  // In a capture of this thread the call would fail, and make the capture invalid.
  static void destroy(cudaGraphExec_t handle) noexcept;
  [[noreturn]] WARPWRIGHT_COLD void throw_launch_error(cudaError_t status,
                                                       source_location where) const;

  graph_flags flags_ = graph_flags::none;
  cudaGraphExec_t handle_ = nullptr;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/graph_exec_definitions.hpp>
#endif
