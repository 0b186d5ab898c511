// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Tunes or measures a workload as a service runs it that replays CUDA graphs:
//
//   auto const best = tuner.tune(stream, ww::captured(workload), memory);
//
//   auto replayed = ww::captured(workload);
//   auto const m = ww::measure(stream, [&] { replayed(64, stream); });
#pragma once

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/resource_ref.hpp>
#include <warpwright/tune/detail/search/tuned_memory.hpp>

#include <string>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// A workload of a batch_tuner that is captured into a CUDA graph once for each size, and replayed.
/// Made by captured().
///
/// The first call with a size runs the workload, so that libraries load code and grow their
/// workspaces outside of the capture, and then captures it. Later calls with the same size replay
/// the graph, on any stream. Another size or drop_graph() destroys it; a tuner calls that whenever
/// it prepares a size, since a preparation may move what the graph points to.
///
/// Memory that the workload takes from a memory_pool or tuning_pool in the capture belongs to the
/// graph. A tuning_pool's peak counts it until the graph is destroyed.
///
/// @pre the workload enqueues the same work at every call with a size, on its stream or on others
///   that it joins; it does not synchronise, and allocates from a pool or in stream order
/// **Threads:** one at a time.
template <typename Workload>
class captured_workload {
  using workload_type = std::remove_reference_t<Workload>;
  static constexpr bool with_resource =
      std::is_invocable_v<workload_type&, std::size_t, stream_ref, resource_ref>;
  static_assert(with_resource || std::is_invocable_v<workload_type&, std::size_t, stream_ref>,
                "warpwright: the workload of captured() must be callable as "
                "void(std::size_t batch, warpwright::stream_ref stream), or with a third argument "
                "warpwright::resource_ref memory");

 public:
  /// @param workload  kept by reference if `Workload` is one
  /// @param mode      which threads' illegal calls invalidate a capture
  explicit captured_workload(Workload&& workload, capture_mode mode = capture_mode::thread,
                             source_location where = source_location::current())
      : workload_{std::forward<Workload>(workload)}, mode_{mode}, where_{where} {}

  /// Runs one batch: as a graph, except for the first call with a size.
  ///
  /// @param batch   the size, passed to the workload
  /// @param stream  not the legacy default stream, and not capturing
  /// @throws std::invalid_argument  for the legacy default stream or one that is capturing; if the
  ///   workload enqueues nothing on the stream
  /// @throws cuda_error  if the workload cannot be captured, with the reason and the remedy; if the
  ///   graph cannot be instantiated or launched; for an error that the workload or a call before
  ///   has left pending
  /// Otherwise what the workload throws. There is no graph then, and the stream is not capturing.
  ///
  /// **Stream:** ordered on `stream`; does not block. **Capture:** not legal.
  /// **Cost:** one CUDA call for a replay; the first call with a size takes the host time of the
  /// workload twice, and an instantiation.
  template <typename Type = workload_type,
            typename = std::enable_if_t<std::is_invocable_v<Type&, std::size_t, stream_ref>>>
  void operator()(std::size_t batch, stream_ref stream) {
    run(
        batch, stream, [&](stream_ref on) { workload_(batch, on); }, [] {});
  }
  /// Runs one batch with memory for the workload; see the overload above.
  /// @param memory  a memory_pool or tuning_pool, trimmed before a capture, which could not reuse
  ///   what the first call has freed; or another resource. A graph is not captured again if it
  ///   changes
  template <typename Memory, typename Type = workload_type,
            typename =
                std::enable_if_t<std::is_invocable_v<Type&, std::size_t, stream_ref, resource_ref>>>
  void operator()(std::size_t batch, stream_ref stream, Memory&& memory) {
    run(
        batch, stream, [&](stream_ref on) { workload_(batch, on, resource_ref{memory}); },
        [&] {
          if constexpr (detail::has_trim<Memory>::value) memory.trim();
        });
  }

  /// Destroys the graph: the next call runs the workload and captures it again. Its memory is free
  /// when its launches have completed.
  void drop_graph() noexcept { exec_ = graph_exec{}; }

  /// @return the number of captures so far
  [[nodiscard]] std::uint64_t captures() const noexcept { return captures_; }
  /// @return the number of replays so far
  [[nodiscard]] std::uint64_t replays() const noexcept { return replays_; }

 private:
  template <typename Body, typename Trim>
  void run(std::size_t batch, stream_ref stream, Body const& body, Trim const& trim) {
    if (exec_.get() != nullptr && batch == batch_) {
      exec_.launch(stream, where_);
      ++replays_;
      return;
    }
    drop_graph();
    detail::check_pending("a call before captured()", where_);
    body(stream);
    detail::check_pending("the workload of captured()", where_);
    trim();
    graph const captured = capture_body(stream, body);
    if (captured.size(where_) == 0) {
      detail::throw_invalid_argument(
          "captured(): the workload has enqueued nothing on the stream, so that a graph of it "
          "would do nothing: enqueue its work on the stream that is passed, and join other streams "
          "to it",
          where_);
    }
    graph_exec exec{captured, where_};
    exec.upload(stream, where_);
    exec_ = std::move(exec);
    batch_ = batch;
    ++captures_;
  }

  template <typename Body>
  graph capture_body(stream_ref stream, Body const& body) {
    capture_scope scope{stream, mode_, where_};
    try {
      body(stream);
    } catch (...) {
      // A library's exception does not say that the capture was the reason.
      capture_report const report = scope.report(where_);
      if (report.code != cudaErrorStreamCaptureInvalidated) throw;
      throw_cannot_capture(report);
    }
    try {
      return scope.end(where_);
    } catch (capture_error const& e) {
      if (e.sticky() || !detail::is_capture_error(e.code())) throw;
      throw_cannot_capture(e.report());
    }
  }
  [[noreturn]] void throw_cannot_capture(capture_report const& report) const {
    std::string const remedy =
        "the workload cannot be captured: " + report.summary() + "; or tune it without captured()";
    detail::throw_cuda_error(report.code, "captured()", where_, remedy.c_str());
  }

  Workload workload_;
  capture_mode mode_;
  source_location where_;
  graph_exec exec_;
  std::size_t batch_ = 0;
  std::uint64_t captures_ = 0;
  std::uint64_t replays_ = 0;
};

/// Makes a workload that a batch_tuner captures into a CUDA graph for each size, and replays.
///
/// @param workload  `void(std::size_t batch, stream_ref stream)`, or with a third argument
///   `resource_ref memory`; kept by reference if it is an lvalue, which then outlives the result
/// @param mode      which threads' illegal calls invalidate a capture
/// @return a workload with the same calls; movable
template <typename Workload>
[[nodiscard]] captured_workload<Workload> captured(
    Workload&& workload, capture_mode mode = capture_mode::thread,
    source_location where = source_location::current()) {
  return captured_workload<Workload>{std::forward<Workload>(workload), mode, where};
}

WARPWRIGHT_END
