// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>

#include <string>

WARPWRIGHT_BEGIN

/// What keeps a stream from being captured, or endangers the capture.
enum class capture_obstacle {
  none,
  legacy_stream,        ///< the legacy default stream cannot be captured
  already_capturing,    ///< a capture of the stream is under way
  invalidated_capture,  ///< as above, and an illegal call has invalidated it
  unknown_stream,       ///< the stream was destroyed, or belongs to a device that was reset
  /// It can be captured, but work on the legacy default stream meanwhile breaks the capture.
  blocking_stream
};

/// @return the obstacle in words, with the remedy; "" for none
[[nodiscard]] constexpr char const* to_string(capture_obstacle obstacle) noexcept {
  constexpr char const* texts[] = {
      "",
      "the legacy default stream cannot be captured: create a warpwright::stream, or compile with "
      "per-thread default streams",
      "the stream is capturing already: end that capture before beginning another on the same "
      "stream",
      "the stream has a capture that an illegal call invalidated: end it with cudaStreamEndCapture "
      "first",
      "the stream does not exist: it was destroyed, or its device was reset",
      "the stream is a blocking one: work on the legacy default stream, of any thread, breaks the "
      "capture; create it with cudaStreamNonBlocking, or use a warpwright::stream"};
  return detail::enum_name(texts, obstacle);
}

/// Looks for what keeps a stream from being captured.
/// @param stream  any stream
/// @return the first obstacle; blocking_stream if there is no other
/// **Stream:** does not block. **Capture:** legal. **Cost:** two CUDA calls.
[[nodiscard]] capture_obstacle preflight(stream_ref stream) noexcept;

/// What is known about a capture that failed.
///
/// An exception that leaves the body tells of the failure at once: `where` and `mark` are then
/// those of the call that threw. If the body catches it, or does not check the call, a later call
/// tells of the failure (its code is cudaErrorStreamCaptureInvalidated), at the latest the end of
/// the capture: `where` and `mark` are then those of that call, and only CUDA's log has the one
/// that broke the capture.
struct capture_report {
  cudaError_t code = cudaSuccess;                      ///< of the call that told of the failure
  char const* api = "";                                ///< that call
  source_location where = source_location::current();  ///< the caller's line of that call
  /// The first call that broke the capture, by CUDA's log or because it threw; "" if unknown. The
  /// log has the driver's names, such as cuMemAlloc_v2 for cudaMalloc.
  std::string broken_by;
  cudaError_t broken_with = cudaSuccess;  ///< the error of that call
  bool by_other_thread = false;           ///< whether another thread made that call
  std::string thread;                     ///< the thread of that call, as CUDA's log names it
  /// The last capture_scope::mark() before the call that told of the failure; "" for none.
  std::string mark;
  /// Whether only the end of the capture told of the failure: `mark` is then the last one of the
  /// body, and the call that broke the capture can stand before any mark.
  bool noticed_at_end = false;
  /// What is wrong with the stream now that the capture has ended.
  capture_obstacle obstacle = capture_obstacle::none;
  std::string log;  ///< CUDA's log since the capture began; "" with a toolkit older than 13.0

  /// @return what happened, in words
  [[nodiscard]] std::string cause() const;
  /// @return what to do about it
  [[nodiscard]] std::string remedy() const;
  /// @return cause, place and remedy on one line
  [[nodiscard]] std::string summary() const;
  /// @return all of the report, several lines
  [[nodiscard]] std::string to_text() const;
};

/// A capture that failed: a cuda_error whose text has the cause and the remedy.
class capture_error : public cuda_error {
 public:
  /// @param report  copied
  explicit capture_error(capture_report const& report) : capture_error{report, report.summary()} {}
  /// @return what is known about the failure
  [[nodiscard]] capture_report const& report() const noexcept { return report_; }

 private:
  capture_error(capture_report const& report, std::string const& summary)
      : cuda_error{report.code, report.api, report.where, detail::is_sticky(report.code),
                   summary.empty() ? nullptr : summary.c_str()},
        report_{report} {}

  capture_report report_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/capture_report_definitions.hpp>
#endif
