// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/graph/detail/cache/cached_shape.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// Graphs that are not launched any more, until their last launch has completed. That is known from
/// an event behind it, which is recorded when a call passes the stream of that launch: the stream
/// may not exist at any other time.
///
/// There are few whose stream has not been seen, few in all, and they fit a budget: others are
/// destroyed at once. CUDA then frees a running one when it has completed.
class retired_graphs {
 public:
  static constexpr std::size_t most = 64;
  static constexpr std::size_t most_unmarked = 8;

  retired_graphs() noexcept = default;
  retired_graphs(retired_graphs const&) = delete;
  retired_graphs& operator=(retired_graphs const&) = delete;
  ~retired_graphs() { clear(); }

  /// Makes room for `count` graphs more, so that add() cannot fail.
  void reserve(std::size_t count) { rows_.reserve(rows_.size() + count); }
  /// Takes a graph that no thread launches. @pre reserve()
  void add(cached_graph* retired) noexcept;
  /// Records events on the stream of the present call for graphs that wait for one, and destroys
  /// those whose last launch has completed, on whichever stream; then the oldest, until the rest
  /// need at most so much memory.
  void poll(cudaStream_t stream, std::uint64_t stream_id, cached_bytes const& most_bytes) noexcept;
  /// Destroys all but those that are known to run.
  void trim() noexcept;
  void clear() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

 private:
  struct row {
    cached_graph* retired;
    event* completed;
  };

  static void mark(row& r, cudaStream_t stream) noexcept;
  static bool is_complete(row const& r) noexcept;
  // The oldest first.
  template <class Condition>
  void drop_if(Condition&& condition) noexcept;
  array<row> rows_;
  cached_bytes bytes_;
};

}  // namespace detail

WARPWRIGHT_END
