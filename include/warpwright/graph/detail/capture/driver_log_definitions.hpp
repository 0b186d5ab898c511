// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/capture/driver_log.hpp>

#include <cstdlib>

#include <pthread.h>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE void driver_log::start() noexcept {
#if CUDART_VERSION >= 13000
  cudaError_t const status = cudaLogsCurrent(&begin_, 0);
  discard(status);
  started_ = status == cudaSuccess;
#endif
}

WARPWRIGHT_INLINE std::string driver_log::lines() const {
  std::string text;
#if CUDART_VERSION >= 13000
  if (!started_) return text;
  std::size_t size = 25600;  // CUDA keeps no more
  text.resize(size + 1);
  cudaLogIterator from = begin_;
  cudaError_t const status = cudaLogsDumpToMemory(&from, &text[0], &size, 0);
  discard(status);
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
