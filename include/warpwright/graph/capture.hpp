// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/capture/event_before_capture.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/graph/capture_report.hpp>
#include <warpwright/graph/detail/capture/branch_streams.hpp>
#include <warpwright/graph/detail/capture/capture_position.hpp>
#include <warpwright/graph/detail/capture/capture_rules.hpp>
#include <warpwright/graph/graph.hpp>

#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// Which threads' illegal calls (cudaMalloc, a synchronisation, …) invalidate a capture.
enum class capture_mode {
  thread,  ///< the capturing thread's: the default; does not check a library's own threads
  global,  ///< those of all threads of the process
  relaxed  ///< none: such a call runs immediately and is not part of the graph
};

/// An active capture: it begins in the constructor and ends in end(), or in the destructor if an
/// exception is thrown. Most code uses capture(), graph_replay or graph_cache, which pass one to
/// the body.
///
/// Memory that is allocated from a memory_pool meanwhile, on a stream of the capture, belongs to
/// the graph until the graph and all its executables are destroyed.
/// **Threads:** use it on the thread that constructed it.
class capture_scope : detail::noncopyable {
 public:
  /// Selects the constructor that begins no capture.
  struct without_capture {};

  /// Begins a capture.
  /// @param stream  not the legacy default stream, and not capturing already; of any device
  /// @param mode    which threads' illegal calls invalidate the capture
  /// @throws std::invalid_argument  for the legacy default stream or a stream that is capturing
  /// @throws cuda_error             if the call fails
  explicit capture_scope(stream_ref stream, capture_mode mode = capture_mode::thread,
                         source_location where = source_location::current());
  /// A scope for a body whose work goes to the stream as it is: it runs at once or, if the stream
  /// is capturing, becomes a part of that capture. Call join_all() at its end.
  /// @pre the stream does not begin or end a capture during the lifetime of the scope
  /// **Cost:** no CUDA call.
  capture_scope(stream_ref stream, without_capture) noexcept : stream_{stream} {}
  /// Discards the capture if end() was not called; the stream is then not capturing.
  ~capture_scope() { abandon(); }

  /// @return the capturing stream
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// The capturing stream, so that a body may take a stream_ref.
  operator stream_ref() const noexcept { return stream_; }
  /// @return whether this scope captures: not after end(), nor in a warm-up step of graph_replay
  [[nodiscard]] bool capturing() const noexcept { return active_; }

  /// Forks another stream into the capture: its later work waits for the work of the capturing
  /// stream so far, and can run concurrently with that stream's later work. join() or end() joins
  /// it.
  /// @param other  a stream that is not capturing, also of another device; it must exist until
  /// end()
  /// @throws cuda_error  if a call fails
  /// **Stream:** orders `other` after the capturing stream; does not block. **Cost:** creates an
  /// event.
  void fork(stream_ref other, source_location where = source_location::current());

  /// Forks `n` branches, calls `f(stream_ref branch, unsigned i)` for each of them, in order, and
  /// joins them, in order and also if `f` throws. What one call enqueues on its branch can run
  /// concurrently with what the others enqueue.
  ///
  /// The branches are streams of the capturing stream's device, which stay leased until the capture
  /// has ended. Later forks of this scope use them again; so do, with streams of their own, all
  /// scopes without a capture of their own in one capture.
  /// @param n  number of branches; 0 does nothing
  /// @param f  called n times, one after another
  /// @throws what `f` throws; cuda_error if a call fails. Without a capture the branches' work then
  ///   precedes later work of the stream all the same: a branch that cannot be joined is waited for
  /// **Stream:** orders the branches after the capturing stream, and its later work after them;
  /// does not block. **Cost:** an event, and 3 CUDA calls a branch, up to 5 in a capture; streams
  /// are created at first use.
  template <class F>
  void fork(unsigned n, F&& f, source_location where = source_location::current()) {
    static_assert(std::is_invocable<F&, stream_ref, unsigned>::value,
                  "warpwright: capture_scope::fork(n, f) calls f(warpwright::stream_ref branch, "
                  "unsigned i)");
    if (n == 0) return;
    detail::array<detail::branch_stream*> branches;
    detail::fork_point point;
    detail::event_handle const marker = begin_branches(n, branches, point, where);
    try {
      for (unsigned i = 0; i < n; ++i) f(branches[i]->owner.ref(), i);
    } catch (...) {
      static_cast<void>(join_branches(branches, marker));
      throw;
    }
    end_branches(branches, marker, point, where);
  }

  /// Makes later work of the capturing stream wait for the work of `other` so far.
  /// @param other  a stream passed to fork()
  /// @throws std::invalid_argument  for a stream that was not forked, or was joined already
  /// @throws cuda_error             if a call fails
  /// **Stream:** orders the capturing stream after `other`; does not block.
  void join(stream_ref other, source_location where = source_location::current());

  /// Joins all streams passed to fork(stream_ref) and not joined yet, in the order of the forks.
  /// @throws cuda_error  if a call fails
  void join_all(source_location where = source_location::current());

  /// Names the part of the body that follows, for the report of a failure: that has the last mark
  /// before the call that tells of the failure. That call broke the capture itself if its exception
  /// leaves the body; if the body goes on after a failed call, it can be a later one, or the end.
  /// @param name  copied; of a longer one the first 63 characters; null: none
  /// **Cost:** no CUDA call.
  void mark(char const* name) noexcept;

  /// Returns the node that the capturing stream captured last, for graph_exec::enable().
  /// @return the node; null if this scope does not capture (a warm-up step)
  /// @throws std::invalid_argument  if later work depends on no node (nothing was captured yet) or
  ///   on several (just after a join)
  /// @throws cuda_error             if the query fails
  /// **Cost:** one CUDA call.
  [[nodiscard]] cudaGraphNode_t last_node(
      source_location where = source_location::current()) const {
    return last_node(stream_, where);
  }
  /// As above.
  /// @param branch  a stream of this capture
  [[nodiscard]] cudaGraphNode_t last_node(stream_ref branch,
                                          source_location where = source_location::current()) const;

  /// Joins all forked streams and ends the capture.
  /// @return the captured graph
  /// @throws std::invalid_argument  when no capture is active
  /// @throws capture_error          when the capture is invalid: its report names the cause
  /// **Stream:** the captured work does not run yet; does not block. **Threads:** the thread that
  /// began the capture.
  [[nodiscard]] graph end(source_location where = source_location::current());

  /// Ends the capture, and reports why it failed.
  /// @param code   the error of the call that failed
  /// @param api    that call, a string literal
  /// @param where  the caller's line of that call
  /// @throws capture_error  always
  [[noreturn]] void fail(cudaError_t code, char const* api, source_location where);

  /// Reports the state of the capture, without ending it.
  /// @return code is cudaSuccess as long as the capture is valid
  /// **Cost:** a few CUDA calls; for diagnosis.
  [[nodiscard]] capture_report report(source_location where = source_location::current()) const;

 private:
  // An entry of the list of capturing streams that an array may move.
  class listed_stream {
   public:
    listed_stream(stream_ref stream, int device) : entry_{new entry} {
      entry_->listed.begin(stream, device);
    }
    void begin_capture(stream_ref stream, int device, source_location where) {
      entry_->before.begin(stream, device, where);
    }
    listed_stream(listed_stream&& other) noexcept
        : entry_{detail::exchange(other.entry_, nullptr)} {}
    listed_stream& operator=(listed_stream&& other) noexcept {
      detail::swap(entry_, other.entry_);
      return *this;
    }
    ~listed_stream() { delete entry_; }

   private:
    struct entry {
      detail::capturing_stream listed;
      detail::event_before_capture before;
    };
    entry* entry_;
  };
  struct forked {
    stream_ref stream;
    event marker;  // of the stream's device
    detail::fork_point point;
    listed_stream listed;
  };
  struct failed_call {
    cudaError_t status = cudaSuccess;
    char const* api = "";
  };

  friend class graph_replay;
  // A warm-up step has the same requirements of the stream as a capture.
  static void check_stream(stream_ref stream, source_location where);

  // Asks once whether a scope that has begun no capture is inside of one.
  device_id device(source_location where);
  // What is forked now is captured. @pre device() was called
  bool in_capture() const noexcept { return active_ || inside_; }
  capture_report report_of(cudaError_t code, char const* api, source_location where) const;
  // Ends the capture. @return what to report
  capture_report failure(cudaError_t code, char const* api, source_location where, bool at_end);
  void abandon() noexcept;
  bool must_keep_graph() const noexcept;

  failed_call try_join(cudaStream_t other, cudaEvent_t marker) const noexcept;
  // Joins as many as can be joined; returns the first failure.
  failed_call try_join_all() noexcept;

  detail::branch_stream* take_branch(source_location where);
  void fork_branch(detail::branch_stream& branch, event const& marker,
                   detail::fork_point const& point, source_location where) const;
  event begin_branches(unsigned n, detail::array<detail::branch_stream*>& branches,
                       detail::fork_point& point, source_location where);
  failed_call join_branches(detail::array<detail::branch_stream*> const& branches,
                            detail::event_handle const& marker) const noexcept;
  void end_branches(detail::array<detail::branch_stream*> const& branches,
                    detail::event_handle const& marker, detail::fork_point const& point,
                    source_location where) const;

  stream_ref stream_;
  capture_mode mode_ = capture_mode::thread;
  bool active_ = false;                // capturing
  bool had_error_ = false;             // pending before the capture: then one says nothing of it
  bool inside_ = false;                // a part of a capture that something else has begun
  int device_ = -1;                    // of the stream; -1: not known yet
  unsigned long long capture_id_ = 0;  // of the capture that the scope is inside of
  char mark_[64] = {};
  detail::array<forked> forks_;
  detail::branch_stream* leased_ = nullptr;  // branches, returned at the end
  detail::capturing_stream listed_;          // stream_, while this scope captures
  detail::driver_log log_;
  detail::counted_capture counted_;
  detail::event_before_capture before_;
};

namespace detail {

/// Calls body(capture_scope&) or body(stream_ref). A body that takes `auto` by value gets a
/// stream_ref, since a scope cannot be copied; one that takes `auto&` gets the scope.
template <class Body, class... Args>
void call_body(Body& body, capture_scope& scope, Args&... args) {
  if constexpr (std::is_invocable<Body&, stream_ref, Args&...>::value) {
    body(scope.stream(), args...);
  } else {
    static_assert(
        std::is_invocable<Body&, capture_scope&, Args&...>::value,
        "warpwright: the body of a capture is called with a warpwright::capture_scope& or "
        "a warpwright::stream_ref, and the further arguments of the call");
    body(scope, args...);
  }
}

/// call_body() in an active capture: an exception that tells of a capture error, or of a handle of
/// another device, ends the capture and is replaced by a capture_error with the report.
template <class Body, class... Args>
void call_captured(Body& body, capture_scope& scope, Args&... args) {
  try {
    call_body(body, scope, args...);
  } catch (capture_error const&) {  // of a capture inside of the body
    throw;
  } catch (cuda_error const& error) {
    if (!is_capture_error(error.code()) && error.code() != cudaErrorInvalidResourceHandle) throw;
    scope.fail(error.code(), error.api(), error.where());
  }
}

}  // namespace detail

/// Captures the work that `body` enqueues on the stream, without running it.
/// @param stream  not the legacy default stream; of any device
/// @param body    called once, as body(capture_scope&) or body(stream_ref)
/// @param mode    which threads' illegal calls invalidate the capture
/// @return the captured graph
/// @throws what `body` throws, other than a cuda_error that tells of a capture error; the stream is
///   then not capturing
/// @throws std::invalid_argument  for the legacy default stream or one that is capturing already
/// @throws capture_error          when the capture was invalidated: its report names the cause
/// **Stream:** does not block. **Threads:** any, each with its own stream.
/// **Cost:** the host time of `body`, and a few CUDA calls.
template <class Body>
[[nodiscard]] graph capture(stream_ref stream, Body&& body,
                            capture_mode mode = capture_mode::thread,
                            source_location where = source_location::current()) {
  capture_scope scope{stream, mode, where};
  detail::call_captured(body, scope);
  return scope.end(where);
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/capture_definitions.hpp>
#endif
