// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/capture/conditional_node.hpp>

WARPWRIGHT_BEGIN

namespace detail {

[[noreturn]] WARPWRIGHT_INLINE void throw_no_conditional_nodes(source_location where) {
  throw_cuda_error(cudaErrorNotSupported, "conditional node", where,
                   "a graph has them with a toolkit and a driver of CUDA 12.4 or newer: run this "
                   "step without capturing it");
}

WARPWRIGHT_INLINE void require_conditional_nodes(source_location where) {
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion", where);
  if (!WARPWRIGHT_HAS_CONDITIONAL_NODES || version < 12040) throw_no_conditional_nodes(where);
}

#if WARPWRIGHT_HAS_CONDITIONAL_NODES

WARPWRIGHT_INLINE cudaGraphConditionalHandle make_condition(cudaGraph_t graph,
                                                            source_location where) {
  cudaGraphConditionalHandle handle = 0;
  // A kernel sets the value before the node reads it, so there is no default.
  cudaError_t const status = cudaGraphConditionalHandleCreate(&handle, graph, 0, 0);
  if (status == cudaErrorNotSupported) throw_no_conditional_nodes(where);
  check_capture(status, "cudaGraphConditionalHandleCreate", where);
  return handle;
}

WARPWRIGHT_INLINE cudaGraph_t add_conditional(stream_ref stream, cudaGraphConditionalHandle handle,
                                              cudaGraphConditionalNodeType type,
                                              source_location where) {
  capture_position const at = capture_position_of(stream, where);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = type;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
  check_capture(cudaGraphAddNode(&node, at.graph, at.tail, at.edges, at.tail_size, &parameters),
                "cudaGraphAddNode", where);
#else
  check_capture(cudaGraphAddNode_v2(&node, at.graph, at.tail, at.edges, at.tail_size, &parameters),
                "cudaGraphAddNode", where);
#endif
  set_capture_tail(stream, &node, nullptr, 1, where);
  return parameters.conditional.phGraph_out[0];
}

WARPWRIGHT_INLINE body_capture::body_capture(cudaGraph_t body, device_id device,
                                             source_location where)
    : branch_{lease_branch(device, where)} {
  counted_.begin();
  // Relaxed: the capture around this one forbids the thread's calls already, by its own mode.
  cudaError_t const status = cudaStreamBeginCaptureToGraph(
      branch_->owner.get(), body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed);
  if (status != cudaSuccess) return_branches(branch_);
  check_capture(status, "cudaStreamBeginCaptureToGraph", where);
}

WARPWRIGHT_INLINE cudaError_t body_capture::finish() noexcept {
  cudaGraph_t body = nullptr;  // the node's
  cudaError_t const status = cudaStreamEndCapture(branch_->owner.get(), &body);
  return_branches(branch_);
  branch_ = nullptr;
  counted_.end();
  return status;
}

#endif  // WARPWRIGHT_HAS_CONDITIONAL_NODES

}  // namespace detail

WARPWRIGHT_END
