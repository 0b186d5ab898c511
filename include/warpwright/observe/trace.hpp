// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the GPU and the host did during a few steps of a loop, recorded by the program itself:
//
//   ww::trace trace{ww::trace_options{}.schedule(1, 1, 3, 2)};
//   for (int i = 0; i < steps; ++i) {
//     auto const step = trace.step();
//     ww::span const forward{"forward"};
//     ...
//   }
//   trace.write_chrome("trace.json");                    // for Perfetto
//   std::puts(trace.kernels().to_text(10).c_str());
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/observe/detail/trace_core.hpp>
#include <warpwright/observe/span.hpp>

#include <cstddef>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// What a trace records, and when.
class trace_options : public detail::options_base<trace_options, detail::trace_values> {
 public:
  /// Which steps are recorded: `wait` steps are not, in `warm_up` steps the records are made and
  /// thrown away, as the first ones cost more, and `record` steps are kept; all that `repeat`
  /// times. Without a schedule all steps are recorded, from the first.
  /// @param record  at least 1
  /// @param repeat  0: until the trace ends
  /// @throws std::invalid_argument  for record = 0
  [[nodiscard]] trace_options schedule(std::size_t wait, std::size_t warm_up, std::size_t record,
                                       std::size_t repeat = 1) const;
  /// Memory for the GPU's records until their window ends; records that do not fit are counted.
  /// @param n  from 8 MiB to 1 GiB, in whole MiB; a kernel takes some 260 bytes, a call 40, and
  ///   each thread that calls CUDA fills a MiB of its own
  /// @throws std::invalid_argument  outside of that
  [[nodiscard]] trace_options buffer_bytes(std::size_t n) const;
  /// Memory for so many spans in all; further ones are counted.
  /// @param n  from 1 to 2^24; 64 bytes each
  /// @throws std::invalid_argument  outside of that
  [[nodiscard]] trace_options max_spans(std::size_t n) const;
  /// Whether calls of the runtime are recorded. Without them recording costs the host less, but
  /// kernels have no span, idle time has no reason, and calls have no times.
  [[nodiscard]] trace_options runtime_calls(bool on) const {
    return with(&values::runtime_calls, on);
  }
  /// Whether a graph is one record, instead of one a kernel: cheap, and its kernels are not seen.
  ///
  /// CUPTI can crash at the launch of a graph that was instantiated before this was on. So the
  /// trace must be made before the process's first CUDA call that needs a context; one made later
  /// is refused (unavailable()). Then it stays on, for all traces, until the process ends.
  /// @pre no other thread has made a context of its own by cuCtxCreate(), which cannot be seen
  [[nodiscard]] trace_options whole_graphs(bool on = true) const {
    return with(&values::whole_graphs, on);
  }
  /// The file of CUPTI, where it is in none of the usual places.
  /// @param path  must live until the trace is made
  [[nodiscard]] trace_options library(char const* path) const {
    return with(&values::library, path);
  }
};

/// Launches of one kernel.
struct kernel_row {
  std::string name;  ///< without namespaces, result and parameters
  std::string span;  ///< innermost, of the launches; empty in trace::kernels()
  std::size_t calls = 0;
  double total_seconds = 0.0;
  double mean_seconds = 0.0;
  double share = 0.0;  ///< of the time of all kernels
};

/// Kernels, the longest total first.
struct kernel_table {
  std::vector<kernel_row> rows;
  double total_seconds = 0.0;  ///< of all kernels; more than elapsed where they overlap

  /// @return a line for each of the first `max_rows` kernels, and one for the rest
  [[nodiscard]] std::string to_text(std::size_t max_rows = 20) const;
  /// @return all rows, with a first line of names
  [[nodiscard]] std::string to_csv() const;
};

/// Copies of one kind.
struct copy_total {
  std::size_t count = 0;
  double bytes = 0.0;
  double seconds = 0.0;
};

/// Calls of one function of the runtime.
struct call_total {
  std::string name;
  std::size_t calls = 0;
  double seconds = 0.0;  ///< of the host inside it, all threads
};

/// Where the time of the recorded steps went.
///
/// A GPU is busy while a kernel, a copy or a fill runs. The rest is idle time: each gap has one
/// reason, by when the host called what ended it. These are HolisticTraceAnalysis's reasons, for
/// the device instead of a stream, with launches back to back told apart.
struct trace_summary {
  std::size_t steps = 0;  ///< recorded
  std::size_t devices = 0;
  std::size_t kernels = 0;
  std::size_t graphs = 0;  ///< as one record
  std::size_t synchronizing_calls = 0;
  std::size_t dropped_records = 0;  ///< the buffers were full: all figures are too low
  std::size_t dropped_spans = 0;
  double recorded_seconds = 0.0;  ///< of the host, from the first step of a window to the last
  double busy_seconds = 0.0;      ///< all devices together, as all that follows
  double idle_seconds = 0.0;      ///< the sum of these four:
  double waiting_for_host_seconds = 0.0;  ///< nothing was enqueued: the host did something else
  double launch_bound_seconds = 0.0;      ///< the host launched without a pause, and too slowly
  double between_kernels_seconds = 0.0;   ///< the next kernel was already enqueued
  double unexplained_seconds = 0.0;       ///< without runtime_calls()
  double kernel_seconds = 0.0;            ///< while a kernel ran
  double unfilled_seconds = 0.0;          ///< of these, times the multiprocessors without a block
  double copy_seconds = 0.0;              ///< while a copy ran
  double overlapped_copy_seconds = 0.0;   ///< while a copy and a kernel ran
  copy_total host_to_device, device_to_host;
  copy_total pageable;            ///< of these, with pageable host memory
  std::vector<call_total> calls;  ///< the longest total first

  /// @return a part of the time of the devices, from 0 to 1; 0 where there is none
  [[nodiscard]] double share(double seconds) const noexcept {
    double const all = busy_seconds + idle_seconds;
    return all > 0.0 ? seconds / all : 0.0;
  }
  [[nodiscard]] std::string to_text() const;
};

/// One turn of the program's loop; its destructor ends it.
class [[nodiscard]] trace_step : detail::noncopyable {
 public:
  ~trace_step();

 private:
  friend class trace;
  explicit trace_step(detail::trace_core* core) noexcept : core_{core} {}

  detail::trace_core* core_;
};

/// Records what the GPU and the host do in some steps of a loop: kernels, copies, fills and graphs
/// by CUPTI, which is found at run time and not linked; calls of the runtime; spans. On the host
/// runtime the records are that runtime's own, of kernels that run on CPU threads.
///
/// Where CUPTI is not there, of another version, not allowed or in use, unavailable() says so in a
/// line; spans and steps are recorded all the same. One trace records at a time. Reading results
/// ends the recording. In a child of fork() a trace is off.
///
/// **Threads:** one thread makes the trace, its steps and its results; the spans and calls of all
/// threads are recorded. **Capture:** no capture may be under way at the end of a window.
/// **Cost:** buffers are allocated by the constructor, and none while it records. A recorded launch
/// costs what CUPTI takes, some microseconds with runtime_calls(); outside of windows nothing.
class trace : detail::noncopyable {
 public:
  /// @throws std::bad_alloc  when the host has no memory for the buffers
  explicit trace(trace_options const& options = {});
  /// As above, with functions in CUPTI's place: for tests.
  trace(trace_options const& options, detail::activity_functions const& functions);
  ~trace();

  /// Begins the next step. @pre the step before has ended
  /// **Stream:** the step that ends a window waits for the current device. **Cost:** a few
  /// nanoseconds outside of windows; the end of a window reads the buffers, milliseconds.
  [[nodiscard]] trace_step step();
  /// Ends the recording, also within a window. What follows calls it.
  void finish();

  /// @return why the GPU's records are missing, with the remedy; "": they are not
  [[nodiscard]] std::string const& unavailable() const noexcept;
  /// @return the kernels of the recorded steps, as kernel_row::name
  [[nodiscard]] kernel_table kernels();
  /// @return the same, with a row for each span that launched the kernel
  [[nodiscard]] kernel_table kernels_by_span();
  [[nodiscard]] trace_summary summary();
  /// Writes Chrome's trace format, for Perfetto (ui.perfetto.dev), chrome://tracing and
  /// HolisticTraceAnalysis: steps, spans and calls by thread, the GPU's work by stream.
  /// @throws std::runtime_error  when the file cannot be written, with its path and the cause
  void write_chrome(char const* path, source_location where = source_location::current());

 private:
  detail::trace_core* core_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/activity_source_definitions.hpp>
#include <warpwright/observe/detail/trace_definitions.hpp>
#include <warpwright/observe/detail/trace_report_definitions.hpp>
#endif
