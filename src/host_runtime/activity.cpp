// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "activity.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <set>

#include <warpwright/core/detail/system/activity_records.hpp>

#include "runtime.hpp"
#include "work.hpp"

namespace warpwright::host {
namespace {

using detail::activity_copy;
using detail::activity_functions;
using detail::activity_kind;
using detail::activity_memory;

// The buffer that is being filled. The lock is held while the program's callbacks run.
struct activity_state {
  std::mutex mutex;
  activity_functions::request request = nullptr;
  activity_functions::complete complete = nullptr;
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t used = 0;
  std::size_t dropped = 0;
  std::vector<char const*> functions{nullptr};  // by number
  std::set<std::string> kernel_names;
  std::atomic<std::uint32_t> next_call{1};
  std::atomic<void (*)(void*, int, std::uint32_t, void const*)> callback{nullptr};
  std::atomic<void*> callback_data{nullptr};
};

activity_state& activity() {
  static auto* const state = new activity_state;  // workers may outlive static objects
  return *state;
}

bool records(activity_kind kind) noexcept {
  return (recorded_activity.load(std::memory_order_relaxed) >> static_cast<unsigned>(kind) & 1) !=
         0;
}

std::size_t record_bytes(activity_kind kind) {
  if (kind == activity_kind::kernel) return sizeof(detail::kernel_activity);
  if (kind == activity_kind::copy) return sizeof(detail::copy_activity);
  if (kind == activity_kind::fill) return sizeof(detail::fill_activity);
  if (kind == activity_kind::graph) return sizeof(detail::graph_activity);
  return sizeof(detail::call_activity);
}

void hand_over(activity_state& state) {
  if (state.buffer == nullptr) return;
  state.complete(nullptr, 0, state.buffer, state.bytes, state.used);
  state.buffer = nullptr;
}

// Records outlive the kernels that they name.
char const* keep_name(char const* name) {
  tsan_ignore_scope const tsan_ignore;
  activity_state& state = activity();
  std::lock_guard<std::mutex> const lock(state.mutex);
  return state.kernel_names.emplace(name).first->c_str();
}

template <class Record>
void append(Record const& record) {
  static_assert(sizeof(Record) % 8 == 0, "records are aligned");
  tsan_ignore_scope const tsan_ignore;
  activity_state& state = activity();
  std::lock_guard<std::mutex> const lock(state.mutex);
  if (state.buffer != nullptr && state.bytes - state.used < sizeof record) hand_over(state);
  if (state.buffer == nullptr && state.request != nullptr) {
    std::size_t most = 0;
    state.bytes = state.used = 0;
    state.request(&state.buffer, &state.bytes, &most);
    if (state.bytes < sizeof record) state.buffer = nullptr;
  }
  if (state.buffer == nullptr) {
    ++state.dropped;
    return;
  }
  std::memcpy(state.buffer + state.used, &record, sizeof record);
  state.used += sizeof record;
}

// What the worker executes.
struct running_operation {
  stream_state const* stream = nullptr;
  std::uint32_t call = 0;
};
thread_local running_operation running;

template <class Record>
void complete_record(Record& record, std::int64_t start, std::int64_t end) {
  record.start = static_cast<std::uint64_t>(start);
  record.end = static_cast<std::uint64_t>(end);
  record.device = static_cast<std::uint32_t>(running.stream->device->ordinal);
  record.context = record.device + 1;
  record.stream = static_cast<std::uint32_t>(running.stream->id);
  record.correlation = running.call;
  append(record);
}

activity_memory memory_of(int device, bool pageable) noexcept {
  return device >= 0 ? activity_memory::device
         : pageable  ? activity_memory::pageable
                     : activity_memory::pinned;
}

void record_copy(copy_shape const& shape, std::int64_t start, std::int64_t end) {
  detail::copy_activity record{};
  record.kind = activity_kind::copy;
  record.source = memory_of(shape.from_device, shape.from_pageable);
  record.destination = memory_of(shape.to_device, shape.to_pageable);
  record.direction = shape.kind == cudaMemcpyHostToDevice   ? activity_copy::to_device
                     : shape.kind == cudaMemcpyDeviceToHost ? activity_copy::to_host
                     : shape.from_device != shape.to_device ? activity_copy::peer
                                                            : activity_copy::on_device;
  record.bytes = shape.width * shape.height * shape.depth;
  complete_record(record, start, end);
}

void record_kernel(kernel_work const& kernel, std::int64_t start, std::int64_t end) {
  detail::kernel_activity record{};
  record.kind = activity_kind::kernel;
  record.grid[0] = static_cast<std::int32_t>(kernel.size());
  record.grid[1] = record.grid[2] = record.block[1] = record.block[2] = 1;
  record.block[0] = static_cast<std::int32_t>(kernel.kernel().threads);
  record.dynamic_shared = static_cast<std::int32_t>(kernel.kernel().shared_bytes);
  record.name = keep_name(kernel.name());
  complete_record(record, start, end);
}

void record_fill(fill_shape const& shape, std::int64_t start, std::int64_t end) {
  detail::fill_activity record{};
  record.kind = activity_kind::fill;
  record.value = shape.value;
  record.bytes = shape.width * shape.height * shape.element_bytes;
  complete_record(record, start, end);
}

void record(work const& what, std::int64_t start, std::int64_t end) {
  if (what.kind() == work_kind::kernel && records(activity_kind::kernel)) {
    record_kernel(static_cast<kernel_work const&>(what), start, end);
  } else if (what.kind() == work_kind::copy && records(activity_kind::copy)) {
    record_copy(static_cast<copy_work const&>(what).shape(), start, end);
  } else if (what.kind() == work_kind::fill && records(activity_kind::fill)) {
    record_fill(static_cast<fill_work const&>(what).shape(), start, end);
  }
}

int register_callbacks(activity_functions::request request, activity_functions::complete complete) {
  tsan_ignore_scope const tsan_ignore;
  activity_state& state = activity();
  std::lock_guard<std::mutex> const lock(state.mutex);
  state.request = request;
  state.complete = complete;
  return 0;
}

int next_record(std::uint8_t* buffer, std::size_t valid_bytes, void** at) {
  auto* const before = static_cast<std::uint8_t*>(*at);
  activity_kind kind{};
  if (before != nullptr) std::memcpy(&kind, before, sizeof kind);
  std::uint8_t* const here = before == nullptr ? buffer : before + record_bytes(kind);
  if (here >= buffer + valid_bytes) return 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED
  *at = here;
  return 0;
}

int function_name(int, std::uint32_t function, char const** name) {
  tsan_ignore_scope const tsan_ignore;
  activity_state& state = activity();
  std::lock_guard<std::mutex> const lock(state.mutex);
  if (function == 0 || function >= state.functions.size()) return 1;
  *name = state.functions[function];
  return 0;
}

// An end without a begin, of a subscriber that came in between, is the subscriber's to ignore.
void call_back(call_site const& site, bool at_end) {
  auto* const callback = activity().callback.load(std::memory_order_acquire);
  if (callback == nullptr || (recorded_activity.load() & calls_back) == 0) return;
  detail::callback_data data{};
  data.at_end = at_end ? 1 : 0;
  data.function = site.name;
  data.context = &activity();
  callback(activity().callback_data.load(), 2, 0, &data);
}

int subscribe(void** subscriber, void* callback, void* data) {
  if ((recorded_activity.load() & calls_back) != 0) return 39;  // MULTIPLE_SUBSCRIBERS
  activity().callback_data.store(data);
  activity().callback.store(
      reinterpret_cast<void (*)(void*, int, std::uint32_t, void const*)>(callback));
  *subscriber = &activity();
  recorded_activity.fetch_or(calls_back);
  return 0;
}

}  // namespace

void call_record_scope::begin(call_site& site) noexcept {
  site_ = &site;
  outer_ = this_call;
  this_call = activity().next_call.fetch_add(1, std::memory_order_relaxed);
  this_call_waits = {};
  call_back(site, false);
  start_ = now_ns();
}

void call_record_scope::end() noexcept {
  call_back(*site_, true);
  detail::call_activity record{};
  record.kind = activity_kind::runtime_call;
  record.start = static_cast<std::uint64_t>(start_);
  record.end = static_cast<std::uint64_t>(now_ns());
  record.process = static_cast<std::uint32_t>(getpid());
  record.thread = static_cast<std::uint32_t>(pthread_self());
  record.correlation = this_call;
  record.result = static_cast<std::uint32_t>(this_thread.last_error);
  this_call = outer_;
  if (!records(activity_kind::runtime_call)) return;
  record.function = site_->number.load(std::memory_order_relaxed);
  if (record.function == 0) {
    tsan_ignore_scope const tsan_ignore;
    activity_state& state = activity();
    std::lock_guard<std::mutex> const lock(state.mutex);
    record.function = static_cast<std::uint32_t>(state.functions.size());
    state.functions.push_back(site_->name);
    site_->number.store(record.function, std::memory_order_relaxed);
  }
  append(record);
}

void run_recorded(work const& what, stream_state const& stream, std::uint32_t call) {
  running = {&stream, call};
  std::int64_t const start = now_ns();
  what.run();
  std::int64_t const end = now_ns();
  if (records(activity_kind::graph) && what.kind() == work_kind::graph) {
    detail::graph_activity graph{};
    graph.kind = activity_kind::graph;
    graph.graph = 1;
    complete_record(graph, start, end);
  } else {
    record(what, start, end);
  }
  running = {};
}

void run_recorded_node(work const& what) {
  if (running.stream == nullptr || records(activity_kind::graph)) {
    what.run();
    return;
  }
  std::int64_t const start = now_ns();
  what.run();
  record(what, start, now_ns());
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API void warpwrightHostActivity(activity_functions* functions) {
  *functions = {};
  functions->version = [](std::uint32_t* version) {
    *version = CUDART_VERSION * 10;
    return 0;
  };
  functions->timestamp = [](std::uint64_t* time) {
    *time = static_cast<std::uint64_t>(now_ns());
    return 0;
  };
  functions->register_callbacks = register_callbacks;
  functions->enable = [](activity_kind kind) {
    recorded_activity.fetch_or(std::uint64_t{1} << static_cast<unsigned>(kind));
    return 0;
  };
  functions->disable = [](activity_kind kind) {
    recorded_activity.fetch_and(~(std::uint64_t{1} << static_cast<unsigned>(kind)));
    return 0;
  };
  functions->flush = [](std::uint32_t) {
    tsan_ignore_scope const tsan_ignore;
    activity_state& state = activity();
    std::lock_guard<std::mutex> const lock(state.mutex);
    hand_over(state);
    return 0;
  };
  functions->dropped = [](void*, std::uint32_t, std::size_t* count) {
    tsan_ignore_scope const tsan_ignore;
    activity_state& state = activity();
    std::lock_guard<std::mutex> const lock(state.mutex);
    *count = state.dropped;
    state.dropped = 0;
    return 0;
  };
  functions->next = next_record;
  functions->function_name = function_name;
  functions->error_text = [](int, char const** text) {
    *text = "error of the host runtime";
    return 0;
  };
  functions->subscribe = subscribe;
  functions->unsubscribe = [](void*) {
    recorded_activity.fetch_and(~calls_back);
    return 0;
  };
  functions->enable_callback = [](std::uint32_t, void*, int, std::uint32_t) { return 0; };  // all
  functions->waited = [] { return this_call_waits.waited; };
  functions->may_have_graphs = [] { return graph_was_instantiated.load(); };
}
