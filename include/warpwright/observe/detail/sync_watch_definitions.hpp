// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/observe/sync_watch.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/text/figures.hpp>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// Of the process, and never freed: a callback may run when its watch has ended.
struct sync_state {
  spin_lock lock;  // of these, for callbacks
  sync_statistics statistics;
  sync_watch_values values;
  activity_functions functions{};
  void* subscriber = nullptr;
  atomic<std::uint32_t> watch{0};  // odd: one counts
};

WARPWRIGHT_INLINE sync_state& the_sync_state() noexcept {
  static auto* const state = new sync_state;
  return *state;
}

enum class sync_kind { none, stream, event, device, copy, memory };

struct sync_question {
  sync_kind kind = sync_kind::none;
  int at = -1;              // of the stream in the parameters
  bool per_thread = false;  // what a null stream is
};

/// What of a call is asked. The places of streams are those of the toolkit's cupti headers.
WARPWRIGHT_INLINE sync_question sync_question_of(char const* name) noexcept {
  auto const has = [name](char const* part) { return std::strstr(name, part) != nullptr; };
  sync_question q;
  q.per_thread = has("_ptsz") || has("_ptds");
  bool const runtime = std::strncmp(name, "cuda", 4) == 0;
  if (has("StreamSynchronize") || has("EventSynchronize")) {
    q.kind = has("Event") ? sync_kind::event : sync_kind::stream;
    q.at = 0;
  } else if (has("Synchronize")) {
    q.kind = sync_kind::device;
  } else if (has("emcpy") && has("Async")) {
    if (has("Batch") || has("Peer") || has("Array") || has("toA") || has("AtoH")) return q;
    q.kind = sync_kind::copy;
    q.at = has("3D") ? 8 : has("2D") ? (runtime ? 56 : 8) : has("Symbol") ? 40 : runtime ? 32 : 24;
  } else if (has("emcpy") || (has("emset") && !has("Async"))) {
    q.kind = sync_kind::copy;
  } else if ((has("Free") || has("Malloc") || has("MemAlloc")) && !has("Async")) {
    q.kind = sync_kind::memory;
  }
  return q;
}

/// Whether a stream or an event has work; false for one that must not be asked.
WARPWRIGHT_INLINE bool has_work(sync_question const& q, void const* parameters) noexcept {
  if (cudaPeekAtLastError() != cudaSuccess) return false;  // the program's, which a query may lose
  void* named = nullptr;
  if (q.at >= 0 && parameters == nullptr) return false;
  if (q.at >= 0) std::memcpy(&named, static_cast<char const*>(parameters) + q.at, sizeof named);
  relaxed_capture_mode const relaxed;
  if (q.kind == sync_kind::event) {
    return discard(cudaEventQuery(static_cast<cudaEvent_t>(named))) == cudaErrorNotReady;
  }
  auto stream = static_cast<cudaStream_t>(named);
  if (stream == nullptr) stream = q.per_thread ? cudaStreamPerThread : cudaStreamLegacy;
  return !may_be_capturing(stream) && discard(cudaStreamQuery(stream)) == cudaErrorNotReady;
}

/// Whether a copy between two addresses passes through pageable memory; true where it is not known.
WARPWRIGHT_INLINE bool may_be_pageable(sync_question const& q, void const* parameters) noexcept {
  if (q.at != 24 && q.at != 32) return true;  // behind (to, from, bytes[, kind])
  void* addresses[2];
  std::memcpy(addresses, parameters, sizeof addresses);
  for (void* const address : addresses) {
    cudaPointerAttributes known{};
    if (discard(cudaPointerGetAttributes(&known, address)) != cudaSuccess ||
        known.type == cudaMemoryTypeUnregistered) {
      return true;
    }
  }
  return false;
}

/// The caller of the CUDA call of which a callback calls this.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string outer_call_site(bool runtime) {
  void* frames[48];
  int const count = backtrace(frames, 48);
  bool tool = false;
  bool library = false;  // that has the call, too: else it is one frame of the program
  int i = 0;
  for (; i < count; ++i) {
    Dl_info info{};
    char const* const path = dladdr(frames[i], &info) != 0 ? info.dli_fname : "";
    bool const cupti =
        std::strstr(path, "libcupti") != nullptr || std::strstr(path, "libcuda.so") != nullptr;
    bool const other = std::strstr(path, "/libcu") != nullptr ||
                       std::strstr(path, "libwarpwright_host_runtime") != nullptr;
    if (tool && !cupti && !other) break;
    tool = tool || cupti || other;
    library = library || (other && !cupti);
  }
  if (runtime && !library) ++i;
  if (i >= count) return {};
  char** const text = backtrace_symbols(frames + i, 1);
  std::string const site = text == nullptr ? "" : text[0];
  std::free(text);
  return site.substr(0, site.find(" ["));
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string place_line(sync_place const& p) {
  return string_builder{p.function} + ", span " + (p.span.empty() ? "(none)" : p.span.c_str()) +
         ", from " + (p.call_site.empty() ? "(unknown)" : p.call_site.c_str()) + ": " +
         counted(p.calls, "call") + ", " + format_seconds(p.seconds) + "\n";
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void count_wait(sync_state& state, std::uint32_t watch,
                                                  std::size_t log_lines, char const* name,
                                                  double s) {
  char const* const version = std::strstr(name, "_v");
  char const* const span = innermost_span();
  sync_place place{version == nullptr ? name : std::string(name, version),
                   span == nullptr ? "" : span, outer_call_site(std::strncmp(name, "cuda", 4) == 0),
                   1, s};
  unique_lock<spin_lock> guard{state.lock};
  if (state.watch.load(memory_order::relaxed) != watch) return;  // it has ended
  sync_statistics& all = state.statistics;
  for (sync_place& p : all.places) {
    if (p.function != place.function || p.span != place.span || p.call_site != place.call_site) {
      continue;
    }
    ++p.calls;
    p.seconds += s;
    return;
  }
  if (all.places.size() == all.places.capacity()) {
    ++all.unplaced_calls;
    return;
  }
  std::size_t const number = all.places.size();
  all.places.push_back(place);
  guard.unlock();
  if (number < log_lines) {
    std::fputs(("sync_watch: the host waited in " + place_line(place)).c_str(), stderr);
  }
}

inline void sync_callback(void*, int, std::uint32_t, callback_data const* data) {
  struct call {
    std::uint32_t watch, depth;
    sync_question question;
    bool busy;
    std::uint64_t begin;
    sync_watch_values values;  // of the watch, in whose place there may be another one at the end
    bool (*waited)();
  };
  static thread_local call now{};
  sync_state& state = the_sync_state();
  std::uint32_t const watch = state.watch.load(memory_order::acquire);
  if (now.watch != watch) now = {watch, 0, {}, false, 0, {}, nullptr};
  if ((watch & 1U) == 0) return;
  if (data->at_end == 0) {
    if (now.depth++ != 0) return;  // the runtime calls the driver
    now.question = sync_question_of(data->function);
    if (now.question.kind == sync_kind::none) return;
    {
      unique_lock<spin_lock> const guard{state.lock};
      now.values = state.values;
      now.waited = state.functions.waited;
    }
    now.busy = data->context != nullptr && now.waited == nullptr &&
               has_work(now.question, data->parameters);
    now.begin = monotonic_nanoseconds();
    return;
  }
  if (now.depth == 0 || --now.depth != 0 || now.question.kind == sync_kind::none) return;
  double const seconds = static_cast<double>(monotonic_nanoseconds() - now.begin) * 1e-9;
  sync_kind const kind = now.question.kind;
  bool const is_long = seconds >= now.values.min_seconds;
  if (now.waited != nullptr) {
    if (!now.waited()) return;
  } else if (kind == sync_kind::device ? !now.busy && !is_long
             : kind == sync_kind::stream || kind == sync_kind::event
                 ? !now.busy
                 : !now.busy || !is_long ||
                       (kind == sync_kind::copy &&
                        !may_be_pageable(now.question, data->parameters)) ||
                       (kind == sync_kind::memory && has_work(now.question, nullptr))) {
    return;
  }
  bool placed = true;
  try {
    count_wait(state, watch, now.values.log_lines, data->function, seconds);
  } catch (...) {  // no memory
    placed = false;
  }
  unique_lock<spin_lock> const guard{state.lock};
  if (state.watch.load(memory_order::relaxed) != watch) return;
  ++state.statistics.calls;
  state.statistics.seconds += seconds;
  state.statistics.unplaced_calls += placed ? 0U : 1U;
}

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE sync_watch_options
sync_watch_options::log(std::size_t max_lines) const {
  if (max_lines == 0) {
    throw std::invalid_argument(
        "sync_watch_options: log(0) would write nothing; give at least 1, or leave it out");
  }
  return with(&values::log_lines, max_lines);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE sync_watch_options
sync_watch_options::min_seconds(double seconds) const {
  if (!(seconds >= 0.0 && seconds <= 1.0)) {
    throw std::invalid_argument(detail::string_builder{"sync_watch_options: min_seconds("} +
                                detail::format_number("%g", seconds) +
                                ") is not from 0 to 1; give seconds, such as 20e-6");
  }
  return with(&values::min_seconds, seconds);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string sync_statistics::to_text() const {
  std::string text = detail::string_builder{"host waits: "} + detail::counted(calls, "call") +
                     ", " + detail::format_seconds(seconds) + "\n";
  for (sync_place const& place : places) text += "  " + detail::place_line(place);
  return text;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE sync_watch::sync_watch(
    sync_watch_options const& options, detail::activity_functions const* functions) {
  detail::sync_state& state = detail::the_sync_state();
  detail::activity_functions f{};
  if (functions != nullptr) f = *functions;
  if (functions == nullptr) unavailable_ = detail::load_activity_functions(nullptr, f);
  if (unavailable_.empty() && (f.subscribe == nullptr || f.enable_callback == nullptr)) {
    unavailable_ = "CUPTI lacks cuptiSubscribe or cuptiEnableCallback; use that of CUDA 12 or 13";
  }
  std::vector<sync_place> places;
  places.reserve(256);
  if (!unavailable_.empty()) return;
  void* here = nullptr;
  backtrace(&here, 1);  // the first one loads a library
  // A trace that begins subscribes for a moment.
  detail::unique_lock<detail::mutex> beginning{detail::the_activity_buffers().beginning};
  if (detail::library_subscribes_to_cupti.exchange(true, detail::memory_order::acq_rel)) {
    unavailable_ = "another sync_watch counts; end it first";
    return;
  }
  {
    detail::unique_lock<detail::spin_lock> const guard{state.lock};
    state.statistics = {0, 0.0, 0, std::move(places)};
    state.values = values_of(options);
    state.functions = f;
  }
  auto* const callback = reinterpret_cast<void*>(detail::sync_callback);
  if (int const code = f.subscribe(&state.subscriber, callback, nullptr)) {
    detail::library_subscribes_to_cupti.store(false, detail::memory_order::release);
    unavailable_ = detail::activity_problem(f, "cuptiSubscribe", code);
    return;
  }
  beginning.unlock();
  owns_ = true;
  for (int const domain : {1, 2}) {  // the driver, the runtime
    for (std::uint32_t i = 1; i < detail::driver_call_limit; ++i) {
      char const* name = nullptr;
      if (f.function_name(domain, i, &name) != 0 || name == nullptr) continue;
      if (detail::sync_question_of(name).kind == detail::sync_kind::none) continue;
      static_cast<void>(f.enable_callback(1, state.subscriber, domain, i));
    }
  }
  detail::set_span_listener(detail::span_is_followed, true);
  state.watch.fetch_add(1, detail::memory_order::acq_rel);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE sync_watch::~sync_watch() {
  if (!is_counting()) return;
  detail::sync_state& state = detail::the_sync_state();
  state.watch.fetch_add(1, detail::memory_order::acq_rel);
  static_cast<void>(state.functions.unsubscribe(state.subscriber));
  detail::set_span_listener(detail::span_is_followed, false);
  detail::library_subscribes_to_cupti.store(false, detail::memory_order::release);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE sync_statistics sync_watch::statistics() const {
  sync_statistics copy;
  if (!is_counting()) return copy;
  detail::sync_state& state = detail::the_sync_state();
  copy.places.reserve(256);
  {
    detail::unique_lock<detail::spin_lock> const guard{state.lock};
    copy = state.statistics;
  }
  detail::sort(copy.places.data(), copy.places.size(),
               [](sync_place const& a, sync_place const& b) { return a.seconds > b.seconds; });
  return copy;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string sync_watch::to_text() const {
  if (is_counting()) return statistics().to_text();
  return "sync_watch: " + (owns_ ? "off in the child of a fork()" : unavailable_) + "\n";
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void sync_watch::check() {
  sync_statistics const now = statistics();
  if (now.calls == checked_) return;
  std::size_t const more = now.calls - checked_;
  checked_ = now.calls;
  throw std::runtime_error("sync_watch: the host waited in " + detail::counted(more, "call") +
                           " since the last check; all " + now.to_text());
}

WARPWRIGHT_END
