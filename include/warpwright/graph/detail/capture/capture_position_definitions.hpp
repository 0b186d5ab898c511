// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/capture/capture_position.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE capture_position capture_position_of(stream_ref stream, source_location where) {
  capture_position at;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
#if CUDART_VERSION >= 13000
  cudaError_t const result = cudaStreamGetCaptureInfo(stream.get(), &status, &at.id, &at.graph,
                                                      &at.tail, &at.edges, &at.tail_size);
#elif CUDART_VERSION >= 12030
  cudaError_t const result = cudaStreamGetCaptureInfo_v3(stream.get(), &status, &at.id, &at.graph,
                                                         &at.tail, &at.edges, &at.tail_size);
#else
  cudaError_t const result = cudaStreamGetCaptureInfo_v2(stream.get(), &status, &at.id, &at.graph,
                                                         &at.tail, &at.tail_size);
#endif
  check_capture(result, "cudaStreamGetCaptureInfo", where);
  if (status == cudaStreamCaptureStatusInvalidated) {
    check_capture(cudaErrorStreamCaptureInvalidated, "cudaStreamGetCaptureInfo", where);
  }
  return at;
}

#if CUDART_VERSION >= 12030

WARPWRIGHT_INLINE void set_capture_tail(stream_ref stream, cudaGraphNode_t const* nodes,
                                        cudaGraphEdgeData const* edges, std::size_t count,
                                        source_location where) {
  auto* const tail = const_cast<cudaGraphNode_t*>(nodes);  // CUDA only reads them
#if CUDART_VERSION >= 13000
  cudaError_t const result = cudaStreamUpdateCaptureDependencies(stream.get(), tail, edges, count,
                                                                 cudaStreamSetCaptureDependencies);
#else
  cudaError_t const result = cudaStreamUpdateCaptureDependencies_v2(
      stream.get(), tail, edges, count, cudaStreamSetCaptureDependencies);
#endif
  check_capture(result, "cudaStreamUpdateCaptureDependencies", where);
}

WARPWRIGHT_INLINE fork_point::fork_point(stream_ref stream, source_location where) {
  capture_position const at = capture_position_of(stream, where);
  nodes_.reserve(at.tail_size);
  edges_.reserve(at.tail_size);
  for (std::size_t i = 0; i < at.tail_size; ++i) {
    nodes_.push_back(at.tail[i]);
    edges_.push_back(at.edges != nullptr ? at.edges[i] : cudaGraphEdgeData{});
  }
}

WARPWRIGHT_INLINE bool fork_point::is_behind(stream_ref forked, source_location where) const {
  if (nodes_.empty()) return false;
  capture_position const at = capture_position_of(forked, where);
  for (std::size_t i = 0; i < at.tail_size; ++i) {
    if (has(at.tail[i])) return false;
  }
  return at.tail_size != 0;
}

WARPWRIGHT_INLINE void fork_point::remove_from(stream_ref stream, source_location where) const {
  fork_point now{stream, where};
  std::size_t kept = 0;
  for (std::size_t i = 0; i < now.nodes_.size(); ++i) {
    if (has(now.nodes_[i])) continue;
    now.nodes_[kept] = now.nodes_[i];
    now.edges_[kept++] = now.edges_[i];
  }
  if (kept != now.nodes_.size()) {
    set_capture_tail(stream, now.nodes_.begin(), now.edges_.begin(), kept, where);
  }
}

#endif

}  // namespace detail

WARPWRIGHT_END
