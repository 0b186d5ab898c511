// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Events, as used by streams, graphs and captures.
#pragma once

#include "runtime.hpp"

namespace warpwright::host {

/// Records into a stream that does not capture.
void record_in_stream(runtime& rt, event_state& event, stream_state& stream);
/// cudaEventRecord on a capturing stream.
cudaError_t capture_record(runtime& rt, stream_state& stream, cudaEvent_t handle,
                           std::shared_ptr<event_state> const& event, bool external);
/// cudaStreamWaitEvent if the stream is capturing, or the last record of the event was captured.
cudaError_t capture_wait(runtime& rt, std::shared_ptr<stream_state> const& stream,
                         cudaEvent_t handle, std::shared_ptr<event_state> const& event,
                         bool external);
/// Checks that the last record of an event was not captured. Else returns cudaErrorCapturedEvent
/// and invalidates the capture, or cudaErrorInvalidValue if it is not active any more.
cudaError_t check_not_captured(event_state& event);

}  // namespace warpwright::host
