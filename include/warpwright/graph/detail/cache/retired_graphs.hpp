// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/device_id.hpp>
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
  void add(cached_graph* retired) noexcept {
    if (retired->last_launch == 0) {
      destroy(retired);
      return;
    }
    rows_.emplace_back(row{retired, nullptr});
    bytes_ += retired->bytes;
  }
  /// Records events on the stream of the present call for graphs that wait for one, and destroys
  /// those whose last launch has completed, on whichever stream; then the oldest, until the rest
  /// need at most so much memory.
  void poll(cudaStream_t stream, std::uint64_t stream_id, cached_bytes const& most_bytes) noexcept {
    if (rows_.empty()) return;
    relaxed_capture_mode const relaxed;
    for (row& r : rows_) {
      if (r.completed == nullptr && r.retired->stream_id == stream_id) mark(r, stream);
    }
    drop_if([](row const& r) { return is_complete(r); });
    std::size_t left = rows_.size();
    std::size_t unmarked = 0;
    for (row const& r : rows_) unmarked += r.completed == nullptr ? 1 : 0;
    drop_if([&](row const& r) {
      bool const known = r.completed != nullptr;
      bool const fits = left <= most && bytes_.fits(most_bytes);
      if (fits && (known || unmarked <= most_unmarked)) return false;
      --left;
      if (!known) --unmarked;
      return true;
    });
  }
  /// Destroys all but those that are known to run.
  void trim() noexcept {
    if (rows_.empty()) return;
    relaxed_capture_mode const relaxed;
    drop_if([](row const& r) { return r.completed == nullptr || is_complete(r); });
  }
  void clear() noexcept {
    if (rows_.empty()) return;
    relaxed_capture_mode const relaxed;
    drop_if([](row const&) { return true; });
  }
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

 private:
  struct row {
    cached_graph* retired;
    event* completed;
  };

  static void mark(row& r, cudaStream_t stream) noexcept {
    try {
      scoped_device const scope{device_id{r.retired->device}};
      r.completed = new event{};
      r.completed->record(stream);
    } catch (...) {
      delete r.completed;
      r.completed = nullptr;
    }
  }
  static bool is_complete(row const& r) noexcept {
    if (r.completed == nullptr) return false;
    cudaError_t const status = cudaEventQuery(r.completed->get());
    discard(status);
    return status != cudaErrorNotReady;
  }
  // The oldest first.
  template <class Condition>
  void drop_if(Condition&& condition) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (condition(rows_[i])) {
        bytes_ -= rows_[i].retired->bytes;
        drop(rows_[i]);
      } else {
        rows_[kept++] = rows_[i];
      }
    }
    while (rows_.size() > kept) rows_.pop_back();
  }
  static void drop(row& r) noexcept {
    delete r.completed;
    delete r.retired;
  }
  static void destroy(cached_graph* retired) noexcept {
    relaxed_capture_mode const relaxed;
    delete retired;
  }

  array<row> rows_;
  cached_bytes bytes_;
};

}  // namespace detail

WARPWRIGHT_END
