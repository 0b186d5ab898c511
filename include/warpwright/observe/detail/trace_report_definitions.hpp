// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a trace says: tables, where the time went, and Chrome's trace format.
#pragma once

#include <warpwright/observe/trace.hpp>

#include <warpwright/core/detail/container/address_map.hpp>
#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/kernel_label.hpp>
#include <warpwright/core/detail/text/markup.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

/// A kernel's name for people; the host runtime's are not mangled.
WARPWRIGHT_COLD inline std::string kernel_text(std::string const& name) {
  return name.compare(0, 2, "_Z") == 0 ? kernel_label(name) : name;
}

inline double seconds_of(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

inline bool is_kernel(traced_operation const& operation) {
  return operation.kind == activity_kind::kernel || operation.kind == activity_kind::graph;
}

// The time that any of the intervals of one group covers, given in the order of their begins.
struct covered_time {
  std::uint64_t until = 0;
  std::uint64_t total = 0;
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin < until) begin = until;
    if (end <= begin) return;
    total += end - begin;
    until = end;
  }
};

// Nanoseconds: launches that follow one another within the first are back to back, and work that
// was launched so long before the GPU was idle had reached it.
inline constexpr std::uint64_t launch_pause = 20000;
inline constexpr std::uint64_t launch_latency = 5000;

// Charges the idle time before an operation.
WARPWRIGHT_COLD WARPWRIGHT_INLINE double& reason_of_gap(trace_core const& core,
                                                        trace_summary& summary,
                                                        traced_operation const& next,
                                                        std::uint32_t call_before,
                                                        std::uint64_t idle_since) {
  if (next.call == no_entry) return summary.unexplained_seconds;
  traced_call const& call = core.calls[next.call];
  bool const same_graph = next.call == call_before;
  if (same_graph || call.end + launch_latency <= idle_since) return summary.between_kernels_seconds;
  if (call.begin < idle_since) return summary.launch_bound_seconds;
  std::uint32_t before = next.call;
  bool waited = false;
  while (before != 0 && !core.calls[--before].launches) waited |= core.calls[before].waits;
  traced_call const& previous = core.calls[before];
  bool const back_to_back = before != next.call && previous.launches && !previous.waits &&
                            !waited && previous.end + launch_pause >= call.begin;
  return back_to_back ? summary.launch_bound_seconds : summary.waiting_for_host_seconds;
}

// The operations of one window on one device.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void add_device(trace_core const& core, trace_summary& summary,
                                                  traced_window const& window,
                                                  traced_operation const* first,
                                                  traced_operation const* last) {
  covered_time busy{window.begin, 0};
  covered_time kernels = busy;
  covered_time copies = busy;
  covered_time either = busy;
  std::uint32_t call_before = no_entry;
  int processors = 0;
  auto const device = static_cast<int>(first->device);
  discard(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  double filled = 0.0;
  for (; first != last; ++first) {
    traced_operation const& operation = *first;
    if (operation.begin > busy.until) {
      reason_of_gap(core, summary, operation, call_before, busy.until) +=
          seconds_of(operation.begin - busy.until);
    }
    call_before = operation.call;
    busy.add(operation.begin, operation.end);
    if (is_kernel(operation)) {
      kernels.add(operation.begin, operation.end);
      auto const blocks = static_cast<double>(operation.bytes);
      bool const fills = operation.kind == activity_kind::graph || blocks >= processors;
      filled += (fills ? 1.0 : blocks / processors) * seconds_of(operation.end - operation.begin);
    }
    if (operation.kind == activity_kind::copy) copies.add(operation.begin, operation.end);
    if (operation.kind != activity_kind::fill) either.add(operation.begin, operation.end);
    if (operation.launched_before) continue;
    summary.kernels += operation.kind == activity_kind::kernel ? 1U : 0U;
    summary.graphs += operation.kind == activity_kind::graph ? 1U : 0U;
    auto const count = [&operation](copy_total& total) {
      ++total.count;
      total.bytes += static_cast<double>(operation.bytes);
      total.seconds += seconds_of(operation.end - operation.begin);
    };
    if (operation.direction == activity_copy::to_device) count(summary.host_to_device);
    if (operation.direction == activity_copy::to_host) count(summary.device_to_host);
    if (operation.pageable) count(summary.pageable);
  }
  if (busy.until < window.end) {
    (core.values.runtime_calls ? summary.waiting_for_host_seconds : summary.unexplained_seconds) +=
        seconds_of(window.end - busy.until);
  }
  summary.busy_seconds += seconds_of(busy.total);
  summary.kernel_seconds += seconds_of(kernels.total);
  double const unfilled = seconds_of(kernels.total) - filled;
  if (unfilled > 0.0) summary.unfilled_seconds += unfilled;
  summary.copy_seconds += seconds_of(copies.total);
  summary.overlapped_copy_seconds += seconds_of(kernels.total + copies.total - either.total);
}

struct table_entry {
  std::uint32_t name, span;
  std::uint64_t nanoseconds;
};

// A row for each pair of a name and a span, the longest total first.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::vector<kernel_row> grouped(trace_core const& core,
                                                                  array<table_entry>& entries) {
  sort(entries.begin(), entries.size(), [](table_entry const& a, table_entry const& b) {
    return a.name != b.name ? a.name < b.name : a.span < b.span;
  });
  std::vector<kernel_row> rows;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    table_entry const& entry = entries[i];
    if (i == 0 || entry.name != entries[i - 1].name || entry.span != entries[i - 1].span) {
      rows.emplace_back();
      rows.back().name = core.names[entry.name];
      rows.back().span = core.names[entry.span];
    }
    ++rows.back().calls;
    rows.back().total_seconds += seconds_of(entry.nanoseconds);
  }
  sort(rows.data(), rows.size(),
       [](kernel_row const& a, kernel_row const& b) { return a.total_seconds > b.total_seconds; });
  return rows;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE kernel_table make_kernel_table(trace_core const& core,
                                                                 bool by_span) {
  array<table_entry> entries;
  for (traced_operation const& operation : core.operations) {
    if (operation.launched_before || !is_kernel(operation)) continue;
    bool const named = by_span && operation.span != no_entry;
    entries.push_back({operation.name, named ? core.spans[operation.span].name : 0,
                       operation.end - operation.begin});
  }
  kernel_table table;
  table.rows = grouped(core, entries);
  for (kernel_row const& row : table.rows) table.total_seconds += row.total_seconds;
  for (kernel_row& row : table.rows) {
    row.name = kernel_text(row.name);
    row.mean_seconds = row.total_seconds / static_cast<double>(row.calls);
    if (table.total_seconds > 0.0) row.share = row.total_seconds / table.total_seconds;
  }
  return table;
}

WARPWRIGHT_COLD inline string_builder table_line(kernel_row const& row, std::string name) {
  constexpr std::size_t max_name_bytes = 80;
  if (name.size() > max_name_bytes) name = name.substr(0, max_name_bytes - 3) + "...";
  return padded(row.calls, 8) + padded(format_seconds(row.total_seconds), 10) +
         padded(format_seconds(row.mean_seconds), 10) + padded(format_percent(row.share), 9) +
         "  " + valid_utf8(name) + (row.span.empty() ? "" : "  [" + valid_utf8(row.span) + "]") +
         "\n";
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string kernel_table::to_text(
    std::size_t max_rows) const {
  detail::string_builder text = "   calls     total      mean    share  kernel\n";
  kernel_row rest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i < max_rows) text += detail::table_line(rows[i], rows[i].name);
    if (i < max_rows) continue;
    rest.calls += rows[i].calls;
    rest.total_seconds += rows[i].total_seconds;
    rest.share += rows[i].share;
    rest.mean_seconds = rest.total_seconds / static_cast<double>(rest.calls);
  }
  if (rest.calls != 0) {
    auto const further = detail::counted(rows.size() - max_rows, "further row");
    text += detail::table_line(rest, "(" + further.str() + ")");
  }
  return text;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string kernel_table::to_csv() const {
  detail::string_builder text = "name,span,calls,total_seconds,mean_seconds,share\n";
  for (kernel_row const& row : rows) {
    text += detail::csv_text(row.name) + "," + detail::csv_text(row.span) + "," + row.calls + "," +
            detail::format_number("%.9g", row.total_seconds) + "," +
            detail::format_number("%.9g", row.mean_seconds) + "," +
            detail::format_number("%.6g", row.share) + "\n";
  }
  return text;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string trace_summary::to_text() const {
  detail::string_builder text =
      detail::counted(steps, "step") + ", " + detail::format_seconds(recorded_seconds) + ": " +
      detail::counted(kernels, "kernel") +
      (graphs == 0 ? "" : ", " + detail::counted(graphs, "graph").str()) + "\n";
  auto const part = [&](char const* name, double seconds) {
    if (seconds < 1e-9) return;
    text += detail::padded(detail::format_percent(share(seconds)), 8) +
            detail::padded(detail::format_seconds(seconds), 10) + "  " + name + "\n";
  };
  part("GPU busy", busy_seconds);
  part("idle, waiting for the host", waiting_for_host_seconds);
  part("idle, launch-bound", launch_bound_seconds);
  part("idle, between kernels", between_kernels_seconds);
  part("idle, for a reason that was not recorded", unexplained_seconds);
  part("multiprocessors without a block of the kernel that ran", unfilled_seconds);
  part("copying", copy_seconds);
  part("copying from or to pageable memory", pageable.seconds);
  part("copying beside a kernel", overlapped_copy_seconds);
  for (std::size_t i = 0; i < calls.size() && i < 5; ++i) {
    text += detail::padded(detail::format_seconds(calls[i].seconds), 18) + "  in " +
            detail::counted(calls[i].calls, "call") + " of " + calls[i].name + "\n";
  }
  if (dropped_records + dropped_spans != 0) {
    text += "incomplete: " + detail::counted(dropped_records, "record") + " and " +
            detail::counted(dropped_spans, "span") +
            " were dropped; record fewer steps, or give trace_options more buffer_bytes or "
            "max_spans\n";
  }
  return text;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE kernel_table trace::kernels() {
  finish();
  return detail::make_kernel_table(*core_, false);
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE kernel_table trace::kernels_by_span() {
  finish();
  return detail::make_kernel_table(*core_, true);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace_summary trace::summary() {
  finish();
  detail::trace_core const& core = *core_;
  trace_summary all;
  all.steps = core.steps.size();
  all.dropped_records = core.dropped_records;
  all.dropped_spans = core.dropped_spans;
  for (detail::traced_window const& window : core.windows) {
    all.recorded_seconds += detail::seconds_of(window.end - window.begin);
  }
  std::size_t const count = core.operations.size();
  for (std::size_t first = 0; first < count;) {
    detail::traced_operation const& one = core.operations[first];
    std::size_t last = first;
    while (last < count && core.operations[last].window == one.window &&
           core.operations[last].device == one.device) {
      ++last;
    }
    if (one.device >= all.devices) all.devices = one.device + 1;
    detail::add_device(core, all, core.windows[one.window], &one, core.operations.begin() + last);
    first = last;
  }
  if (count == 0 && core.records_activity) all.waiting_for_host_seconds = all.recorded_seconds;
  all.idle_seconds = all.waiting_for_host_seconds + all.launch_bound_seconds +
                     all.between_kernels_seconds + all.unexplained_seconds;
  detail::array<detail::table_entry> calls;
  for (detail::traced_call const& call : core.calls) {
    if (call.outside) continue;
    all.synchronizing_calls += call.waits ? 1U : 0U;
    calls.push_back({call.name, 0, call.end - call.begin});
  }
  for (kernel_row const& row : detail::grouped(core, calls)) {
    all.calls.push_back({row.name, row.calls, row.total_seconds});
  }
  return all;
}

namespace detail {

/// Writes events of Chrome's trace format one by one.
class chrome_writer {
 public:
  chrome_writer(trace_core const& core, std::FILE* file) : core_{core}, out_{file} {}

  [[nodiscard]] WARPWRIGHT_COLD int write() {
    start_ = core_.windows.empty() ? 0 : core_.windows[0].begin;
    out_.print(
        "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"distributedInfo\":{\"rank\":0},"
        "\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%ld,\"tid\":0,"
        "\"args\":{\"name\":\"host\"}}",
        host_);
    for (traced_step const& step : core_.steps) {
      event("user_annotation", string_builder{"ProfilerStep#"} + step.number, host_, step.thread,
            step.begin, step.end);
      out_.print("}");
    }
    for (traced_span const& span : core_.spans) {
      event("user_annotation", core_.names[span.name], host_, span.thread, span.begin, span.end);
      out_.print("}");
    }
    for (traced_call const& call : core_.calls) {
      if (call.outside) continue;
      event("cuda_runtime", core_.names[call.name], host_, call.thread, call.begin, call.end);
      out_.print(",\"args\":{\"correlation\":%u}}", call.correlation);
    }
    for (traced_operation const& operation : core_.operations) write(operation);
    write_device_spans();
    write_device_names();
    out_.print("\n]}\n");
    return out_.flush();
  }

 private:
  // Of an event with a duration, without its end.
  WARPWRIGHT_COLD void event(char const* category, std::string const& name, long process,
                             std::uint32_t thread, std::uint64_t begin, std::uint64_t end) {
    out_.print(",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", category);
    quoted(name);
    out_.print(",\"pid\":%ld,\"tid\":%u,", process, thread);
    time("ts", begin);
    out_.print(",");
    std::uint64_t const lasts = end > begin ? end - begin : 0;
    time("dur", lasts + start_);
  }
  WARPWRIGHT_COLD void quoted(std::string const& name) {
    string_builder const text = json_text(name);
    out_.write(text.str().data(), text.size());
  }
  // Microseconds, without the locale's decimal separator.
  WARPWRIGHT_COLD void time(char const* name, std::uint64_t at) {
    bool const before = at < start_;
    auto const since = static_cast<unsigned long long>(before ? start_ - at : at - start_);
    out_.print("\"%s\":%s%llu.%03llu", name, before ? "-" : "", since / 1000, since % 1000);
  }
  WARPWRIGHT_COLD void write(traced_operation const& o) {
    bool const copy = o.kind == activity_kind::copy;
    bool const fill = o.kind == activity_kind::fill;
    char const* const direction = o.direction == activity_copy::to_device ? "HtoD"
                                  : o.direction == activity_copy::to_host ? "DtoH"
                                  : o.direction == activity_copy::peer    ? "PtoP"
                                                                          : "DtoD";
    event(copy   ? "gpu_memcpy"
          : fill ? "gpu_memset"
                 : "kernel",
          copy   ? string_builder{"Memcpy "} + direction + (o.pageable ? " (pageable)" : "")
          : fill ? string_builder{"Memset"}
                 : string_builder{kernel_text(core_.names[o.name])},
          o.device, o.stream, o.begin, o.end);
    out_.print(",\"args\":{\"device\":%u,\"stream\":%u,\"correlation\":%u", o.device, o.stream,
               o.correlation);
    if (copy || fill) out_.print(",\"bytes\":%llu", static_cast<unsigned long long>(o.bytes));
    if (o.span != no_entry) {
      out_.print(",\"span\":");
      quoted(core_.names[core_.spans[o.span].name]);
    }
    out_.print("}}");
  }
  // A stream's part of a span: from its first work to its last.
  WARPWRIGHT_COLD void write_device_spans() {
    struct part {
      std::uint32_t span, device, stream;
      std::uint64_t begin, end;
    };
    array<part> parts;
    address_map known;
    for (traced_operation const& o : core_.operations) {
      for (std::uint32_t span = o.span; span != no_entry; span = core_.spans[span].outer) {
        if (!core_.spans[span].on_stream) continue;
        // Fewer than 2^24 spans and 1,024 devices; a program has no 2^30 streams.
        std::uint64_t const key = (std::uint64_t{span} * 1024 + o.device) << 30U | o.stream;
        std::uint32_t const at = known.find(key);
        if (at == address_map::none) {
          known.reserve(parts.size() + 1);
          known.insert(key, static_cast<std::uint32_t>(parts.size()));
          parts.push_back({span, o.device, o.stream, o.begin, o.end});
        } else if (o.end > parts[at].end) {
          parts[at].end = o.end;
        }
      }
    }
    for (part const& p : parts) {
      event("gpu_user_annotation", core_.names[core_.spans[p.span].name], p.device, p.stream,
            p.begin, p.end);
      out_.print("}");  // with "stream" it would be a kernel to HolisticTraceAnalysis
    }
  }
  WARPWRIGHT_COLD void write_device_names() {
    std::uint32_t last = no_entry;
    for (traced_operation const& o : core_.operations) {
      if (o.device == last) continue;
      last = o.device;
      out_.print(
          ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"tid\":0,\"args\":"
          "{\"name\":\"GPU %u, threads are streams\"}}",
          last, last);
    }
  }

  trace_core const& core_;
  file_writer out_;
  std::uint64_t start_ = 0;
  long host_ = static_cast<long>(getpid());
};

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void trace::write_chrome(char const* path,
                                                                 source_location where) {
  finish();
  errno = 0;
  std::FILE* const file = std::fopen(path, "wb");
  int error = file == nullptr ? errno : 0;
  if (file != nullptr) {
    error = detail::chrome_writer{*core_, file}.write();
    if (std::fclose(file) != 0 && error == 0) error = errno;
  }
  if (error == 0) return;
  throw std::runtime_error{(detail::text{where.file(), where.line()} +
                            ": trace::write_chrome: cannot write '" + path +
                            "': " + std::strerror(error))
                               .c_str()};
}

WARPWRIGHT_END
