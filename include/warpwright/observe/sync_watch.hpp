// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the calls in which the host waits for the GPU, also those inside libraries:
//
//   ww::sync_watch watch{ww::sync_watch_options{}.log()};
//   for (…) { ww::span step{"step"}; forward(stream); }
//   watch.check();                            // throws if a call waited
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/observe/detail/trace_core.hpp>
#include <warpwright/observe/span.hpp>

#include <cstddef>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

struct sync_watch_values {
  double min_seconds = 20e-6;
  std::size_t log_lines = 0;
};

}  // namespace detail

/// What a sync_watch counts, and whether it writes it.
class sync_watch_options
    : public detail::options_base<sync_watch_options, detail::sync_watch_values> {
 public:
  /// Writes a line to stderr at the first wait of each place.
  /// @param max_lines  at least 1
  /// @throws std::invalid_argument  for 0
  [[nodiscard]] sync_watch_options log(std::size_t max_lines = 20) const;
  /// From which time on a copy, a fill, an allocation or a free counts as a wait.
  /// @param seconds  from 0 to 1
  /// @throws std::invalid_argument  outside of that
  [[nodiscard]] sync_watch_options min_seconds(double seconds) const;
};

/// Waits of one function, in one span, called from one place.
struct sync_place {
  std::string function;   ///< the outermost: of the runtime, or of the driver
  std::string span;       ///< innermost; empty: none
  std::string call_site;  ///< a function, or a file and an offset for addr2line
  std::size_t calls = 0;
  double seconds = 0.0;  ///< of the host inside the calls
};

struct sync_statistics {
  std::size_t calls = 0;
  double seconds = 0.0;
  std::size_t unplaced_calls = 0;  ///< of these, without a place: there are 256, or no memory
  std::vector<sync_place> places;  ///< the longest first

  /// @return a line for each place
  [[nodiscard]] std::string to_text() const;
};

/// Counts host time inside CUDA calls while the stream that the call names had work, by function,
/// span and call site. Calls come from CUPTI's callbacks, so that those of cuBLAS and Thrust count.
///
/// What counts: (1) a synchronisation with a stream or an event that was not ready when it began;
/// (2) one with the device, if its legacy stream was not ready, or it took min_seconds; (3) copies,
/// and fills without "Async", that took min_seconds and found their stream not ready, but not
/// copies of page-locked memory by cudaMemcpyAsync(); (4) allocations and frees that took as long,
/// and left the legacy stream ready. So a wait for an idle stream is none, nor is a copy's own time
/// on one.
///
/// Not seen: frees behind nothing but non-blocking streams; asynchronous copies of batches, arrays
/// and between devices; launches into a full queue; loops around cudaStreamQuery(); in a capture
/// the streams that cannot be asked. One watch counts at a time. Names of spans must be literals,
/// or a trace must record. With another profiler or without CUPTI nothing counts: unavailable().
///
/// In the child of a fork() a watch is off.
///
/// **Threads:** all threads' calls count. **Capture:** legal; no capture is disturbed. **Cost:** a
/// watched call takes some microseconds more, others none; a wait also a stack walk.
class sync_watch : detail::noncopyable {
 public:
  /// @param functions  in CUPTI's place: for tests
  /// @throws std::bad_alloc  when the host has no memory for 256 places
  explicit sync_watch(sync_watch_options const& options = {},
                      detail::activity_functions const* functions = nullptr);
  ~sync_watch();

  /// @return why nothing is counted, with the remedy; "": it is
  [[nodiscard]] std::string const& unavailable() const noexcept { return unavailable_; }
  /// @throws std::bad_alloc  when the host has no memory for it
  [[nodiscard]] sync_statistics statistics() const;
  /// @return unavailable(), or the statistics
  [[nodiscard]] std::string to_text() const;
  /// For tests. Nothing is thrown where the wait is: it is a callback of a C library.
  /// @throws std::runtime_error  if a call waited since the last check, with the text
  void check();

 private:
  [[nodiscard]] bool is_counting() const noexcept { return owns_ && process_.is_current(); }

  std::string unavailable_;
  bool owns_ = false;
  detail::owning_process process_;
  std::size_t checked_ = 0;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/activity_source_definitions.hpp>
#include <warpwright/observe/detail/sync_watch_definitions.hpp>
#endif
