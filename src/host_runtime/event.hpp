// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Events, where graphs and captures meet them.
#pragma once

#include "runtime.hpp"

namespace warpwright::host {

/// Records into a stream that does not capture.
void record_in_stream(runtime& rt, event_state& event, stream_state& stream);
/// cudaEventRecord on a capturing stream.
cudaError_t capture_record(runtime& rt, stream_state& stream, cudaEvent_t handle,
                           std::shared_ptr<event_state> const& event, bool external);
/// cudaStreamWaitEvent where the stream captures, or the event was last recorded in a capture.
cudaError_t capture_wait(runtime& rt, std::shared_ptr<stream_state> const& stream,
                         cudaEvent_t handle, std::shared_ptr<event_state> const& event,
                         bool external);
/// For an event whose last record was captured: cudaErrorCapturedEvent while that capture is good,
/// which breaks it, and cudaErrorInvalidValue afterwards.
cudaError_t refuse_captured(event_state& event);

}  // namespace warpwright::host
