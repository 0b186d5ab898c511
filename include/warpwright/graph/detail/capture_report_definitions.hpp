// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/capture_report.hpp>
#include <warpwright/graph/detail/capture/capture_rules.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE capture_obstacle preflight(stream_ref stream) noexcept {
  if (stream.get() == cudaStreamLegacy) return capture_obstacle::legacy_stream;
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  cudaError_t status = detail::discard(cudaStreamIsCapturing(stream.get(), &state));
  if (status != cudaSuccess) return capture_obstacle::unknown_stream;
  if (state == cudaStreamCaptureStatusActive) return capture_obstacle::already_capturing;
  if (state == cudaStreamCaptureStatusInvalidated) return capture_obstacle::invalidated_capture;
  unsigned flags = 0;
  status = detail::discard(cudaStreamGetFlags(stream.get(), &flags));
  if (status != cudaSuccess) return capture_obstacle::unknown_stream;
  return (flags & cudaStreamNonBlocking) == 0 ? capture_obstacle::blocking_stream
                                              : capture_obstacle::none;
}

WARPWRIGHT_INLINE std::string capture_report::cause() const {
  if (code == cudaErrorInvalidResourceHandle && obstacle == capture_obstacle::unknown_stream) {
    return "the stream was destroyed during the capture";
  }
  if (code == cudaErrorInvalidResourceHandle) {
    return "a stream or event of the body belongs to another device, or was destroyed";
  }
  std::string result;
  detail::capture_rule const* rule = detail::find_capture_rule(code);
  if (rule != nullptr) result = rule->cause;
  if (broken_by.empty() || broken_by == api) return result;
  if (!result.empty()) result += ": ";
  result.append(broken_by).append(" returned ").append(cudaGetErrorName(broken_with));
  if (by_other_thread) result.append(" in another thread (").append(thread).append(")");
  rule = broken_with != code ? detail::find_capture_rule(broken_with) : nullptr;
  if (rule != nullptr) result.append(", ").append(rule->cause);
  return result;
}

WARPWRIGHT_INLINE std::string capture_report::remedy() const {
  if (code == cudaErrorInvalidResourceHandle && obstacle == capture_obstacle::unknown_stream) {
    return "destroy streams after the capture has ended";
  }
  if (code == cudaErrorInvalidResourceHandle) {
    return "make the stream's device current (scoped_device) where events are created and kernels "
           "are launched, and destroy streams and events after the capture has ended";
  }
  std::string result;
  char const* const of_call = detail::remedy_of_call(broken_by.empty() ? api : broken_by.c_str());
  detail::capture_rule const* const rule =
      detail::find_capture_rule(broken_with != cudaSuccess ? broken_with : code);
  if (of_call != nullptr) {
    result = of_call;
  } else if (rule != nullptr) {
    result = rule->remedy;
  }
  if (by_other_thread) {
    result += detail::breaks_any_capture(broken_with, broken_by)
                  ? "; no thread may make that call while another one captures"
                  : "; or capture with capture_mode::thread, which other threads' calls do not "
                    "invalidate";
  }
  return result;
}

WARPWRIGHT_INLINE std::string capture_report::summary() const {
  if (code == cudaSuccess) {
    return mark.empty() ? "the capture is valid so far"
                        : "the capture is valid so far, last mark \"" + mark + "\"";
  }
  std::string result = cause();
  if (!mark.empty()) {
    result += noticed_at_end ? ", noticed at the end of the body, whose last mark is \""
              : code == cudaErrorStreamCaptureInvalidated ? ", noticed after mark \""
                                                          : ", after mark \"";
    result.append(mark).append("\"");
  }
  std::string const what_to_do = remedy();
  if (!what_to_do.empty()) result.append(": ").append(what_to_do);
  if (obstacle == capture_obstacle::blocking_stream &&
      (code == cudaErrorStreamCaptureImplicit || broken_with == cudaErrorStreamCaptureImplicit)) {
    result.append("; ").append(to_string(obstacle));
  }
  return result;
}

WARPWRIGHT_INLINE std::string capture_report::to_text() const {
  if (code == cudaSuccess) return summary() + "\n";
  std::string result = "capture failed\n  reported by  ";
  result.append(api).append(": ").append(cudaGetErrorName(code)).append(" (");
  result.append(std::to_string(static_cast<int>(code))).append("), ");
  result.append(detail::text{where.file(), where.line()}.c_str());
  result.append("\n  cause        ").append(cause());
  if (!mark.empty()) result.append("\n  last mark    ").append(mark);
  if (code == cudaErrorStreamCaptureInvalidated && !by_other_thread) {
    result.append("\n  noticed      ");
    result += noticed_at_end ? "at the end of the body: the call that broke the capture can stand "
                               "anywhere in the body, before any mark; "
                             : "by a later call: the one that broke the capture can stand before "
                               "an earlier mark; ";
    result +=
        "it is reported with its line and mark if ww::check() checks it and the body does not "
        "catch the exception";
  }
  if (!broken_by.empty()) {
    result.append("\n  broken by    ").append(broken_by);
    if (by_other_thread) result.append(", in another thread (").append(thread).append(")");
  }
  if (obstacle != capture_obstacle::none) {
    result.append("\n  stream       ").append(to_string(obstacle));
  }
  result.append("\n  remedy       ").append(remedy()).append("\n");
  if (!log.empty()) result.append("  CUDA's log\n").append(log);
  return result;
}

WARPWRIGHT_END
