// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Conditional nodes of a capture (CUDA Programming Guide, "Conditional Graph Nodes").
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/launch/set_condition.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/graph/detail/capture/branch_streams.hpp>
#include <warpwright/graph/detail/capture/capture_position.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// @throws cuda_error  where this toolkit or driver has no conditional nodes
void require_conditional_nodes(source_location where);

#if WARPWRIGHT_HAS_CONDITIONAL_NODES

cudaGraphConditionalHandle make_condition(cudaGraph_t graph, source_location where);

/// Adds a conditional node behind what the stream has captured, and orders its later work behind
/// the node.
/// @return the node's body, an empty graph that the node owns
cudaGraph_t add_conditional(stream_ref stream, cudaGraphConditionalHandle handle,
                            cudaGraphConditionalNodeType type, source_location where);

/// A capture, on a leased stream, of a conditional node's body.
class body_capture : noncopyable {
 public:
  body_capture(cudaGraph_t body, device_id device, source_location where);
  ~body_capture() {
    if (branch_ != nullptr) discard(finish());
  }

  [[nodiscard]] stream_ref stream() const noexcept { return branch_->owner.ref(); }
  void end(source_location where) { check_capture(finish(), "cudaStreamEndCapture", where); }

 private:
  cudaError_t finish() noexcept;

  branch_stream* branch_;
  counted_capture counted_;
};

#endif  // WARPWRIGHT_HAS_CONDITIONAL_NODES

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/capture/conditional_node_definitions.hpp>
#endif
