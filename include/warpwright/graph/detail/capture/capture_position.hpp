// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the next work of a capturing stream depends on: CUDA replaces it by each captured node, and
// a wait for an event only adds to it.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/graph/detail/capture/capture_rules.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// The graph that a stream is capturing into, and what its next work depends on. The arrays are
/// CUDA's, valid until the stream's next call.
struct capture_position {
  cudaGraph_t graph = nullptr;  // null: the stream does not capture
  unsigned long long id = 0;    // the capture's, unique in the process
  cudaGraphNode_t const* tail = nullptr;
  std::size_t tail_size = 0;
#if CUDART_VERSION >= 12030
  cudaGraphEdgeData const* edges = nullptr;
#endif
};

capture_position capture_position_of(stream_ref stream, source_location where);

#if CUDART_VERSION >= 12030

/// Replaces what the next work of a capturing stream depends on. @param edges  null: plain ones
void set_capture_tail(stream_ref stream, cudaGraphNode_t const* nodes,
                      cudaGraphEdgeData const* edges, std::size_t count, source_location where);

/// What a stream depended on when others were forked from it, a copy. Once joined, these depend on
/// it too: without it, the edges of a row of forks do not grow with the square of their number.
class fork_point {
 public:
  fork_point() noexcept = default;
  fork_point(stream_ref stream, source_location where);
  fork_point(fork_point&& other) noexcept = default;
  fork_point& operator=(fork_point&& other) noexcept {
    nodes_.swap(other.nodes_);
    edges_.swap(other.edges_);
    return *this;
  }

  /// Lets another stream depend on this alone.
  void apply_to(stream_ref stream, source_location where) const {
    set_capture_tail(stream, nodes_.begin(), edges_.begin(), nodes_.size(), where);
  }
  /// Whether a stream that was forked here has captured a node since, which depends on all of this.
  [[nodiscard]] bool is_behind(stream_ref forked, source_location where) const;
  /// Removes this from what `stream` depends on.
  /// @pre it depends on a stream for which is_behind() is true
  void remove_from(stream_ref stream, source_location where) const;

 private:
  [[nodiscard]] bool has(cudaGraphNode_t node) const noexcept {
    for (cudaGraphNode_t const each : nodes_) {
      if (each == node) return true;
    }
    return false;
  }

  array<cudaGraphNode_t> nodes_;
  array<cudaGraphEdgeData> edges_;
};

#else

// Older toolkits have no edge data: joined streams keep the edges that they do not need.
struct fork_point {
  fork_point() noexcept = default;
  fork_point(stream_ref, source_location) noexcept {}
  static void apply_to(stream_ref, source_location) noexcept {}
  static bool is_behind(stream_ref, source_location) noexcept { return false; }
  static void remove_from(stream_ref, source_location) noexcept {}
};

#endif

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/capture/capture_position_definitions.hpp>
#endif
