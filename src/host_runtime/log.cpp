// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The error log: a line for each call that returned an error, in the form of CUDA's
// (CUDA Programming Guide, "Error Log Management").
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>

#include "runtime.hpp"

namespace warpwright::host {
namespace {

constexpr std::size_t capacity_bytes = 25600;

struct error_log {
  std::mutex mutex;  // never locked while other locks of the runtime are taken
  std::deque<std::string> lines;
  std::size_t bytes = 0;
  unsigned first = 0;  // the number of lines that were dropped
};

// Never destroyed: threads may fail at exit.
error_log& the_log() {
  static error_log* const log = new error_log;
  return *log;
}

}  // namespace

void log_message(std::string const& message) noexcept {
  try {
    tsan_ignore_scope const tsan_ignore;
    auto const now = std::chrono::system_clock::now();
    std::time_t const seconds = std::chrono::system_clock::to_time_t(now);
    auto const milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() %
        1000;
    std::tm parts = {};
    gmtime_r(&seconds, &parts);
    char head[96];
    std::snprintf(head, sizeof head, "[%02d:%02d:%02d.%03d][%llu][CUDA][E] ", parts.tm_hour,
                  parts.tm_min, parts.tm_sec, static_cast<int>(milliseconds),
                  static_cast<unsigned long long>(pthread_self()));
    error_log& log = the_log();
    std::lock_guard<std::mutex> const lock(log.mutex);
    log.lines.push_back(head + message + '\n');
    log.bytes += log.lines.back().size();
    while (log.bytes > capacity_bytes) {
      log.bytes -= log.lines.front().size();
      log.lines.pop_front();
      ++log.first;
    }
  } catch (std::bad_alloc const&) {  // the call's own error counts
  }
}

void log_failure(char const* name, cudaError_t code) noexcept {
  if (current_phase.load(std::memory_order_relaxed) != phase::running) return;
  try {
    tsan_ignore_scope const tsan_ignore;
    log_message("Returning " + std::to_string(static_cast<int>(code)) + " (" +
                cudaGetErrorName(code) + ") from " + name);
  } catch (std::bad_alloc const&) {
  }
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaLogsCurrent(cudaLogIterator* end, unsigned /*flags*/) {
  static call_site site{"cudaLogsCurrent"};
  return api(site, needs::nothing, [&](runtime&) {
    if (end == nullptr) return cudaErrorInvalidValue;  // a driver takes any flags
    tsan_ignore_scope const tsan_ignore;
    error_log& log = the_log();
    std::lock_guard<std::mutex> const lock(log.mutex);
    *end = log.first + static_cast<unsigned>(log.lines.size());
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaLogsDumpToMemory(cudaLogIterator* from, char* buffer, size_t* size,
                                                unsigned flags) {
  static call_site site{"cudaLogsDumpToMemory"};
  return api(site, needs::nothing, [&](runtime&) {
    if (buffer == nullptr || size == nullptr || *size == 0 || flags != 0) {
      return cudaErrorInvalidValue;
    }
    tsan_ignore_scope const tsan_ignore;
    error_log& log = the_log();
    std::lock_guard<std::mutex> const lock(log.mutex);
    std::size_t const room = *size - 1;
    *size = 0;
    buffer[0] = '\0';
    unsigned const end = log.first + static_cast<unsigned>(log.lines.size());
    unsigned const wanted = from != nullptr && *from <= end ? *from : 0;
    if (from != nullptr) *from = end;
    unsigned start = (std::max)(wanted, log.first);
    std::size_t bytes = 0;
    for (unsigned i = start; i < end; ++i) bytes += log.lines[i - log.first].size();
    std::string text;
    if (start != wanted || bytes > room) {
      text = "Some log messages were lost or do not fit\n";
      while (start < end && bytes + text.size() > room) {
        bytes -= log.lines[start++ - log.first].size();
      }
      if (start == end) return cudaErrorInvalidValue;
    }
    for (; start < end; ++start) text += log.lines[start - log.first];
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    *size = text.size();
    return cudaSuccess;
  });
}
