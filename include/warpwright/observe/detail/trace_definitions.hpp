// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/observe/trace.hpp>

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/text.hpp>

#include <pthread.h>

#include <cstring>
#include <stdexcept>

WARPWRIGHT_BEGIN

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace_options trace_options::schedule(
    std::size_t wait, std::size_t warm_up, std::size_t record, std::size_t repeat) const {
  if (record == 0) {
    throw std::invalid_argument{
        "trace_options::schedule: 0 steps to record; a window has at least 1 step"};
  }
  return with(&values::wait, wait)
      .with(&values::warm_up, warm_up)
      .with(&values::record, record)
      .with(&values::repeat, repeat);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace_options
trace_options::buffer_bytes(std::size_t n) const {
  if (n < (std::size_t{8} << 20U) || n > (std::size_t{1} << 30U)) {
    throw std::invalid_argument{(detail::text{"trace_options::buffer_bytes: "} + n +
                                 " bytes; give 8 MiB to 1 GiB, some 260 bytes a kernel")
                                    .c_str()};
  }
  return with(&values::buffer_bytes, n);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace_options
trace_options::max_spans(std::size_t n) const {
  if (n == 0 || n > (std::size_t{1} << 24U)) {
    throw std::invalid_argument{
        (detail::text{"trace_options::max_spans: "} + n + " spans; give 1 to 2^24").c_str()};
  }
  return with(&values::max_spans, n);
}

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t name_table::number_of(char const* text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a: of 64 bits, which no two names share
  for (char const* c = text; *c != '\0'; ++c) {
    hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3ULL;
  }
  std::uint32_t number = numbers_.find(hash);
  if (number != address_map::none) return number;
  number = static_cast<std::uint32_t>(names_.size());
  numbers_.reserve(names_.size() + 1);
  names_.emplace_back(text);
  numbers_.insert(hash, number);
  return number;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE trace_core::trace_core(trace_values const& chosen,
                                                         activity_functions const* given)
    : values{chosen} {
  activity_buffers& all = the_activity_buffers();
  if (all.in_use.exchange(true, memory_order::acq_rel)) {
    unavailable = "another trace of this process records; end it first, by trace::finish()";
    now = phase::finished;
    return;
  }
  try {
    all.make(values.buffer_bytes / activity_buffers::buffer_bytes);
    store = &begin_span_store(values.max_spans);
    names.number_of("");  // 0
    if (given != nullptr) functions = *given;
    if (given == nullptr) unavailable = load_activity_functions(values.library, functions);
    if (unavailable.empty()) unavailable = try_activity(functions, values.whole_graphs);
  } catch (...) {
    all.in_use.store(false, memory_order::release);
    throw;
  }
  owns_buffers = true;
  records_activity = unavailable.empty();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE trace_core::~trace_core() {
  try {
    finish();
  } catch (...) {  // no memory for results that nobody reads
  }
  if (owns_buffers && process.is_current()) {
    the_activity_buffers().in_use.store(false, memory_order::release);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::enable(bool on) {
  if (!records_activity) return;
  auto const change = on ? functions.enable : functions.disable;
  int code = 0;
  for (activity_kind const kind : {activity_kind::kernel, activity_kind::copy, activity_kind::fill,
                                   activity_kind::peer_copy, activity_kind::runtime_call}) {
    if (kind == activity_kind::runtime_call && !values.runtime_calls) continue;
    int const result = change(kind);
    if (code == 0) code = result;
  }
  if (values.runtime_calls && functions.enable_driver_call != nullptr) {
    change(activity_kind::driver_call);
    // CUPTI 13.0 ignores calls that are turned on one by one, but not those that are turned off.
    for (std::uint32_t call = 1; on && call < driver_call_limit; ++call) {
      if (!is_driver_launch(call)) functions.enable_driver_call(call, 0);
    }
  }
  if (on && code != 0) unavailable = activity_problem(functions, "cuptiActivityEnable", code);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE clock_pair trace_core::read_clocks() const {
  clock_pair best{monotonic_nanoseconds(), 0};
  std::uint64_t shortest = ~std::uint64_t{0};
  for (int i = 0; i < 5 && records_activity; ++i) {  // an interrupt may fall between
    std::uint64_t theirs = 0;
    std::uint64_t const before = monotonic_nanoseconds();
    static_cast<void>(functions.timestamp(&theirs));
    std::uint64_t const took = monotonic_nanoseconds() - before;
    if (took < shortest) best = {before + took / 2, theirs};
    if (took < shortest) shortest = took;
  }
  return best;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::begin_window() {
  if (records_activity) {
    std::size_t ignored = 0;
    static_cast<void>(functions.dropped(nullptr, 0, &ignored));
    activity_buffers& all = the_activity_buffers();
    unique_lock<spin_lock> const guard{all.lock};
    all.keep = true;
  }
  window_begin = read_clocks();
  windows.push_back({window_begin.ours, window_begin.ours});
  now = phase::recording;
  set_span_listener(span_is_recorded, true);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::end_window() {
  set_span_listener(span_is_recorded, false);
  windows.back().end = monotonic_nanoseconds();
  now = phase::off;
  if (!records_activity) return;
  // Records of work that has not ended are not complete. A capture would be broken.
  if (!may_be_capturing_anywhere()) discard(cudaDeviceSynchronize());
  clock_pair const end = read_clocks();
  static_cast<void>(functions.flush(1));
  enable(false);
  std::size_t dropped = 0;
  static_cast<void>(functions.dropped(nullptr, 0, &dropped));
  dropped_records += dropped;
  read_buffers(window_begin, end);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::read_buffers(clock_pair from, clock_pair to) {
  double const scale = to.theirs > from.theirs ? static_cast<double>(to.ours - from.ours) /
                                                     static_cast<double>(to.theirs - from.theirs)
                                               : 1.0;
  activity_buffers& all = the_activity_buffers();
  unique_lock<spin_lock> guard{all.lock};
  all.keep = false;  // from here on nobody else touches those that are filled
  guard.unlock();
  for (activity_buffers::filled_buffer const& buffer : all.filled) {
    try {
      void* record = nullptr;
      while (functions.next(buffer.begin, buffer.bytes, &record) == 0) {
        read_record(record, from, scale);
      }
    } catch (std::bad_alloc const&) {
      ++dropped_records;  // and those behind it
    }
    std::memset(buffer.begin, 0, buffer.bytes);
    guard.lock();
    all.spare.push_back(buffer.begin);
    guard.unlock();
  }
  all.filled.clear();
}

// Calls of the runtime that return when work of the device has completed.
WARPWRIGHT_COLD inline bool waits_for_device(std::string const& call) {
  std::size_t const none = std::string::npos;
  return call.find("Synchronize") != none || call == "cudaFree" || call == "cudaFreeHost" ||
         ((call.find("cudaMemcpy") == 0 || call.find("cudaMemset") == 0) &&
          call.find("Async") == none);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::read_record(void const* at, clock_pair from,
                                                               double scale) {
  auto const ours = [&](std::uint64_t theirs) {
    auto const since = static_cast<std::int64_t>(theirs - from.theirs);
    return from.ours + static_cast<std::uint64_t>(
                           static_cast<std::int64_t>(static_cast<double>(since) * scale));
  };
  traced_operation operation{};
  auto const add = [&](auto const& record, std::uint64_t bytes) {
    if (record.end == 0 || record.end < record.start) return;     // it has not ended
    operation.device = record.device < 1024 ? record.device : 0;  // a graph that begins on the host
    operation.stream = record.stream;
    operation.correlation = record.correlation;
    operation.begin = ours(record.start);
    operation.end = ours(record.end);
    operation.bytes = bytes;
    operation.window = static_cast<std::uint32_t>(windows.size() - 1);
    operation.call = operation.span = no_entry;
    if (operation.end >= windows.back().begin) operations.push_back(operation);
  };
  std::memcpy(&operation.kind, at, sizeof operation.kind);
  if (operation.kind == activity_kind::kernel) {
    auto const& record = *static_cast<kernel_activity const*>(at);
    operation.name = names.number_of(record.name == nullptr ? "kernel" : record.name);
    add(record, std::uint64_t(record.grid[0]) * std::uint64_t(record.grid[1]) *
                    std::uint64_t(record.grid[2]));
  } else if (operation.kind == activity_kind::copy || operation.kind == activity_kind::peer_copy) {
    copy_activity record = *static_cast<copy_activity const*>(at);
    if (operation.kind == activity_kind::peer_copy) record.correlation = record.peer_correlation;
    operation.kind = activity_kind::copy;
    operation.direction = record.direction;
    operation.pageable = record.source == activity_memory::pageable ||
                         record.destination == activity_memory::pageable;
    add(record, record.bytes);
  } else if (operation.kind == activity_kind::fill) {
    auto const& record = *static_cast<fill_activity const*>(at);
    add(record, record.bytes);
  } else if (operation.kind == activity_kind::graph) {
    auto const& record = *static_cast<graph_activity const*>(at);
    operation.name = names.number_of((text{"graph "} + record.graph).c_str());
    add(record, 0);
  } else if (operation.kind == activity_kind::runtime_call ||
             operation.kind == activity_kind::driver_call) {
    auto const& record = *static_cast<call_activity const*>(at);
    char const* name = nullptr;
    int const domain = operation.kind == activity_kind::driver_call ? 1 : 2;
    if (functions.function_name(domain, record.function, &name) != 0) name = "CUDA call";
    // "cudaLaunchKernel_ptsz_v7000": the same function as cudaLaunchKernel_v7000.
    std::string plain{name};
    for (char const* const suffix : {"_v", "_pts", "_ptd"}) {
      plain.resize(plain.find(suffix) < plain.size() ? plain.find(suffix) : plain.size());
    }
    traced_call call{
        names.number_of(plain.c_str()), record.thread,      record.correlation, false, false,
        waits_for_device(plain),        ours(record.start), ours(record.end)};
    // Kept all the same: it may have enqueued what ran in the window.
    call.outside = call.end < windows.back().begin || call.begin > windows.back().end;
    calls.push_back(call);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::begin_step() {
  if (now == phase::finished || !process.is_current()) return;
  std::size_t const cycle = values.wait + values.warm_up + values.record;
  std::size_t const at = next_step % cycle;
  if (at == values.wait) enable(true);
  if (at == values.wait && values.warm_up != 0) now = phase::warming_up;
  if (at == values.wait + values.warm_up) begin_window();
  if (now == phase::recording) {
    steps.push_back(
        {static_cast<std::uint32_t>(pthread_self()), next_step, monotonic_nanoseconds(), 0});
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::end_step() {
  if (now == phase::finished || !process.is_current()) return;
  if (now == phase::recording) steps.back().end = monotonic_nanoseconds();
  ++next_step;
  std::size_t const cycle = values.wait + values.warm_up + values.record;
  if (next_step % cycle != 0) return;
  end_window();
  if (next_step / cycle == values.repeat) finish();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::finish() {
  if (now == phase::finished || !process.is_current()) return;
  if (now == phase::warming_up) enable(false);
  if (now == phase::recording) {
    if (!steps.empty() && steps.back().end == 0) steps.back().end = monotonic_nanoseconds();
    end_window();
  }
  now = phase::finished;
#if WARPWRIGHT_HOST_RUNTIME  // whose graphs do not mind
  if (values.whole_graphs && records_activity) {
    static_cast<void>(functions.disable(activity_kind::graph));
    the_activity_buffers().graphs_enabled = false;
  }
#endif
  read_spans();
  connect();
  if (owns_buffers) the_activity_buffers().in_use.store(false, memory_order::release);
  owns_buffers = false;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::read_spans() {
  std::uint64_t const first = store->first.load(memory_order::relaxed);
  std::uint64_t last = store->next.load(memory_order::relaxed);
  if (last - first > values.max_spans) {
    dropped_spans = last - first - values.max_spans;
    last = first + values.max_spans;
  }
  for (std::uint64_t turn = first; turn < last; ++turn) {
    span_record const& span = store->records[turn % store->capacity];
    // Not written yet; or of the time before this trace.
    if (span.turn.load(memory_order::acquire) != turn + 1 || span.begin < store->begin) continue;
    spans.push_back(
        {names.number_of(span.name), span.thread, no_entry, span.on_stream, span.begin, span.end});
  }
  // Of spans that began at once, the one that ended first is inside.
  sort(spans.begin(), spans.size(), [](traced_span const& a, traced_span const& b) {
    return a.thread != b.thread ? a.thread < b.thread
           : a.begin != b.begin ? a.begin < b.begin
                                : a.end > b.end;
  });
  for (std::uint32_t i = 1; i < spans.size(); ++i) {
    std::uint32_t outer = i - 1;
    while (outer != no_entry &&
           (spans[outer].thread != spans[i].thread || spans[outer].end < spans[i].end)) {
      outer = spans[outer].outer;
    }
    spans[i].outer = outer;
  }
}

/// @return the first index for which `before` is false, of those where it is true for the first
/// ones
template <class Before>
std::size_t first_not(std::size_t count, Before before) {
  std::size_t low = 0;
  while (low < count) {
    std::size_t const middle = (low + count) / 2;
    before(middle) ? low = middle + 1 : count = middle;
  }
  return low;
}

// Finds the call of each operation, and the span of that call.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void trace_core::connect() {
  // By correlation for the search, and then by time, which changes the indices.
  sort(calls.begin(), calls.size(), [](traced_call const& a, traced_call const& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.correlation < b.correlation;
  });
  array<std::uint32_t> order;
  order.reserve(calls.size());
  for (std::uint32_t i = 0; i < calls.size(); ++i) order.push_back(i);
  sort(order.begin(), order.size(), [this](std::uint32_t a, std::uint32_t b) {
    return calls[a].correlation != calls[b].correlation
               ? calls[a].correlation < calls[b].correlation
               : a < b;
  });
  // A call of the driver inside one of the runtime has its number, and is not counted twice.
  for (std::size_t i = 1; i < order.size(); ++i) {
    traced_call& call = calls[order[i]];
    call.outside |= call.correlation == calls[order[i - 1]].correlation;
  }
  for (traced_operation& operation : operations) {
    std::size_t const low = first_not(order.size(), [&](std::size_t i) {
      return calls[order[i]].correlation < operation.correlation;
    });
    if (low < order.size() && calls[order[low]].correlation == operation.correlation) {
      operation.call = order[low];
    }
    traced_window const& window = windows[operation.window];
    operation.launched_before =
        (operation.call != no_entry ? calls[operation.call].begin : operation.begin) < window.begin;
    if (operation.call == no_entry) continue;
    traced_call& call = calls[operation.call];
    call.launches = true;
    // The last span of the thread that began before the call, or one around it.
    std::size_t const first = first_not(spans.size(), [&](std::size_t i) {
      return spans[i].thread < call.thread ||
             (spans[i].thread == call.thread && spans[i].begin <= call.begin);
    });
    std::uint32_t span = first == 0 ? no_entry : static_cast<std::uint32_t>(first - 1);
    while (span != no_entry &&
           (spans[span].thread != call.thread || spans[span].end < call.begin)) {
      span = spans[span].outer;
    }
    operation.span = span;
  }
  sort(operations.begin(), operations.size(),
       [](traced_operation const& a, traced_operation const& b) {
         return a.window != b.window   ? a.window < b.window
                : a.device != b.device ? a.device < b.device
                                       : a.begin < b.begin;
       });
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace::trace(trace_options const& options)
    : core_{new detail::trace_core{values_of(options), nullptr}} {}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace::trace(trace_options const& options,
                                                     detail::activity_functions const& functions)
    : core_{new detail::trace_core{values_of(options), &functions}} {}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace::~trace() { delete core_; }

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace_step trace::step() {
  core_->begin_step();
  return trace_step{core_};
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE trace_step::~trace_step() {
  try {
    core_->end_step();
  } catch (...) {  // no memory: what was recorded is shorter
  }
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void trace::finish() { core_->finish(); }
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string const& trace::unavailable() const noexcept {
  return core_->unavailable;
}

WARPWRIGHT_END
