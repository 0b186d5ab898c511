// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The log of RMM's logging_resource_adaptor, for programs that read it: RMM's replay benchmark, and
// warpwright_replay.
//
//   ww::memory_log_rmm_header(file);
//   ww::event_log_adaptor log{pool, ww::memory_log_to_rmm, file};
#pragma once

#include <warpwright/memory/adaptors/event_log.hpp>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

WARPWRIGHT_BEGIN

/// Writes the header line for memory_log_to_rmm(): Thread,Time,Action,Pointer,Size,Stream.
/// @param file  open for writing
inline void memory_log_rmm_header(std::FILE* file) noexcept {
  std::fputs("Thread,Time,Action,Pointer,Size,Stream\n", file);
}

/// A callback for event_log_adaptor: writes each record as a line of RMM's log: the system's id of
/// the calling thread, the local time of day as HH:MM:SS.microseconds, "allocate", "allocate
/// failure" or "free", the pointer, the size in bytes, and the stream's handle.
///
/// RMM has no line for a free that failed, after which the block is still live: an "allocate" of
/// the same block is written, so that the log can be replayed.
/// @param file    a std::FILE* open for writing; write errors are ignored
/// @param record  the call
/// **Threads:** any number: a line is written by one call, under the file's lock. Lines of
/// different threads are in the order of their writes.
inline void memory_log_to_rmm(void* file, memory_log_record const& record) noexcept {
  char const* action = "allocate";
  if (record.operation == memory_log_operation::allocate_failed) action = "allocate failure";
  if (record.operation == memory_log_operation::deallocate) action = "free";
  timespec now{};
  tm local{};
  static_cast<void>(clock_gettime(CLOCK_REALTIME, &now));
  static_cast<void>(localtime_r(&now.tv_sec, &local));
  std::fprintf(static_cast<std::FILE*>(file), "%ld,%02d:%02d:%02d.%06ld,%s,%p,%zu,%p\n",
               ::syscall(SYS_gettid), local.tm_hour, local.tm_min, local.tm_sec, now.tv_nsec / 1000,
               action, record.pointer, record.bytes, static_cast<void*>(record.stream));
}

WARPWRIGHT_END
