// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/graph/detail/kernel_name.hpp>
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
  [[nodiscard]] char const* reason_text() const noexcept {
    switch (static_cast<int>(reason)) {  // a later toolkit may have more
      case cudaGraphExecUpdateSuccess:
        return "updated in place";
      case cudaGraphExecUpdateErrorTopologyChanged:
        return "the number of nodes or their dependencies changed";
      case cudaGraphExecUpdateErrorNodeTypeChanged:
        return "a node became one of another type";
      case cudaGraphExecUpdateErrorFunctionChanged:
        return "a kernel was replaced by one that the driver cannot exchange";
      case cudaGraphExecUpdateErrorParametersChanged:
        return "a parameter changed that cannot be updated, such as the kind or the devices of a "
               "copy";
      case cudaGraphExecUpdateErrorNotSupported:
        return "a node of a type that cannot be updated changed, such as a memory node";
      case cudaGraphExecUpdateErrorUnsupportedFunctionChange:
        return "a kernel was replaced by one of another context, or with other launch features";
      case cudaGraphExecUpdateErrorAttributesChanged:
        return "a launch attribute of a kernel changed that cannot be updated";
      default:
        return "CUDA does not say why";
    }
  }
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
  graph_update update(graph const& source, source_location where = source_location::current()) {
    graph_update outcome = try_update(source, where);
    if (outcome.result == graph_update_result::updated) return outcome;
    cudaGraphExec_t const replacement = instantiate(source, flags_, where);
    destroy(detail::exchange(handle_, replacement));
    outcome.result = graph_update_result::reinstantiated;
    return outcome;
  }

  /// Replaces the contents by those of `source` in place, or leaves them unchanged.
  /// @return `updated` or `refused`, and why
  /// @throws cuda_error  if the call fails for another reason than a difference of the graphs
  /// **Stream:** launches already made keep the old contents. **Cost:** one CUDA call; a few more
  /// to find the kernel's name when it is refused.
  graph_update try_update(graph const& source, source_location where = source_location::current()) {
    cudaGraphExecUpdateResultInfo info{};
    cudaError_t const status = cudaGraphExecUpdate(handle_, source.get(), &info);
    graph_update outcome;
    if (status == cudaSuccess) return outcome;
    if (status != cudaErrorGraphExecUpdateFailure) check(status, "cudaGraphExecUpdate", where);
    static_cast<void>(cudaGetLastError());  // expected: the last error must not remain
    outcome.result = graph_update_result::refused;
    outcome.reason = info.result;
    outcome.node = info.errorNode;
    outcome.kernel = detail::kernel_name(info.errorNode);
    return outcome;
  }

 private:
  static graph_flags checked(graph_flags flags, source_location where) {
    if ((flags & graph_flags::upload) != graph_flags::none) {
      detail::throw_invalid_argument(
          "graph_exec: graph_flags::upload needs a stream: use graph_exec{graph, stream, flags}",
          where);
    }
    return flags;
  }

  static cudaGraphExec_t instantiate(graph const& source, graph_flags flags,
                                     source_location where) {
    detail::relaxed_capture_mode const allowed{where};
    cudaGraphExec_t handle = nullptr;
    check(cudaGraphInstantiate(&handle, source.get(), static_cast<unsigned long long>(flags)),
          "cudaGraphInstantiate", where);
    return handle;
  }

  // In a capture of this thread the call would fail, and make the capture invalid.
  static void destroy(cudaGraphExec_t handle) noexcept {
    if (handle == nullptr) return;
    detail::relaxed_capture_mode const allowed;
    detail::discard(cudaGraphExecDestroy(handle));
  }

  [[noreturn]] WARPWRIGHT_COLD void throw_launch_error(cudaError_t status,
                                                       source_location where) const {
    char const* advice = nullptr;
    if (handle_ == nullptr) {
      advice = "the graph_exec is empty: it was default-constructed or moved from";
    } else if (status == cudaErrorInvalidValue) {
      advice =
          "if the graph allocates memory that it does not free, free it before the next launch, or "
          "instantiate with graph_flags::auto_free_on_launch";
    } else if (status == cudaErrorStreamCaptureUnsupported) {
      advice =
          "the stream is capturing, and CUDA cannot launch a graph into a capture: call the code "
          "that the graph was captured from instead";
    }
    detail::throw_cuda_error(status, "cudaGraphLaunch", where, advice);
  }

  graph_flags flags_ = graph_flags::none;
  cudaGraphExec_t handle_ = nullptr;
};

inline graph_exec::graph_exec(graph const& source, stream_ref upload_stream, graph_flags flags,
                              source_location where)
    : flags_{checked(flags & ~graph_flags::upload, where)} {
  detail::relaxed_capture_mode const allowed{where};
  cudaGraphInstantiateParams parameters{};
  parameters.flags = static_cast<unsigned long long>(flags_ | graph_flags::upload);
  parameters.uploadStream = upload_stream.get();
  check(cudaGraphInstantiateWithParams(&handle_, source.get(), &parameters),
        "cudaGraphInstantiateWithParams", where);
}

WARPWRIGHT_END
