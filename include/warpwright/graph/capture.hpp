// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/graph.hpp>

#include <cstdint>
#include <utility>

WARPWRIGHT_BEGIN

/// Whose illegal calls break a capture (cudaMalloc, a synchronisation, …).
enum class capture_mode {
  thread,  ///< those of the capturing thread: the default, blind to a library's own threads
  global,  ///< those of any thread of the process
  relaxed  ///< nobody's: such a call is let through and is not part of the graph
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

// What to do about each way in which a capture breaks (CUDA runtime API, cudaError_t 900 to 908).
inline char const* capture_advice(cudaError_t code) noexcept {
  switch (code) {
    case cudaErrorStreamCaptureUnsupported:
      return "the call cannot be captured: do it before the capture, or capture a stream that is "
             "not the legacy default stream";
    case cudaErrorStreamCaptureInvalidated:
      return "an earlier call broke the capture: look for cudaMalloc, cudaFree, a synchronisation, "
             "a "
             "query, or work on the legacy default stream inside the body";
    case cudaErrorStreamCaptureMerge:
      return "a stream of another capture was waited for: keep the two captures apart";
    case cudaErrorStreamCaptureUnmatched:
      return "the capture must be ended on the stream where it began";
    case cudaErrorStreamCaptureUnjoined:
      return "another stream was forked into the capture and not joined: use capture_scope::fork, "
             "which joins by itself, or make the capturing stream wait for it";
    case cudaErrorStreamCaptureIsolation:
      return "an event recorded outside of the capture was waited for inside: wait before it "
             "begins";
    case cudaErrorStreamCaptureImplicit:
      return "work on the legacy default stream would depend on the capture: pass a stream to "
             "every "
             "call";
    case cudaErrorCapturedEvent:
      return "an event recorded inside a capture can only be waited for inside it";
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

/// A capture under way: begins at construction, and ends at the latest in the destructor, whatever
/// is thrown in between. Most code uses capture() or graph_replay, which hand one to the body.
/// **Threads:** belongs to the thread that made it.
class capture_scope {
 public:
  /// Begins to capture.
  /// @param stream  not the legacy default stream, and not capturing already
  /// @param mode    whose illegal calls break the capture
  /// @throws std::invalid_argument  for the legacy default stream or a stream that is capturing
  /// @throws cuda_error             when CUDA refuses
  explicit capture_scope(stream_ref stream, capture_mode mode = capture_mode::thread,
                         source_location where = source_location::current())
      : stream_{stream} {
    check_stream(stream, where);
    detail::check_capture(cudaStreamBeginCapture(stream.get(), detail::to_cuda(mode)),
                          "cudaStreamBeginCapture", where);
    active_ = true;
  }
  /// Abandons the capture if end() was not reached; the stream is as before it.
  ~capture_scope() {
    if (eager_) {
      // The body threw: what it forked is put in order before its owners free what that work uses.
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

  /// @return the stream to give work to
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// The stream again, so that a body may take a stream_ref.
  operator stream_ref() const noexcept { return stream_; }

  /// Takes another stream into the capture: its work from here on can run beside the first's, and
  /// waits for what the first was given so far. It is joined by join() or, at the latest, by end().
  /// @param other  a stream of the same device that is not capturing, alive until end()
  /// @throws cuda_error  when CUDA refuses
  /// **Stream:** orders `other` behind the first; does not block. **Cost:** creates an event.
  void fork(stream_ref other, source_location where = source_location::current()) {
    forks_.reserve(forks_.size() + 1);
    event marker{where};
    detail::check_capture(cudaEventRecord(marker.get(), stream_.get()), "cudaEventRecord", where);
    detail::check_capture(cudaStreamWaitEvent(other.get(), marker.get(), 0), "cudaStreamWaitEvent",
                          where);
    forks_.emplace_back(other, std::move(marker));
  }

  /// Makes the first stream's later work wait for what `other` was given so far.
  /// @param other  a stream given to fork()
  /// @throws std::invalid_argument  for a stream that was not forked, or was joined already
  /// @throws cuda_error             when CUDA refuses
  /// **Stream:** orders the first behind `other`; does not block.
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
        "capture_scope::join: the stream was never forked into this capture, or was joined already",
        where);
  }

  /// Joins what was forked and ends the capture.
  /// @return what was captured
  /// @throws std::invalid_argument  when no capture is under way
  /// @throws cuda_error             when an illegal call has broken the capture; the text says what
  ///   to look for
  /// **Stream:** nothing runs yet; does not block. **Threads:** the thread that began the capture.
  [[nodiscard]] graph end(source_location where = source_location::current()) {
    if (!active_) {
      detail::throw_invalid_argument(
          "capture_scope::end: no capture is under way: it has been ended, or this is a warm-up, "
          "which captures nothing",
          where);
    }
    join_all(where);
    cudaGraph_t captured = nullptr;
    cudaError_t const status = cudaStreamEndCapture(stream_.get(), &captured);
    active_ = status != cudaSuccess && still_capturing();  // then the destructor tries again
    graph result{captured};  // destroyed if the capture was broken after all
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

  // What begins a capture, and what warms up for one, want the same of the stream.
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
          "the stream is capturing already: a capture cannot begin inside another on the same "
          "stream",
          where);
    }
  }

  // A warm-up: the same body, forks and joins, without a capture.
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
};

/// Captures what `body` gives to the stream, and runs nothing of it.
/// @param stream  not the legacy default stream
/// @param body    called once, as body(capture_scope&) or body(stream_ref)
/// @param mode    whose illegal calls break the capture
/// @return the graph
/// @throws what `body` throws; the stream is then as before
/// @throws std::invalid_argument  for the legacy default stream or one that is capturing already
/// @throws cuda_error             when the capture was broken; the text says what to look for
/// **Stream:** does not block. **Threads:** any; each its own stream.
/// **Cost:** what `body` costs, whose calls are noted instead of run, and a few CUDA calls.
template <class Body>
[[nodiscard]] graph capture(stream_ref stream, Body&& body,
                            capture_mode mode = capture_mode::thread,
                            source_location where = source_location::current()) {
  capture_scope scope{stream, mode, where};
  std::forward<Body>(body)(scope);
  return scope.end(where);
}

/// A hot loop's body, captured once and replayed.
///
/// Pointers and scalars are baked in at the capture: when they change, call recapture(). The memory
/// that the body uses must stay allocated while replays run.
/// **Threads:** one at a time.
class graph_replay {
 public:
  /// How often each thing was done.
  struct counts {
    std::uint64_t eager_runs = 0;  ///< warm-up steps, run without a graph
    std::uint64_t captures = 0;
    std::uint64_t instantiations = 0;
    std::uint64_t updates = 0;  ///< recaptures that CUDA took in place
    std::uint64_t launches = 0;
  };

  /// @param warmups  how many first calls of run() go without a graph, for what initialises itself
  /// at
  ///   its first use (libraries' workspaces, lazily loaded kernels) and may not while capturing
  /// @param mode     whose illegal calls break a capture
  explicit graph_replay(unsigned warmups = 1, capture_mode mode = capture_mode::thread) noexcept
      : warmups_{warmups}, mode_{mode} {}

  /// Does one step: eagerly while warming up, then by capturing `body` once, then by replay alone.
  /// @param stream  any but the legacy default stream; may differ from call to call
  /// @param body    as for capture(); not called at all once captured
  /// @throws as capture(), and cuda_error when instantiation or launch fails
  /// **Stream:** the step is ordered on `stream`; does not block. **Capture:** not legal before the
  /// first capture; a replay becomes a child graph.
  /// **Cost:** one CUDA call once captured, whatever the number of kernels.
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

  /// Captures `body` and makes it what is replayed, in place where CUDA can; launches nothing.
  /// @return whether the executable was updated or built anew (as at the first capture)
  /// @throws as capture(); what was replayed before still is
  template <class Body>
  graph_change recapture(stream_ref stream, Body&& body,
                         source_location where = source_location::current()) {
    graph const captured = capture(stream, std::forward<Body>(body), mode_, where);
    graph_census const nodes = captured.census(where);
    graph_change change = graph_change::reinstantiated;
    if (exec_.get() == nullptr) {
      exec_ = graph_exec{captured, where};
    } else {
      change = exec_.update(captured, where);
    }
    ++counts_.captures;
    ++(change == graph_change::updated ? counts_.updates : counts_.instantiations);
    census_ = nodes;
    return change;
  }

  /// Replays.
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

  /// Forgets the graph: the next run() captures, without warming up again.
  void reset() noexcept { exec_ = graph_exec{}; }

  /// @return whether there is something to replay
  [[nodiscard]] bool captured() const noexcept { return exec_.get() != nullptr; }
  /// @return how often each thing was done
  [[nodiscard]] counts statistics() const noexcept { return counts_; }
  /// @return the nodes of the last capture, by kind
  [[nodiscard]] graph_census const& census() const noexcept { return census_; }

 private:
  graph_exec exec_;
  unsigned warmups_;
  capture_mode mode_;
  counts counts_;
  graph_census census_;
};

WARPWRIGHT_END
