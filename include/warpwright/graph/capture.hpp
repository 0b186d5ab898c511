// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture_count.hpp>
#include <warpwright/graph/graph.hpp>

#include <cstdint>
#include <utility>

WARPWRIGHT_BEGIN

/// Which threads' illegal calls (cudaMalloc, a synchronisation, …) invalidate a capture.
enum class capture_mode {
  thread,  ///< the capturing thread's: the default; does not check a library's own threads
  global,  ///< those of all threads of the process
  relaxed  ///< none: such a call runs immediately and is not part of the graph
};

namespace detail {

inline cudaStreamCaptureMode to_cuda(capture_mode mode) noexcept {
  switch (mode) {
    case capture_mode::global:
      return cudaStreamCaptureModeGlobal;
    case capture_mode::relaxed:
      return cudaStreamCaptureModeRelaxed;
    case capture_mode::thread:
      break;
  }
  return cudaStreamCaptureModeThreadLocal;
}

// The remedy for each capture error (CUDA runtime API, cudaError_t 900 to 908).
inline char const* capture_advice(cudaError_t code) noexcept {
  switch (code) {
    case cudaErrorStreamCaptureUnsupported:
      return "the call cannot be captured: make it before the capture, or capture a stream other "
             "than the legacy default stream";
    case cudaErrorStreamCaptureInvalidated:
      return "an earlier call invalidated the capture: look for cudaMalloc, cudaFree, a "
             "synchronisation, a query, or work on the legacy default stream in the body";
    case cudaErrorStreamCaptureMerge:
      return "the stream waited for a stream of another capture: two captures must not depend on "
             "each other";
    case cudaErrorStreamCaptureUnmatched:
      return "the capture must be ended on the stream where it began";
    case cudaErrorStreamCaptureUnjoined:
      return "another stream was forked into the capture and not joined: use capture_scope::fork, "
             "which capture_scope::end joins, or make the capturing stream wait for it";
    case cudaErrorStreamCaptureIsolation:
      return "the capturing stream waited for an event recorded outside of the capture: wait "
             "before the capture begins";
    case cudaErrorStreamCaptureImplicit:
      return "work on the legacy default stream would depend on the capture: pass a stream to "
             "every call";
    case cudaErrorCapturedEvent:
      return "an event recorded in a capture can only be waited for in the same capture";
    case cudaErrorStreamCaptureWrongThread:
      return "a thread-local capture must be ended by the thread that began it";
    default:
      return nullptr;
  }
}

inline void check_capture(cudaError_t status, char const* api, source_location where) {
  if (status != cudaSuccess) throw_cuda_error(status, api, where, capture_advice(status));
}

}  // namespace detail

/// An active capture: it begins in the constructor and ends in end(), or in the destructor if an
/// exception is thrown. Most code uses capture() or graph_replay, which pass one to the body.
///
/// Memory that is allocated from a memory_pool meanwhile, on a stream of the capture, belongs to
/// the graph until the graph and all its executables are destroyed.
/// **Threads:** use it on the thread that constructed it.
class capture_scope {
 public:
  /// Begins a capture.
  /// @param stream  not the legacy default stream, and not capturing already
  /// @param mode    which threads' illegal calls invalidate the capture
  /// @throws std::invalid_argument  for the legacy default stream or a stream that is capturing
  /// @throws cuda_error             if the call fails
  explicit capture_scope(stream_ref stream, capture_mode mode = capture_mode::thread,
                         source_location where = source_location::current())
      : stream_{stream} {
    check_stream(stream, where);
    counted_.begin();
    detail::check_capture(cudaStreamBeginCapture(stream.get(), detail::to_cuda(mode)),
                          "cudaStreamBeginCapture", where);
    active_ = true;
  }
  /// Discards the capture if end() was not called; the stream is then not capturing.
  ~capture_scope() {
    if (eager_) {
      // The body threw: join its forks, since its objects free the memory that the forked work
      // uses.
      for (forked& fork : forks_) {
        detail::discard(cudaEventRecord(fork.marker.get(), fork.stream.get()));
        detail::discard(cudaStreamWaitEvent(stream_.get(), fork.marker.get(), 0));
      }
    }
    if (!active_) return;
    cudaGraph_t abandoned = nullptr;
    detail::discard(cudaStreamEndCapture(stream_.get(), &abandoned));
    if (abandoned != nullptr) detail::discard(cudaGraphDestroy(abandoned));
  }
  capture_scope(capture_scope const&) = delete;
  capture_scope& operator=(capture_scope const&) = delete;

  /// @return the capturing stream
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// The capturing stream, so that a body may take a stream_ref.
  operator stream_ref() const noexcept { return stream_; }

  /// Forks another stream into the capture: its later work waits for the work of the capturing
  /// stream so far, and can run concurrently with that stream's later work. join() or end() joins
  /// it.
  /// @param other  a stream of the same device that is not capturing; it must exist until end()
  /// @throws cuda_error  if a call fails
  /// **Stream:** orders `other` after the capturing stream; does not block. **Cost:** creates an
  /// event.
  void fork(stream_ref other, source_location where = source_location::current()) {
    forks_.reserve(forks_.size() + 1);
    event marker{where};
    detail::check_capture(cudaEventRecord(marker.get(), stream_.get()), "cudaEventRecord", where);
    detail::check_capture(cudaStreamWaitEvent(other.get(), marker.get(), 0), "cudaStreamWaitEvent",
                          where);
    forks_.emplace_back(other, std::move(marker));
  }

  /// Makes later work of the capturing stream wait for the work of `other` so far.
  /// @param other  a stream passed to fork()
  /// @throws std::invalid_argument  for a stream that was not forked, or was joined already
  /// @throws cuda_error             if a call fails
  /// **Stream:** orders the capturing stream after `other`; does not block.
  void join(stream_ref other, source_location where = source_location::current()) {
    for (std::size_t i = 0; i < forks_.size(); ++i) {
      if (forks_[i].stream == other) {
        join_fork(forks_[i], where);
        forks_[i] = std::move(forks_.back());
        forks_.pop_back();
        return;
      }
    }
    detail::throw_invalid_argument(
        "capture_scope::join: the stream was not forked into this capture, or was joined already: "
        "call fork() first",
        where);
  }

  /// Joins all forked streams and ends the capture.
  /// @return the captured graph
  /// @throws std::invalid_argument  when no capture is active
  /// @throws cuda_error             when an illegal call has invalidated the capture; the text
  ///   names the calls to look for
  /// **Stream:** the captured work does not run yet; does not block. **Threads:** the thread that
  /// began the capture.
  [[nodiscard]] graph end(source_location where = source_location::current()) {
    if (!active_) {
      detail::throw_invalid_argument(
          "capture_scope::end: no capture is active: it has ended already, or this is a warm-up "
          "step of graph_replay, which does not capture",
          where);
    }
    join_all(where);
    cudaGraph_t captured = nullptr;
    cudaError_t const status = cudaStreamEndCapture(stream_.get(), &captured);
    active_ = status != cudaSuccess && still_capturing();  // then the destructor ends the capture
    if (!active_) counted_.end();
    graph result{captured};  // destroyed if the next line throws
    detail::check_capture(status, "cudaStreamEndCapture", where);
    return result;
  }

 private:
  friend class graph_replay;
  struct forked {
    stream_ref stream;
    event marker;
  };
  struct eager {};

  // A warm-up step has the same requirements of the stream as a capture.
  static void check_stream(stream_ref stream, source_location where) {
    if (stream.get() == cudaStreamLegacy) {
      detail::throw_invalid_argument(
          "the legacy default stream cannot be captured: create a warpwright::stream, or compile "
          "with per-thread default streams",
          where);
    }
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    detail::check_capture(cudaStreamIsCapturing(stream.get(), &status), "cudaStreamIsCapturing",
                          where);
    if (status != cudaStreamCaptureStatusNone) {
      detail::throw_invalid_argument(
          "the stream is capturing already: end that capture before beginning another on the same "
          "stream",
          where);
    }
  }

  // A warm-up step: runs the body, its forks and joins eagerly, without a capture.
  capture_scope(stream_ref stream, eager, source_location where) : stream_{stream}, eager_{true} {
    check_stream(stream, where);
  }

  bool still_capturing() const noexcept {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    detail::discard(cudaStreamIsCapturing(stream_.get(), &state));
    return state != cudaStreamCaptureStatusNone;
  }

  void join_all(source_location where) {
    while (!forks_.empty()) {
      join_fork(forks_.back(), where);
      forks_.pop_back();
    }
  }

  void join_fork(forked& fork, source_location where) {
    detail::check_capture(cudaEventRecord(fork.marker.get(), fork.stream.get()), "cudaEventRecord",
                          where);
    detail::check_capture(cudaStreamWaitEvent(stream_.get(), fork.marker.get(), 0),
                          "cudaStreamWaitEvent", where);
  }

  stream_ref stream_;
  bool active_ = false;  // capturing
  bool eager_ = false;   // warming up
  detail::array<forked> forks_;
  detail::counted_capture counted_;
};

/// Captures the work that `body` enqueues on the stream, without running it.
/// @param stream  not the legacy default stream
/// @param body    called once, as body(capture_scope&) or body(stream_ref)
/// @param mode    which threads' illegal calls invalidate the capture
/// @return the captured graph
/// @throws what `body` throws; the stream is then not capturing
/// @throws std::invalid_argument  for the legacy default stream or one that is capturing already
/// @throws cuda_error             when the capture was invalidated; the text names the calls to
///   look for
/// **Stream:** does not block. **Threads:** any, each with its own stream.
/// **Cost:** the host time of `body`, and a few CUDA calls.
template <class Body>
[[nodiscard]] graph capture(stream_ref stream, Body&& body,
                            capture_mode mode = capture_mode::thread,
                            source_location where = source_location::current()) {
  capture_scope scope{stream, mode, where};
  std::forward<Body>(body)(scope);
  return scope.end(where);
}

/// Captures the body of a loop once and replays it.
///
/// A replay uses the pointers and scalars of the capture: call recapture() when they change. Memory
/// that the body uses must stay allocated while replays run; what the body allocates from a
/// memory_pool does, as it belongs to the graph.
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
  explicit graph_replay(unsigned warmups = 1, capture_mode mode = capture_mode::thread) noexcept
      : warmups_{warmups}, mode_{mode} {}

  /// Runs one step: eagerly during the warm-up; then it captures `body` once; then it only replays.
  /// @param stream  any but the legacy default stream; may differ from call to call
  /// @param body    body(capture_scope&) or body(stream_ref); not called any more once captured
  /// @throws what capture() throws, and cuda_error when instantiation or launch fails
  /// **Stream:** the step is ordered on `stream`; does not block. **Capture:** not legal before the
  /// first capture; a replay becomes a child graph.
  /// **Cost:** once captured, one CUDA call for any number of kernels.
  template <class Body>
  void run(stream_ref stream, Body&& body, source_location where = source_location::current()) {
    if (exec_.get() == nullptr) {
      if (counts_.eager_runs < warmups_) {
        capture_scope scope{stream, capture_scope::eager{}, where};
        body(scope);
        scope.join_all(where);
        ++counts_.eager_runs;
        return;
      }
      recapture(stream, std::forward<Body>(body), where);
    }
    launch(stream, where);
  }

  /// Captures `body` and replaces the replayed graph by it, in place if CUDA can. Does not launch.
  /// @return whether the executable graph was updated or instantiated (as at the first capture)
  /// @throws what capture() throws, and cuda_error; the replayed graph is then unchanged
  template <class Body>
  graph_update_result recapture(stream_ref stream, Body&& body,
                                source_location where = source_location::current()) {
    graph const captured = capture(stream, std::forward<Body>(body), mode_, where);
    graph_node_counts const nodes = captured.node_counts(where);
    graph_update_result result = graph_update_result::reinstantiated;
    if (exec_.get() == nullptr) {
      exec_ = graph_exec{captured, where};
    } else {
      result = exec_.update(captured, where);
    }
    ++counts_.captures;
    ++(result == graph_update_result::updated ? counts_.updates : counts_.instantiations);
    node_counts_ = nodes;
    return result;
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
  void reset() noexcept { exec_ = graph_exec{}; }

  /// @return whether there is a graph to replay
  [[nodiscard]] bool captured() const noexcept { return exec_.get() != nullptr; }
  /// @return how often each step was done
  [[nodiscard]] counts statistics() const noexcept { return counts_; }
  /// @return the nodes of the last capture, by kind
  [[nodiscard]] graph_node_counts const& node_counts() const noexcept { return node_counts_; }

 private:
  graph_exec exec_;
  unsigned warmups_;
  capture_mode mode_;
  counts counts_;
  graph_node_counts node_counts_;
};

WARPWRIGHT_END
