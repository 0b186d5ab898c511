// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Events: sync points in streams, with the time at which they were reached.
#include "event.hpp"

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

cudaError_t create_event(runtime& rt, cudaEvent_t* handle, unsigned flags) {
  constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (handle == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
  if ((flags & cudaEventInterprocess) != 0) return cudaErrorInvalidValue;  // IPC is not implemented
  runtime_lock lock(rt.mutex);
  auto event = std::make_shared<event_state>();
  event->flags = flags;
  event->device = &current_device(rt);
  *handle = rt.events.add(std::move(event));
  return cudaSuccess;
}

}  // namespace

void record_in_stream(runtime& rt, event_state& event, stream_state& stream) {
  event.record = enqueue(rt, stream, nullptr);
  event.captured = false;
  event.capture.reset();
  event.capture_nodes.clear();
}

cudaError_t record_event(runtime& rt, null_stream default_stream, cudaEvent_t event_handle,
                         cudaStream_t stream_handle, unsigned flags) {
  if ((flags & ~unsigned{cudaEventRecordExternal}) != 0) return cudaErrorInvalidValue;
  runtime_lock lock(rt.mutex);
  auto const event = rt.events.find(event_handle);
  auto const stream = find_stream(rt, stream_handle, default_stream);
  if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
  if (stream->capture != nullptr) {
    return capture_record(rt, *stream, event_handle, event, (flags & cudaEventRecordExternal) != 0);
  }
  if ((flags & cudaEventRecordExternal) != 0) return cudaErrorInvalidValue;
  record_in_stream(rt, *event, *stream);
  return cudaSuccess;
}

cudaError_t wait_event(runtime& rt, null_stream default_stream, cudaStream_t stream_handle,
                       cudaEvent_t event_handle, unsigned flags) {
  if ((flags & ~unsigned{cudaEventWaitExternal}) != 0) return cudaErrorInvalidValue;
  runtime_lock lock(rt.mutex);
  auto const event = rt.events.find(event_handle);
  auto const stream = find_stream(rt, stream_handle, default_stream);
  if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
  if (stream->capture != nullptr || event->captured) {
    return capture_wait(rt, stream, event_handle, event, (flags & cudaEventWaitExternal) != 0);
  }
  if ((flags & cudaEventWaitExternal) != 0) return cudaErrorInvalidValue;
  if (event->record != nullptr) enqueue(rt, *stream, nullptr, {event->record});
  return cudaSuccess;
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  static call_site site{"cudaEventCreate"};
  return api(site, needs::device,
             [&](runtime& rt) { return create_event(rt, event, cudaEventDefault); });
}

WARPWRIGHT_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  static call_site site{"cudaEventCreateWithFlags"};
  return api(site, needs::device, [&](runtime& rt) { return create_event(rt, event, flags); });
}

WARPWRIGHT_API cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  static call_site site{"cudaEventDestroy"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    return rt.events.remove(handle) != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

static cudaError_t event_record(null_stream default_stream, cudaEvent_t event,
                                cudaStream_t stream) {
  static call_site site{"cudaEventRecord"};
  return api(site, needs::device,
             [&](runtime& rt) { return record_event(rt, default_stream, event, stream, 0); });
}
WARPWRIGHT_STREAM_API(cudaEventRecord, _ptsz, event_record,
                      (cudaEvent_t event, cudaStream_t stream), (event, stream))

static cudaError_t event_record_with_flags(null_stream default_stream, cudaEvent_t event,
                                           cudaStream_t stream, unsigned flags) {
  static call_site site{"cudaEventRecordWithFlags"};
  return api(site, needs::device,
             [&](runtime& rt) { return record_event(rt, default_stream, event, stream, flags); });
}
WARPWRIGHT_STREAM_API(cudaEventRecordWithFlags, _ptsz, event_record_with_flags,
                      (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                      (event, stream, flags))

static cudaError_t stream_wait_event(null_stream default_stream, cudaStream_t stream,
                                     cudaEvent_t event, unsigned flags) {
  static call_site site{"cudaStreamWaitEvent"};
  return api(site, needs::device,
             [&](runtime& rt) { return wait_event(rt, default_stream, stream, event, flags); });
}
WARPWRIGHT_STREAM_API(cudaStreamWaitEvent, _ptsz, stream_wait_event,
                      (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                      (stream, event, flags))

WARPWRIGHT_API cudaError_t cudaEventQuery(cudaEvent_t handle) {
  static call_site site{"cudaEventQuery"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const event = rt.events.find(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (cudaError_t const code = check_not_captured(*event)) return code;
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    if (event->record == nullptr) return cudaSuccess;
    if (!event->record->done.load(std::memory_order_relaxed)) return cudaErrorNotReady;
    acquire(&event->record->token);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  static call_site site{"cudaEventSynchronize"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const event = rt.events.find(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (cudaError_t const code = check_not_captured(*event)) return code;
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    std::shared_ptr<sync_point> const record = event->record;  // may change during the wait
    if (record != nullptr) wait_for(rt, lock, record);
    trim_pools_after_sync(rt);
    return sticky_error(rt);
  });
}

WARPWRIGHT_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle,
                                                cudaEvent_t end_handle) {
  static call_site site{"cudaEventElapsedTime"};
  return api(site, needs::device, [&](runtime& rt) {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const start = rt.events.find(start_handle);
    auto const end = rt.events.find(end_handle);
    if (start == nullptr || end == nullptr) return cudaErrorInvalidResourceHandle;
    if (cudaError_t const code = check_not_captured(*start)) return code;
    if (cudaError_t const code = check_not_captured(*end)) return code;
    if (((start->flags | end->flags) & cudaEventDisableTiming) != 0 || start->record == nullptr ||
        end->record == nullptr || start->device != end->device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!start->record->done.load(std::memory_order_relaxed) ||
        !end->record->done.load(std::memory_order_relaxed)) {
      return cudaErrorNotReady;
    }
    std::int64_t const ns = end->record->finished_ns - start->record->finished_ns;
    *milliseconds = static_cast<float>(static_cast<double>(ns) * 1e-6);
    return cudaSuccess;
  });
}
