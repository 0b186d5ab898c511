// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The steps of capture_scope.
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/launch/set_condition.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE cudaStreamCaptureMode to_cuda(capture_mode mode) noexcept {
  constexpr cudaStreamCaptureMode modes[] = {
      cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed};
  return modes[static_cast<int>(mode)];
}

}  // namespace detail

WARPWRIGHT_INLINE capture_scope::capture_scope(stream_ref stream, capture_mode mode,
                                               source_location where)
    : stream_{stream}, mode_{mode} {
  check_stream(stream, where);
  device_ = detail::device_of(stream, where).value();
  log_.start();
  counted_.begin();
  had_error_ = cudaPeekAtLastError() != cudaSuccess;
  before_.begin(stream, device_, where);
  detail::check_capture(cudaStreamBeginCapture(stream.get(), detail::to_cuda(mode)),
                        "cudaStreamBeginCapture", where);
  active_ = true;
  listed_.begin(stream, device_);
}

WARPWRIGHT_INLINE void capture_scope::mark(char const* name) noexcept {
  std::size_t i = 0;
  for (; name != nullptr && i + 1 < sizeof mark_ && name[i] != '\0'; ++i) mark_[i] = name[i];
  mark_[i] = '\0';
}

WARPWRIGHT_INLINE void capture_scope::fail(cudaError_t code, char const* api,
                                           source_location where) {
  throw capture_error{failure(code, api, where, false)};
}

WARPWRIGHT_INLINE capture_scope::failed_call capture_scope::try_join(
    cudaStream_t other, cudaEvent_t marker) const noexcept {
  failed_call failed{cudaEventRecord(marker, other), "cudaEventRecord"};
  if (failed.status == cudaSuccess) {
    failed = {cudaStreamWaitEvent(stream_.get(), marker, 0), "cudaStreamWaitEvent"};
  }
  // Nothing else orders later work, as of what a body's exception frees, behind the other stream.
  if (failed.status != cudaSuccess && !in_capture()) {
    detail::relaxed_capture_mode const allowed;
    detail::discard(cudaStreamSynchronize(other));
  }
  return failed;
}

WARPWRIGHT_INLINE void capture_scope::check_stream(stream_ref stream, source_location where) {
  if (stream.get() == cudaStreamLegacy) {
    detail::throw_invalid_argument(to_string(capture_obstacle::legacy_stream), where);
  }
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  detail::check_capture(cudaStreamIsCapturing(stream.get(), &status), "cudaStreamIsCapturing",
                        where);
  if (status != cudaStreamCaptureStatusNone) {
    detail::throw_invalid_argument(
        to_string(status == cudaStreamCaptureStatusActive ? capture_obstacle::already_capturing
                                                          : capture_obstacle::invalidated_capture),
        where);
  }
}

WARPWRIGHT_INLINE device_id capture_scope::device(source_location where) {
  if (device_ < 0) {
    detail::capture_position const at = detail::capture_position_of(stream_, where);
    inside_ = at.graph != nullptr;
    capture_id_ = at.id;
    device_id const device =
        inside_ ? detail::device_of_capturing(stream_, where) : detail::device_of(stream_, where);
    device_ = device.value();
  }
  return device_id{device_};
}

WARPWRIGHT_INLINE void capture_scope::fork(stream_ref other, source_location where) {
  forks_.reserve(forks_.size() + 1);
  device_id const from = device(where);
  bool const capturing = detail::is_capturing(other, where);
  device_id const to =
      capturing ? detail::device_of_capturing(other, where) : detail::device_of(other, where);
  listed_stream listed{other, to.value()};
  if (in_capture() && !capturing) listed.begin_capture(other, to.value(), where);
  auto const make_marker = [where](device_id of) {
    scoped_device const scope{of, where};
    return event{where};
  };
  event marker = make_marker(from);
  detail::check_capture(cudaEventRecord(marker.get(), stream_.get()), "cudaEventRecord", where);
  detail::fork_point point;
  if (in_capture()) point = detail::fork_point{stream_, where};
  detail::check_capture(cudaStreamWaitEvent(other.get(), marker.get(), 0), "cudaStreamWaitEvent",
                        where);
  if (to != from) marker = make_marker(to);
  forks_.emplace_back(other, std::move(marker), std::move(point), std::move(listed));
}

WARPWRIGHT_INLINE void capture_scope::join(stream_ref other, source_location where) {
  for (std::size_t i = 0; i < forks_.size(); ++i) {
    if (forks_[i].stream != other) continue;
    failed_call const failed = try_join(other.get(), forks_[i].marker.get());
    detail::check_capture(failed.status, failed.api, where);
    detail::fork_point const point = std::move(forks_[i].point);
    for (; i + 1 < forks_.size(); ++i) forks_[i] = std::move(forks_[i + 1]);
    forks_.pop_back();
    if (point.is_behind(other, where)) point.remove_from(stream_, where);
    return;
  }
  detail::throw_invalid_argument(
      "capture_scope::join: the stream was not forked into this capture, or was joined already: "
      "call fork() first",
      where);
}

WARPWRIGHT_INLINE capture_scope::failed_call capture_scope::try_join_all() noexcept {
  failed_call first;
  for (forked const& fork : forks_) {
    failed_call const failed = try_join(fork.stream.get(), fork.marker.get());
    if (first.status == cudaSuccess) first = failed;
  }
  forks_.clear();
  return first;
}

WARPWRIGHT_INLINE void capture_scope::join_all(source_location where) {
  if (!active_) {
    failed_call const failed = try_join_all();
    detail::check_capture(failed.status, failed.api, where);
  }
  while (!forks_.empty()) join(forks_.front().stream, where);
}

WARPWRIGHT_INLINE graph capture_scope::end(source_location where) {
  if (!active_) {
    detail::throw_invalid_argument(
        "capture_scope::end: no capture is active: it has ended already, or this is a warm-up "
        "step of graph_replay, which does not capture",
        where);
  }
  failed_call const failed = try_join_all();
  if (failed.status != cudaSuccess) {
    throw capture_error{failure(failed.status, failed.api, where, true)};
  }
  before_.end();
  cudaGraph_t captured = nullptr;
  cudaError_t const status = cudaStreamEndCapture(stream_.get(), &captured);
  graph result{captured};
  // If it is capturing all the same, abandon() ends that.
  active_ = status != cudaSuccess && detail::may_be_capturing(stream_.get());
  if (status != cudaSuccess) {
    throw capture_error{failure(status, "cudaStreamEndCapture", where, true)};
  }
  // What failed is not in the graph, whose replays would leave it out without an error.
  if (!had_error_) detail::check_pending("the captured body", where);
  abandon();
  return result;
}

// A failed capture of a conditional node's body destroys the body (driver 580.159.04), and so does,
// with a crash, whatever destroys the graph of the node: cudaGraphDestroy, or an end that fails as
// a fork is not joined.
WARPWRIGHT_INLINE bool capture_scope::must_keep_graph() const noexcept {
#if WARPWRIGHT_HAS_CONDITIONAL_NODES && !WARPWRIGHT_HOST_RUNTIME
  try {
    auto const where = source_location::current();
    cudaGraph_t const graph = detail::capture_position_of(stream_, where).graph;
    for (cudaGraphNode_t const node : detail::nodes_of(graph, where)) {
      if (detail::type_of(node, where) == cudaGraphNodeTypeConditional) return true;
    }
  } catch (std::exception const&) {  // the capture is invalid, so that there is no graph any more
    detail::discard(cudaGetLastError());
  }
#endif
  return false;
}

WARPWRIGHT_INLINE void capture_scope::abandon() noexcept {
  before_.end();
  if (active_) {
    bool const keep = must_keep_graph();
    if (keep) detail::discard(try_join_all().status);
    cudaGraph_t abandoned = nullptr;
    detail::discard(cudaStreamEndCapture(stream_.get(), &abandoned));
    if (abandoned != nullptr && !keep) detail::discard(cudaGraphDestroy(abandoned));
    active_ = false;
  } else if (!forks_.empty()) {
    // The body threw: its objects free the memory that the forked work uses.
    detail::discard(try_join_all().status);
  }
  forks_.clear();
  detail::branch_stream* const leased = detail::exchange(leased_, nullptr);
  if (inside_) {
    detail::keep_branches(leased, capture_id_);
  } else {
    detail::return_branches(leased);
  }
  listed_.end();
  counted_.end();
}

WARPWRIGHT_INLINE cudaGraphNode_t capture_scope::last_node(stream_ref branch,
                                                           source_location where) const {
  if (!active_) return nullptr;
  detail::capture_position const at = detail::capture_position_of(branch, where);
  if (at.tail_size == 1) return at.tail[0];
  detail::throw_invalid_argument(
      detail::text{"capture_scope::last_node: later work of the stream depends on "} +
          at.tail_size + " nodes of the capture: call it just after the work whose node it returns",
      where);
}

WARPWRIGHT_INLINE capture_report capture_scope::report_of(cudaError_t code, char const* api,
                                                          source_location where) const {
  capture_report report;
  report.code = code;
  report.api = api;
  report.where = where;
  report.mark = mark_;
  report.log = log_.lines();
  detail::logged_call call =
      detail::find_breaking_call(report.log, mode_ == capture_mode::global, report.by_other_thread);
  if (call.code != 0) {
    report.broken_by = std::move(call.api);
    report.broken_with = static_cast<cudaError_t>(call.code);
    report.thread = std::move(call.thread);
  }
  report.obstacle = preflight(stream_);
  return report;
}

WARPWRIGHT_INLINE capture_report capture_scope::failure(cudaError_t code, char const* api,
                                                        source_location where, bool at_end) {
  abandon();
  static_cast<void>(cudaGetLastError());
  capture_report report = report_of(code, api, where);
  report.noticed_at_end = at_end;
  return report;
}

WARPWRIGHT_INLINE capture_report capture_scope::report(source_location where) const {
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  cudaError_t status = detail::discard(cudaStreamIsCapturing(stream_.get(), &state));
  if (state == cudaStreamCaptureStatusInvalidated) status = cudaErrorStreamCaptureInvalidated;
  return report_of(status, "cudaStreamIsCapturing", where);
}

// ---- branches

WARPWRIGHT_INLINE detail::branch_stream* capture_scope::take_branch(source_location where) {
  detail::branch_stream** last = &leased_;
  for (; *last != nullptr; last = &(*last)->next) {
    if (!(*last)->busy) return *last;
  }
  if (inside_) *last = detail::lease_kept_branch(device(where), capture_id_);
  if (*last == nullptr) *last = detail::lease_branch(device(where), where);
  return *last;
}

WARPWRIGHT_INLINE void capture_scope::fork_branch(detail::branch_stream& branch,
                                                  event const& marker,
                                                  detail::fork_point const& point,
                                                  source_location where) const {
  stream_ref const to = branch.owner.ref();
  if (in_capture() && !branch.captured) branch.before.begin(to, device_, where);
  detail::check_capture(cudaStreamWaitEvent(to.get(), marker.get(), 0), "cudaStreamWaitEvent",
                        where);
  // The branch was joined before: what it captured then needs no further edge to what follows.
  if (in_capture() && branch.captured) point.apply_to(to, where);
  branch.captured = in_capture();
}

WARPWRIGHT_INLINE event
capture_scope::begin_branches(unsigned n, detail::array<detail::branch_stream*>& branches,
                              detail::fork_point& point, source_location where) {
  branches.reserve(n);
  scoped_device const scope{device(where), where};
  event marker{where};
  detail::check_capture(cudaEventRecord(marker.get(), stream_.get()), "cudaEventRecord", where);
  if (in_capture()) point = detail::fork_point{stream_, where};
  try {
    while (branches.size() < n) {
      detail::branch_stream* const branch = take_branch(where);
      fork_branch(*branch, marker, point, where);
      branch->busy = true;
      branches.push_back(branch);
    }
  } catch (...) {
    static_cast<void>(join_branches(branches, marker));
    throw;
  }
  return marker;
}

WARPWRIGHT_INLINE capture_scope::failed_call capture_scope::join_branches(
    detail::array<detail::branch_stream*> const& branches,
    detail::event_handle const& marker) const noexcept {
  failed_call first;
  for (detail::branch_stream* const branch : branches) {
    failed_call const failed = try_join(branch->owner.get(), marker.get());
    if (first.status == cudaSuccess) first = failed;
    branch->busy = false;
  }
  return first;
}

WARPWRIGHT_INLINE void capture_scope::end_branches(
    detail::array<detail::branch_stream*> const& branches, detail::event_handle const& marker,
    detail::fork_point const& point, source_location where) const {
  failed_call const failed = join_branches(branches, marker);
  detail::check_capture(failed.status, failed.api, where);
  for (detail::branch_stream* const branch : branches) {
    if (!point.is_behind(branch->owner.ref(), where)) continue;
    point.remove_from(stream_, where);
    return;
  }
}

WARPWRIGHT_END
