// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream capture and its rules (CUDA Programming Guide, "Creating a Graph Using Stream Capture" and
// "Prohibited and Unhandled Operations"; CUDA Runtime API, cudaThreadExchangeStreamCaptureMode).
#include <warpwright/core/detail/capture/capture_count.hpp>

#include <algorithm>

#include "event.hpp"
#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

void add_to_tail(std::vector<graph_node*>& tail, std::vector<graph_node*> const& more) {
  for (graph_node* node : more) {
    if (!contains(tail, node)) tail.push_back(node);
  }
}

void enter_capture(std::shared_ptr<capture_session> const& session,
                   std::shared_ptr<stream_state> const& stream) {
  stream->capture = session;
  stream->capture_tail.clear();
  session->members.push_back(stream);
}

// Ends the capture: no stream takes part in it any more.
void end_capture(runtime& rt, std::shared_ptr<capture_session> const& session) {
  session->state = capture_session::status::ended;
  for (auto const& stream : session->members) {
    stream->capture.reset();
    stream->capture_tail.clear();
    stream->capture_tail_handles.clear();
    stream->capture_tail_edges.clear();
  }
  session->members.clear();
  session->origin.reset();
  rt.captures.erase(std::remove(rt.captures.begin(), rt.captures.end(), session),
                    rt.captures.end());
  capture_count = static_cast<unsigned>(rt.captures.size());
}

// Whether the origin stream depends on the last captured nodes of all other streams.
bool all_joined(capture_session const& session) {
  for (auto const& node : session.graph->nodes) node->index = 0;
  std::vector<graph_node const*> open(session.origin->capture_tail.begin(),
                                      session.origin->capture_tail.end());
  while (!open.empty()) {
    graph_node const* node = open.back();
    open.pop_back();
    if (node->index != 0) continue;
    const_cast<graph_node*>(node)->index = 1;
    open.insert(open.end(), node->depends_on.begin(), node->depends_on.end());
  }
  for (auto const& stream : session.members) {
    for (graph_node const* node : stream->capture_tail) {
      if (node->index == 0) return false;
    }
  }
  return true;
}

cudaError_t begin_capture(runtime& rt, null_stream default_stream, cudaStream_t handle,
                          cudaStreamCaptureMode mode, std::shared_ptr<graph_state> into,
                          std::vector<graph_node*> const& depends_on) {
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) {
    return cudaErrorInvalidValue;
  }
  auto const stream = find_stream(rt, handle, default_stream);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->kind == stream_state::family::legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto session = std::make_shared<capture_session>();
  session->id = rt.next_capture++;
  session->mode = mode;
  session->thread = pthread_self();
  session->origin = stream;
  session->graph_was_given = into != nullptr;
  session->graph = into != nullptr ? std::move(into) : make_graph(rt);
  if (!session->graph_was_given) session->graph->owned_by_user = false;
  enter_capture(session, stream);
  stream->capture_tail = depends_on;
  rt.captures.push_back(std::move(session));
  capture_count = static_cast<unsigned>(rt.captures.size());
  return cudaSuccess;
}

cudaError_t find_nodes(runtime& rt, graph_state const& graph, cudaGraphNode_t const* handles,
                       std::size_t count, std::vector<graph_node*>& nodes) {
  if (count > 0 && handles == nullptr) return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    auto const node = rt.nodes.find(handles[i]);
    if (node == nullptr || node->owner != &graph || contains(nodes, node.get())) {
      return cudaErrorInvalidValue;
    }
    nodes.push_back(node.get());
  }
  return cudaSuccess;
}

cudaStreamCaptureStatus status_of(stream_state const& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->state == capture_session::status::invalidated
             ? cudaStreamCaptureStatusInvalidated
             : cudaStreamCaptureStatusActive;
}

}  // namespace

bool plain_edges(cudaGraphEdgeData const* data, std::size_t count) {
  for (std::size_t i = 0; data != nullptr && i < count; ++i) {
    if (data[i].from_port != 0 || data[i].to_port != 0 || data[i].type != 0) return false;
  }
  return true;
}

void invalidate_capture(capture_session& session) noexcept {
  session.state = capture_session::status::invalidated;
}

cudaError_t check_capture_valid(stream_state& stream) {
  return stream.capture->state == capture_session::status::invalidated
             ? cudaErrorStreamCaptureInvalidated
             : cudaSuccess;
}

void abandon_capture(runtime& rt, std::shared_ptr<stream_state> const& stream) {
  std::shared_ptr<capture_session> const session = stream->capture;
  if (session->origin == stream) {
    end_capture(rt, session);
    if (!session->graph_was_given) drop_graph(rt, *session->graph);
    return;
  }
  invalidate_capture(*session);
  auto& members = session->members;
  members.erase(std::remove(members.begin(), members.end(), stream), members.end());
  stream->capture.reset();
  stream->capture_tail.clear();
}

cudaError_t forbid_unsafe(runtime& rt) {
  if (rt.captures.empty() || this_thread.capture_mode == cudaStreamCaptureModeRelaxed) {
    return cudaSuccess;
  }
  bool forbidden = false;
  for (auto const& session : rt.captures) {
    bool const by_this_thread = pthread_equal(session->thread, pthread_self()) != 0 &&
                                session->mode != cudaStreamCaptureModeRelaxed;
    bool const by_any_thread = this_thread.capture_mode == cudaStreamCaptureModeGlobal &&
                               session->mode == cudaStreamCaptureModeGlobal;
    if (!by_this_thread && !by_any_thread) continue;
    forbidden = true;
    invalidate_capture(*session);
    log_message(
        by_this_thread
            ? "API call conflicts with a stream capture sequence initiated from the calling thread"
            : "API call conflicts with a stream capture sequence initiated from another "
              "thread");
  }
  return forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t forbid_device_wait(runtime& rt, device_state const& device) {
  bool forbidden = false;
  for (auto const& session : rt.captures) {
    for (auto const& member : session->members) {
      if (member->device != &device) continue;
      forbidden = true;
      invalidate_capture(*session);
    }
  }
  return forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t forbid_implicit(runtime& rt, stream_state const& stream, bool invalidates) {
  if (rt.captures.empty() || stream.kind != stream_state::family::legacy) return cudaSuccess;
  bool forbidden = false;
  for (auto const& session : rt.captures) {
    for (auto const& member : session->members) {
      if (member->device != stream.device || !member->blocking()) continue;
      forbidden = true;
      if (invalidates) invalidate_capture(*session);
    }
  }
  return forbidden ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

cudaError_t capture_node(runtime& rt, stream_state& stream, cudaGraphNodeType type,
                         std::shared_ptr<work const> what, graph_node** made) {
  if (cudaError_t const code = check_capture_valid(stream)) return code;
  graph_node* node =
      add_node(rt, *stream.capture->graph, type, std::move(what), stream.capture_tail);
  stream.capture_tail.assign(1, node);
  if (made != nullptr) *made = node;
  return cudaSuccess;
}

cudaError_t submit(runtime& rt, stream_state& stream, cudaGraphNodeType type,
                   std::shared_ptr<work const> what, std::shared_ptr<operation>* done) {
  if (cudaError_t const code = forbid_implicit(rt, stream)) return code;
  if (stream.capture != nullptr) return capture_node(rt, stream, type, std::move(what), nullptr);
  auto op = enqueue(rt, stream, std::move(what));
  if (done != nullptr) *done = std::move(op);
  return cudaSuccess;
}

cudaError_t capture_record(runtime& rt, stream_state& stream, cudaEvent_t handle,
                           std::shared_ptr<event_state> const& event, bool external) {
  if (cudaError_t const code = check_capture_valid(stream)) return code;
  if (external) {
    graph_node* node = nullptr;
    cudaError_t const code = capture_node(rt, stream, cudaGraphNodeTypeEventRecord, nullptr, &node);
    if (code != cudaSuccess) return code;
    node->event = event;
    node->event_handle = handle;
    return cudaSuccess;
  }
  event->captured = true;
  event->capture = stream.capture;
  event->capture_nodes = stream.capture_tail;
  return cudaSuccess;
}

cudaError_t capture_wait(runtime& rt, std::shared_ptr<stream_state> const& stream,
                         cudaEvent_t handle, std::shared_ptr<event_state> const& event,
                         bool external) {
  if (stream->capture != nullptr) {
    if (cudaError_t const code = check_capture_valid(*stream)) return code;
  }
  if (external) {
    if (stream->capture == nullptr) return cudaErrorInvalidValue;
    graph_node* node = nullptr;
    cudaError_t const code = capture_node(rt, *stream, cudaGraphNodeTypeWaitEvent, nullptr, &node);
    if (code != cudaSuccess) return code;
    node->event = event;
    node->event_handle = handle;
    return cudaSuccess;
  }
  if (!event->captured) {
    invalidate_capture(*stream->capture);
    return cudaErrorStreamCaptureIsolation;
  }
  std::shared_ptr<capture_session> const session = event->capture.lock();
  // An event recorded in an invalidated or ended capture is unusable until it is recorded again.
  if (session == nullptr || session->state != capture_session::status::active) {
    return cudaErrorInvalidValue;
  }
  if (stream->capture == nullptr) {
    if (stream->kind == stream_state::family::legacy) {
      invalidate_capture(*session);
      return cudaErrorStreamCaptureImplicit;
    }
    enter_capture(session, stream);
  } else if (stream->capture != session) {
    invalidate_capture(*session);
    invalidate_capture(*stream->capture);
    return cudaErrorStreamCaptureMerge;
  }
  add_to_tail(stream->capture_tail, event->capture_nodes);
  return cudaSuccess;
}

cudaError_t check_not_captured(event_state& event) {
  if (!event.captured) return cudaSuccess;
  auto const session = event.capture.lock();
  if (session == nullptr || session->state != capture_session::status::active) {
    return cudaErrorInvalidValue;
  }
  invalidate_capture(*session);
  return cudaErrorCapturedEvent;
}

}  // namespace warpwright::host

using namespace warpwright::host;

namespace {

cudaError_t stream_begin_capture(null_stream default_stream, cudaStream_t stream,
                                 cudaStreamCaptureMode mode) {
  static call_site site{"cudaStreamBeginCapture"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    return begin_capture(rt, default_stream, stream, mode, nullptr, {});
  });
}

cudaError_t stream_begin_capture_to_graph(null_stream default_stream, cudaStream_t stream,
                                          cudaGraph_t graph_handle,
                                          cudaGraphNode_t const* dependencies,
                                          cudaGraphEdgeData const* edges, size_t count,
                                          cudaStreamCaptureMode mode) {
  static call_site site{"cudaStreamBeginCaptureToGraph"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(graph_handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    std::vector<graph_node*> nodes;
    if (cudaError_t const code = find_nodes(rt, *graph, dependencies, count, nodes)) return code;
    if (!plain_edges(edges, count)) return cudaErrorNotSupported;
    return begin_capture(rt, default_stream, stream, mode, graph, nodes);
  });
}

cudaError_t stream_end_capture(null_stream default_stream, cudaStream_t handle,
                               cudaGraph_t* graph) {
  static call_site site{"cudaStreamEndCapture"};
  return api(site, needs::device, [&](runtime& rt) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    *graph = nullptr;
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    std::shared_ptr<capture_session> const session = stream->capture;
    if (session == nullptr) return cudaErrorIllegalState;
    if (session->origin != stream) {
      invalidate_capture(*session);
      return cudaErrorStreamCaptureUnmatched;
    }
    cudaError_t code = cudaSuccess;
    if (session->mode != cudaStreamCaptureModeRelaxed &&
        pthread_equal(session->thread, pthread_self()) == 0) {
      code = cudaErrorStreamCaptureWrongThread;  // and the capture ends, as on a GPU
    } else if (session->state == capture_session::status::invalidated) {
      code = cudaErrorStreamCaptureInvalidated;
    } else if (!all_joined(*session)) {
      code = cudaErrorStreamCaptureUnjoined;
    }
    end_capture(rt, session);
    if (code == cudaSuccess) {
      if (!session->graph_was_given) session->graph->owned_by_user = true;
      *graph = session->graph->handle;
    } else if (!session->graph_was_given) {
      drop_graph(rt, *session->graph);
    }
    return code;
  });
}

cudaError_t stream_is_capturing(null_stream default_stream, cudaStream_t handle,
                                cudaStreamCaptureStatus* status) {
  static call_site site{"cudaStreamIsCapturing"};
  return api(site, needs::device, [&](runtime& rt) {
    if (status == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (cudaError_t const code = forbid_implicit(rt, *stream, false)) return code;
    *status = status_of(*stream);
    return cudaSuccess;
  });
}

cudaError_t stream_get_capture_info(null_stream default_stream, cudaStream_t handle,
                                    cudaStreamCaptureStatus* status, unsigned long long* id,
                                    cudaGraph_t* graph, cudaGraphNode_t const** dependencies,
                                    cudaGraphEdgeData const** edges, size_t* count) {
  static call_site site{"cudaStreamGetCaptureInfo"};
  return api(site, needs::device, [&](runtime& rt) {
    if (status == nullptr || (edges != nullptr && dependencies == nullptr)) {
      return cudaErrorInvalidValue;
    }
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (cudaError_t const code = forbid_implicit(rt, *stream, false)) return code;
    *status = status_of(*stream);
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
    if (id != nullptr) *id = stream->capture->id;
    if (graph != nullptr) *graph = stream->capture->graph->handle;
    stream->capture_tail_handles.clear();
    for (graph_node const* node : stream->capture_tail) {
      stream->capture_tail_handles.push_back(node->handle);
    }
    stream->capture_tail_edges.assign(stream->capture_tail.size(), cudaGraphEdgeData{});
    if (dependencies != nullptr) *dependencies = stream->capture_tail_handles.data();
    if (edges != nullptr) *edges = stream->capture_tail_edges.data();
    if (count != nullptr) *count = stream->capture_tail.size();
    return cudaSuccess;
  });
}

cudaError_t stream_update_capture_dependencies(null_stream default_stream, cudaStream_t handle,
                                               cudaGraphNode_t* dependencies,
                                               cudaGraphEdgeData const* edges, size_t count,
                                               unsigned flags) {
  static call_site site{"cudaStreamUpdateCaptureDependencies"};
  return api(site, needs::device, [&](runtime& rt) {
    if (flags > cudaStreamSetCaptureDependencies) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture == nullptr) return cudaErrorIllegalState;
    if (cudaError_t const code = check_capture_valid(*stream)) return code;
    std::vector<graph_node*> nodes;
    if (cudaError_t const code =
            find_nodes(rt, *stream->capture->graph, dependencies, count, nodes)) {
      return code;
    }
    if (!plain_edges(edges, count)) return cudaErrorNotSupported;
    if (flags == cudaStreamSetCaptureDependencies) stream->capture_tail.clear();
    add_to_tail(stream->capture_tail, nodes);
    return cudaSuccess;
  });
}

}  // namespace

WARPWRIGHT_API unsigned warpwrightHostCaptures(void) {
  return capture_count.load(std::memory_order_relaxed);
}

WARPWRIGHT_STREAM_API(cudaStreamBeginCapture, _ptsz, stream_begin_capture,
                      (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode))
WARPWRIGHT_STREAM_API(cudaStreamBeginCaptureToGraph, _ptsz, stream_begin_capture_to_graph,
                      (cudaStream_t stream, cudaGraph_t graph, cudaGraphNode_t const* dependencies,
                       cudaGraphEdgeData const* edges, size_t count, cudaStreamCaptureMode mode),
                      (stream, graph, dependencies, edges, count, mode))
WARPWRIGHT_STREAM_API(cudaStreamEndCapture, _ptsz, stream_end_capture,
                      (cudaStream_t stream, cudaGraph_t* graph), (stream, graph))
WARPWRIGHT_STREAM_API(cudaStreamIsCapturing, _ptsz, stream_is_capturing,
                      (cudaStream_t stream, cudaStreamCaptureStatus* status), (stream, status))
WARPWRIGHT_STREAM_API(cudaStreamGetCaptureInfo, _ptsz, stream_get_capture_info,
                      (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                       cudaGraph_t* graph, cudaGraphNode_t const** dependencies,
                       cudaGraphEdgeData const** edges, size_t* count),
                      (stream, status, id, graph, dependencies, edges, count))
WARPWRIGHT_STREAM_API(cudaStreamUpdateCaptureDependencies, _ptsz,
                      stream_update_capture_dependencies,
                      (cudaStream_t stream, cudaGraphNode_t* dependencies,
                       cudaGraphEdgeData const* edges, size_t count, unsigned flags),
                      (stream, dependencies, edges, count, flags))

WARPWRIGHT_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static call_site site{"cudaThreadExchangeStreamCaptureMode"};
  return api(site, needs::nothing, [&](runtime&) {
    if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
        *mode > cudaStreamCaptureModeRelaxed) {
      return cudaErrorInvalidValue;
    }
    std::swap(*mode, this_thread.capture_mode);
    return cudaSuccess;
  });
}
