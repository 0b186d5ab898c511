// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/detail/cache/bindings.hpp>
#include <warpwright/graph/graph_exec.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

WARPWRIGHT_BEGIN

/// Captures the body of a loop once and replays it.
///
/// A replay uses the pointers and scalars of the capture. What changes from step to step is passed
/// to run() as further arguments, which are compared at each call; or call recapture(). Memory that
/// the body uses must stay allocated while replays run; what the body allocates from a memory_pool
/// does, as it belongs to the graph. A graph_cache does the same for many shapes.
/// **Threads:** one at a time.
class graph_replay {
 public:
  /// The number of times that each step was done.
  struct counts {
    std::uint64_t eager_runs = 0;  ///< warm-up steps, run without a graph
    std::uint64_t captures = 0;
    std::uint64_t instantiations = 0;
    std::uint64_t updates = 0;  ///< recaptures that updated the executable graph in place
    std::uint64_t launches = 0;
  };

  /// @param warmups  the number of first calls of run() that run without a graph. Use at least 1
  ///   for work that initialises itself at its first use (libraries' workspaces, lazily loaded
  ///   kernels), which is not legal while capturing
  /// @param mode     which threads' illegal calls invalidate a capture
  /// @param flags    of the instantiation, without graph_flags::upload
  explicit graph_replay(unsigned warmups, capture_mode mode = capture_mode::thread,
                        graph_flags flags = graph_flags::none) noexcept
      : warmups_{warmups}, mode_{mode}, flags_{flags} {}
  /// As above, with one warm-up.
  graph_replay() noexcept : graph_replay{1} {}

  /// Runs one step: eagerly during the warm-up; then it captures `body` once; then it only replays.
  /// @param stream  any but the legacy default stream; may differ from call to call
  /// @param body    body(capture_scope&) or body(stream_ref); not called any more once captured
  /// @throws what capture() throws, and cuda_error when instantiation or launch fails, or for an
  ///   error that the body leaves pending in a warm-up
  /// **Stream:** the step is ordered on `stream`; does not block. **Capture:** not legal: call the
  /// body instead. **Cost:** once captured, one CUDA call for any number of kernels.
  template <class Body>
  void run(stream_ref stream, Body&& body, source_location where = source_location::current()) {
    if (warming_up()) {
      run_eagerly(stream, body, where);
      return;
    }
    if (exec_.get() == nullptr) recapture(stream, body, where);
    launch(stream, where);
  }

  /// As above, with arguments that may change: the body is captured again when they do.
  /// @param stream    a stream, stream_ref or capture_scope
  /// @param body      body(capture_scope&, arguments...) or body(stream_ref, arguments...)
  /// @param argument  trivially copyable values, as pointers and numbers; compared by their bytes.
  ///   Compiled by clang, a change of a structure's padding makes a needless capture
  /// @throws as above
  /// **Memory:** while the body is captured again the graph before it keeps its memory: a pool with
  /// a limit needs room for both.
  /// **Cost:** as above, and a comparison of the arguments' bytes. When they have changed, a
  /// capture and an update, in place if CUDA can.
  template <class Body, class Argument, class... Arguments,
            class = std::enable_if_t<!std::is_same<Argument, source_location>::value>>
  void run(detail::stream_argument stream, Body&& body, Argument const& argument,
           Arguments const&... arguments) {
    static_assert((std::is_trivially_copyable<Argument>::value && ... &&
                   std::is_trivially_copyable<Arguments>::value),
                  "warpwright: graph_replay::run compares its arguments by their bytes: pass "
                  "trivially copyable values, such as buffer.data() and buffer.size()");
    auto const with_arguments = [&](capture_scope& scope) {
      detail::call_body(body, scope, argument, arguments...);
    };
    if (warming_up()) {
      run_eagerly(stream.stream, with_arguments, stream.where);
      return;
    }
    detail::words_of_arguments<true, Argument, Arguments...> const words{argument, arguments...};
    if (exec_.get() == nullptr || bound_.size() != words.count ||
        !detail::same_words(bound_.begin(), words.data(), words.count)) {
      recapture(stream.stream, with_arguments, stream.where);
      bound_.resize(words.count);
      std::memcpy(bound_.begin(), words.data(), sizeof words);
    }
    launch(stream.stream, stream.where);
  }

  /// Captures `body` and replaces the replayed graph by it, in place if CUDA can. Does not launch.
  /// @return whether the executable graph was updated or instantiated (as at the first capture)
  /// @throws what capture() throws, and cuda_error; the replayed graph is then unchanged
  /// **Cost:** a capture, and an update or an instantiation; no call for each node.
  template <class Body>
  graph_update_result recapture(stream_ref stream, Body&& body,
                                source_location where = source_location::current()) {
    bound_.clear();
    capture_scope scope{stream, mode_, where};
    detail::call_captured(body, scope);
    return adopt(scope.end(where), where);
  }

  /// Replays the captured graph.
  /// @throws std::invalid_argument  when nothing has been captured
  /// @throws cuda_error             when the launch fails
  /// **Stream:** ordered on `stream`; does not block. **Cost:** one CUDA call.
  void launch(stream_ref stream, source_location where = source_location::current()) {
    if (exec_.get() == nullptr) {
      detail::throw_invalid_argument(
          "graph_replay::launch: nothing has been captured: call recapture() or run() first",
          where);
    }
    exec_.launch(stream, where);
    ++counts_.launches;
  }

  /// Destroys the graph: the next run() captures again, without a warm-up.
  void reset() noexcept {
    exec_ = graph_exec{};
    captured_ = graph{nullptr};
    bound_.clear();
  }

  /// @return whether there is a graph to replay
  [[nodiscard]] bool captured() const noexcept { return exec_.get() != nullptr; }
  /// @return how often each step was done
  [[nodiscard]] counts statistics() const noexcept { return counts_; }
  /// @return the outcome of the last update, with the reason if it was not in place
  [[nodiscard]] graph_update const& last_update() const noexcept { return last_update_; }
  /// @return the last captured graph; empty if there is none
  [[nodiscard]] graph const& captured_graph() const noexcept { return captured_; }
  /// Counts the nodes of the last capture by kind.
  /// @throws cuda_error  when a query fails
  /// **Cost:** one CUDA call per node.
  [[nodiscard]] graph_node_counts node_counts(
      source_location where = source_location::current()) const {
    return captured_.get() == nullptr ? graph_node_counts{} : captured_.node_counts(where);
  }

 private:
  bool warming_up() const noexcept {
    return exec_.get() == nullptr && counts_.eager_runs < warmups_;
  }
  template <class Body>
  void run_eagerly(stream_ref stream, Body& body, source_location where) {
    capture_scope::check_stream(stream, where);
    bool const had_error = cudaPeekAtLastError() != cudaSuccess;
    capture_scope scope{stream, capture_scope::without_capture{}};
    detail::call_body(body, scope);
    scope.join_all(where);
    // A capture could not tell it from an error of its own body.
    if (!had_error) detail::check_pending("the body of graph_replay", where);
    ++counts_.eager_runs;
  }

  graph_update_result adopt(graph captured, source_location where) {
    graph_update outcome;
    if (exec_.get() == nullptr) {
      exec_ = graph_exec{captured, flags_, where};
      outcome.result = graph_update_result::reinstantiated;
    } else {
      outcome = exec_.update(captured, where);
    }
    ++counts_.captures;
    ++(outcome.result == graph_update_result::updated ? counts_.updates : counts_.instantiations);
    captured_ = static_cast<graph&&>(captured);
    last_update_ = static_cast<graph_update&&>(outcome);
    last_update_.node = nullptr;  // of the graph that is destroyed at the next capture
    return last_update_.result;
  }

  graph_exec exec_;
  graph captured_{nullptr};
  unsigned warmups_;
  capture_mode mode_;
  graph_flags flags_;
  counts counts_;
  graph_update last_update_;
  detail::array<std::uint64_t> bound_;  // the arguments of the capture
};

WARPWRIGHT_END
