// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Times calls with a pair of CUDA events: device time, launch gaps included.
///
/// measure() and batch_tuner accept any class with this call operator, for instance one with a
/// simulated clock.
/// **Threads:** one at a time.
class event_stopwatch {
 public:
  /// @throws cuda_error if the events cannot be created
  explicit event_stopwatch(source_location where = source_location::current())
      : begin_{where}, end_{where}, where_{where} {}

  /// Runs `call` back to back and waits for the last call's work.
  ///
  /// @param stream  the stream on which `call` enqueues its work
  /// @param call  callable without arguments
  /// @param repeats  number of calls, at least 1
  /// @return seconds for all calls together
  /// @throws cuda_error if timing fails, or for an error of the work; and whatever `call` throws
  ///
  /// **Stream:** ordered on `stream`; blocks until its work is done. **Capture:** not legal.
  template <typename Call>
  double operator()(stream_ref stream, Call& call, std::size_t repeats) {
    begin_.record(stream, where_);
    for (std::size_t i = 0; i < repeats; ++i) call();
    end_.record(stream, where_);
    end_.synchronize(where_);
    return 1e-3 * static_cast<double>(end_.milliseconds_since(begin_, where_));
  }

 private:
  timed_event begin_;
  timed_event end_;
  source_location where_;
};

WARPWRIGHT_END
