// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/observe/detail/trace_core.hpp>

#include <warpwright/core/detail/system/dynamic_library.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <new>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE activity_buffers& the_activity_buffers() noexcept {
  static auto* const buffers = new activity_buffers;
  return *buffers;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void activity_buffers::make(std::size_t count) {
  // Held for long, but only a callback that has nothing to do now waits for it.
  unique_lock<spin_lock> const guard{lock};
  spare.reserve(count);
  filled.reserve(count);
  for (; made < count; ++made) {
    void* const buffer = std::aligned_alloc(4096, buffer_bytes);
    if (buffer == nullptr) throw std::bad_alloc{};
    std::memset(buffer, 0, buffer_bytes);  // no page fault while it is filled
    spare.push_back(static_cast<std::uint8_t*>(buffer));
  }
}

inline void give_activity_buffer(std::uint8_t** buffer, std::size_t* bytes,
                                 std::size_t* max_records) {
  activity_buffers& all = the_activity_buffers();
  unique_lock<spin_lock> const guard{all.lock};
  *max_records = 0;
  *buffer = nullptr;
  *bytes = 0;
  if (all.spare.empty()) return;  // CUPTI counts the records that it drops
  *buffer = all.spare.back();
  *bytes = activity_buffers::buffer_bytes;
  all.spare.pop_back();
}

inline void take_activity_buffer(void*, std::uint32_t, std::uint8_t* buffer, std::size_t,
                                 std::size_t valid_bytes) {
  if (buffer == nullptr) return;
  activity_buffers& all = the_activity_buffers();
  unique_lock<spin_lock> guard{all.lock};
  if (all.keep) {
    all.filled.push_back({buffer, valid_bytes});
    return;
  }
  guard.unlock();
  std::memset(buffer, 0, valid_bytes);
  guard.lock();
  all.spare.push_back(buffer);
}

/// Whether the process has, or may have, a context, in which a graph may have been instantiated.
WARPWRIGHT_COLD inline bool may_have_contexts() {
  dynamic_library driver;
  int (*init)(unsigned) = nullptr;
  int (*current)(void**) = nullptr;
  int (*state)(int, unsigned*, int*) = nullptr;
  void* context = nullptr;
  if (driver.open("libcuda.so.1") != nullptr || !driver.find("cuInit", init) ||
      !driver.find("cuCtxGetCurrent", current) ||
      !driver.find("cuDevicePrimaryCtxGetState", state) || init(0) != 0 || current(&context) != 0) {
    return true;
  }
  int active = context != nullptr ? 1 : 0;
  unsigned flags = 0;
  int code = 0;
  for (int device = 0; active == 0 && code == 0; ++device) code = state(device, &flags, &active);
  return active != 0 || code != 101;  // CUDA_ERROR_INVALID_DEVICE: that was the last one
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string load_activity_functions(
    char const* path, activity_functions& functions) {
#if WARPWRIGHT_HOST_RUNTIME
  if (path == nullptr) {
    warpwrightHostActivity(&functions);
    return {};
  }
#endif
  activity_buffers& all = the_activity_buffers();
  char const* const usual[] = {CUDART_VERSION >= 13000 ? "libcupti.so.13" : "libcupti.so.12",
                               CUDART_VERSION >= 13000 ? "libcupti.so.12" : "libcupti.so.13",
                               "libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                               "/usr/local/cuda/lib64/libcupti.so"};
  unique_lock<mutex> const guard{all.beginning};
  if (all.library != nullptr && all.path == (path == nullptr ? "" : path)) {
    functions = all.functions;
    return {};
  }
  auto* const library = new dynamic_library;
  char const* name = path != nullptr ? path : usual[0];
  char const* reason = library->open(name);
  string_builder const problem = reason == nullptr ? "" : reason;
  for (std::size_t i = 1; reason != nullptr && path == nullptr && i < 5; ++i) {
    reason = library->open(name = usual[i]);
  }
  if (reason != nullptr) {
    delete library;
    return problem +
           "; CUPTI comes with the CUDA Toolkit (extras/CUPTI/lib64): add its folder to " +
           "LD_LIBRARY_PATH, or name the file by trace_options::library()";
  }
  activity_functions f{};
  // Older ones may lack these.
  library->find("cuptiSubscribe", f.subscribe);
  library->find("cuptiUnsubscribe", f.unsubscribe);
  library->find("cuptiEnableCallback", f.enable_callback);
  library->find("cuptiActivityEnableDriverApi", f.enable_driver_call);
  library->find("cuptiActivitySetAttribute", f.set_attribute);
  bool const complete = library->find("cuptiGetVersion", f.version) &&
                        library->find("cuptiGetTimestamp", f.timestamp) &&
                        library->find("cuptiActivityRegisterCallbacks", f.register_callbacks) &&
                        library->find("cuptiActivityEnable", f.enable) &&
                        library->find("cuptiActivityDisable", f.disable) &&
                        library->find("cuptiActivityFlushAll", f.flush) &&
                        library->find("cuptiActivityGetNumDroppedRecords", f.dropped) &&
                        library->find("cuptiActivityGetNextRecord", f.next) &&
                        library->find("cuptiGetCallbackName", f.function_name) &&
                        library->find("cuptiGetResultString", f.error_text);
  if (!complete) {
    delete library;
    return string_builder{name} + " is not CUPTI: it lacks its functions of activity records";
  }
  f.may_have_graphs = may_have_contexts;
  all.path = path == nullptr ? "" : path;
  all.library = library;
  functions = all.functions = f;
  return {};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string activity_problem(activity_functions const& functions,
                                                               char const* call, int code) {
  constexpr int insufficient_privileges = 35;
  constexpr int multiple_subscribers = 39;
  char const* text = nullptr;
  static_cast<void>(functions.error_text(code, &text));
  return string_builder{call} + ": " + (text == nullptr ? "error" : text) + " (" + code + ")" +
         (code == insufficient_privileges
              ? "; the driver allows profiling to administrators alone: set its option "
                "NVreg_RestrictProfilingToAdminUsers=0, or give the container CAP_SYS_ADMIN"
          : code == multiple_subscribers
              ? "; another profiler uses CUPTI in this process: end it, or run without it"
              : "; see whether there is a GPU, and whether nvidia-smi works");
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string try_activity(activity_functions const& functions,
                                                           bool whole_graphs) {
  activity_buffers& all = the_activity_buffers();
  std::uint32_t version = 0;
  if (int const code = functions.version(&version)) {
    return activity_problem(functions, "cuptiGetVersion", code);
  }
  // 19 to 29 are of CUDA 12; from CUDA 13 on it is the toolkit's version, 130000.
  if (!(version >= 19 && version < 30) && !(version >= 130000 && version < 140000)) {
    return string_builder{"CUPTI of version "} + std::size_t{version} +
           " is not known here; use that of CUDA 12 or 13";
  }
  if (whole_graphs && !all.graphs_enabled && functions.may_have_graphs()) {
    return "whole_graphs() was asked for after the process's first use of CUDA; CUPTI would crash "
           "at a graph instantiated before: make the trace before the first CUDA call";
  }
  if (functions.register_callbacks != all.registered) {  // once: they may be in use later
    void* subscriber = nullptr;
    unique_lock<mutex> const guard{all.beginning};  // a sync_watch may subscribe, too
    void (*const nothing)(void*, int, std::uint32_t, void const*) = [](void*, int, std::uint32_t,
                                                                       void const*) {};
    if (functions.subscribe != nullptr &&
        !library_subscribes_to_cupti.load(memory_order::acquire)) {
      int const code = functions.subscribe(&subscriber, reinterpret_cast<void*>(nothing), nullptr);
      if (code != 0) return activity_problem(functions, "cuptiSubscribe", code);
      static_cast<void>(functions.unsubscribe(subscriber));
    }
    std::uint8_t zeroed = 1;  // else CUPTI clears buffers, on the thread that launches
    std::size_t bytes = sizeof zeroed;
    if (functions.set_attribute != nullptr) functions.set_attribute(5, &bytes, &zeroed);
    if (int const code = functions.register_callbacks(give_activity_buffer, take_activity_buffer)) {
      return activity_problem(functions, "cuptiActivityRegisterCallbacks", code);
    }
    all.registered = functions.register_callbacks;
  }
  if (whole_graphs && !all.graphs_enabled) {
    if (int const code = functions.enable(activity_kind::graph)) {
      return activity_problem(functions, "cuptiActivityEnable (graphs)", code);
    }
    all.graphs_enabled = true;
  }
  int const code = functions.enable(activity_kind::kernel);
  if (code != 0) return activity_problem(functions, "cuptiActivityEnable (kernels)", code);
  static_cast<void>(functions.disable(activity_kind::kernel));
  return {};
}

}  // namespace detail

WARPWRIGHT_END
