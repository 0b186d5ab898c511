// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/capture/capture_rules.hpp>

#include <pthread.h>
#include <cstdlib>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE capture_rule const* find_capture_rule(cudaError_t code) noexcept {
  static constexpr capture_rule rules[] = {
      {cudaErrorStreamCaptureUnsupported, "the call cannot be captured",
       "make it before the capture, or capture a stream other than the legacy default stream"},
      {cudaErrorStreamCaptureInvalidated, "an earlier call invalidated the capture",
       "look for cudaMalloc, cudaFree, a synchronisation, a query, or work on the legacy default "
       "stream in the body"},
      {cudaErrorStreamCaptureMerge, "the stream waited for a stream of another capture",
       "two captures must not depend on each other: order their graphs' launches instead"},
      {cudaErrorStreamCaptureUnmatched, "the capture was ended on another stream than it began on",
       "the capture must be ended on the stream where it began"},
      {cudaErrorStreamCaptureUnjoined, "another stream was forked into the capture and not joined",
       "use capture_scope::fork, which capture_scope::end joins, or make the capturing stream wait "
       "for it"},
      {cudaErrorStreamCaptureIsolation,
       "the capturing stream waited for an event recorded outside of the capture",
       "wait before the capture begins"},
      {cudaErrorStreamCaptureImplicit,
       "work on the legacy default stream would depend on the capture",
       "pass a stream to every call, and capture a non-blocking stream such as warpwright::stream"},
      {cudaErrorCapturedEvent, "an event recorded in the capture was queried or synchronised",
       "an event recorded in a capture can only be waited for in the same capture: query one that "
       "is recorded after the launch"},
      {cudaErrorStreamCaptureWrongThread,
       "a thread-local capture was ended by another thread than began it",
       "end it on the thread that began it, or begin it with capture_mode::relaxed"}};
  for (capture_rule const& rule : rules) {
    if (rule.code == static_cast<int>(code)) return &rule;
  }
  return nullptr;
}

WARPWRIGHT_INLINE char const* remedy_of_call(char const* api) noexcept {
  struct entry {
    char const* part;
    char const* remedy;
  };
  static constexpr entry entries[] = {
      {"Synchronize", "synchronise after the graph's launch: nothing runs while capturing"},
      {"EventQuery", "query an event that is recorded after the graph's launch"},
      {"Query", "query after the graph's launch: nothing runs while capturing"},
      {"ElapsedTime", "take times around the graph's launch"},
      {"EndCapture", nullptr},
      {"lloc",  // cudaMalloc, cuMemAlloc, cudaHostAlloc
       "allocate before the capture, or from a memory_pool or with cudaMallocAsync on the "
       "capturing stream; if a library allocates, run it once before the capture and give it a "
       "workspace"},
      {"Free", "free after the capture, or with cudaFreeAsync on the capturing stream"},
      {"HostRegister", "register memory before the capture"},
      {"AddCallback", "use cudaLaunchHostFunc, which can be captured"},
      {"Memcpy",
       "use cudaMemcpyAsync on the capturing stream, with page-locked memory on the host: the "
       "graph reads and writes that memory at each launch"},
      {"Memset", "use cudaMemsetAsync on the capturing stream"},
      {"GraphLaunch", "call the code that the graph was captured from instead of launching it"},
      {"GraphUpload", "upload before the capture"},
      {"StreamGet", "query the stream before the capture; a warpwright::stream knows its id"},
      {"Module", "load kernels before the capture: run the body once"},
      {"Library", "load kernels before the capture: run the body once"}};
  for (entry const& each : entries) {
    if (std::strstr(api, each.part) != nullptr) return each.remedy;
  }
  return nullptr;
}

WARPWRIGHT_INLINE void check_capture(cudaError_t status, char const* api, source_location where) {
  if (status == cudaSuccess) return;
  capture_rule const* const rule = find_capture_rule(status);
  if (rule == nullptr) throw_cuda_error(status, api, where);
  throw_cuda_error(status, api, where, (text{rule->cause} + ": " + rule->remedy).c_str());
}

WARPWRIGHT_INLINE void driver_log::start() noexcept {
#if CUDART_VERSION >= 13000
  started_ = discard(cudaLogsCurrent(&begin_, 0)) == cudaSuccess;
#endif
}

WARPWRIGHT_INLINE std::string driver_log::lines() const {
  std::string text;
#if CUDART_VERSION >= 13000
  if (!started_) return text;
  std::size_t size = 25600;  // CUDA keeps no more
  text.resize(size + 1);
  cudaLogIterator from = begin_;
  cudaError_t const status = discard(cudaLogsDumpToMemory(&from, &text[0], &size, 0));
  text.resize(status == cudaSuccess && size < text.size() ? size : 0);
#endif
  return text;
}

WARPWRIGHT_INLINE bool breaks_any_capture(int code, std::string const& api) {
  return code == cudaErrorStreamCaptureImplicit ||
         api.find("CtxSynchronize") != std::string::npos ||
         api.find("DeviceSynchronize") != std::string::npos;
}

WARPWRIGHT_INLINE logged_call find_breaking_call(std::string const& log, bool any_thread,
                                                 bool& other) {
  logged_call mine;
  logged_call of_others;
  std::string this_thread = std::to_string(pthread_self());
  // Where the log names threads otherwise, the end of the capture tells how it names this one.
  bool const by_handle = log.find("[" + this_thread + "]") != std::string::npos;
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t at = 0; at < log.size();) {
      std::size_t end = log.find('\n', at);
      if (end == std::string::npos) end = log.size();
      std::string const line = log.substr(at, end - at);
      at = end + 1;
      std::size_t const returning = line.find("Returning ");
      std::size_t const from = line.find(") from ");
      std::size_t const open = line.find("][");
      if (returning == std::string::npos || from == std::string::npos) continue;
      logged_call call;
      call.code = std::atoi(line.c_str() + returning + 10);
      call.api = line.substr(from + 7);
      if (open != std::string::npos && open < returning) {
        call.thread = line.substr(open + 2, line.find(']', open + 2) - open - 2);
      }
      if (pass == 0) {
        bool const ended = call.api.find("StreamEndCapture") != std::string::npos;
        if (ended && !by_handle) this_thread = call.thread;
        continue;
      }
      if (call.code < cudaErrorStreamCaptureUnsupported ||
          call.code > cudaErrorStreamCaptureWrongThread ||
          call.code == cudaErrorStreamCaptureInvalidated) {
        continue;
      }
      bool const own = call.thread == this_thread;
      if (!own && !any_thread && !breaks_any_capture(call.code, call.api)) continue;
      logged_call& first = own ? mine : of_others;
      if (first.code == 0) first = call;
    }
  }
  other = mine.code == 0 && of_others.code != 0;
  return other ? of_others : mine;
}

}  // namespace detail

WARPWRIGHT_END
