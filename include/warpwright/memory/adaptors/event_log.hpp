// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/memory/detail/adaptor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>

WARPWRIGHT_BEGIN

/// The kind of a memory_log_record.
enum class memory_log_operation {
  allocate,           ///< logged after the upstream has returned
  allocate_failed,    ///< the upstream threw or returned a null pointer
  deallocate,         ///< logged before the upstream frees the block, so that a later use of its
                      ///< address is never logged first
  deallocate_failed,  ///< the upstream threw; the block is still live
};

/// @return "allocate", "allocate_failed", "deallocate" or "deallocate_failed"
constexpr char const* to_string(memory_log_operation operation) noexcept {
  constexpr char const* names[] = {"allocate", "allocate_failed", "deallocate",
                                   "deallocate_failed"};
  return detail::enum_name(names, operation);
}

/// One call of an event_log_adaptor.
struct memory_log_record {
  memory_log_operation operation;
  void* pointer;             ///< null for a failed allocation
  std::size_t bytes;         ///< as passed by the caller
  std::size_t alignment;     ///< in bytes; 0 for a deallocation
  std::uint64_t stream_id;   ///< stream_ref::id()
  std::uint64_t time_ns;     ///< of the monotonic clock, at the begin of the call
  std::uint64_t elapsed_ns;  ///< time in the upstream; 0 for deallocate, which is logged before
  source_location where;     ///< the caller's source location
  cudaStream_t stream;       ///< the handle, which CUDA may reuse for another stream
};

/// Reports every call to a callback.
///
/// For a table on stderr: event_log_adaptor log{pool, memory_log_to_csv, stderr}.
/// @pre The upstream outlives the adaptor.
/// **Threads:** as many as the upstream allows; the callback is called without a lock, from each of
/// them. **Capture:** as the upstream, with a stream_ref that carries its id; querying the id
/// invalidates the capture. **Cost:** two clock readings an allocation, one a deallocation, and the
/// callback; one cudaStreamGetId for a stream_ref without its id, which the upstream then need not
/// repeat.
template <class Upstream>
class event_log_adaptor : public detail::memory_adaptor<event_log_adaptor<Upstream>, Upstream> {
 public:
  /// Called for each call of at least one byte. Must not throw, since the block would be lost.
  using callback = void (*)(void* user, memory_log_record const& record) noexcept;

  /// Creates an adaptor.
  /// @param upstream   where the memory comes from
  /// @param on_record  the callback
  /// @param user       passed to it
  /// @throws std::invalid_argument  for a null callback
  event_log_adaptor(Upstream& upstream, callback on_record, void* user = nullptr,
                    source_location where = source_location::current())
      : base{upstream}, on_record_{on_record}, user_{user} {
    if (on_record == nullptr) {
      detail::throw_invalid_argument("event_log_adaptor: the callback is null; pass a function",
                                     where);
    }
  }
  event_log_adaptor(Upstream&, std::nullptr_t,
                    void* = nullptr) = delete;  // the callback is required

 private:
  using base = detail::memory_adaptor<event_log_adaptor, Upstream>;
  friend class detail::memory_interface<event_log_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& original) {
    detail::memory_request request = original;
    request.stream = original.stream.resolved(original.where);
    memory_log_record record{memory_log_operation::allocate_failed,
                             nullptr,
                             request.bytes,
                             request.alignment,
                             request.stream.id(request.where),
                             detail::monotonic_nanoseconds(),
                             0,
                             request.where,
                             request.stream.get()};
    try {
      record.pointer = detail::allocate_from<Throws>(this->upstream(), request);
    } catch (...) {
      report(record);
      throw;
    }
    if (record.pointer != nullptr) record.operation = memory_log_operation::allocate;
    report(record);
    return record.pointer;
  }
  void do_deallocate(stream_ref original, void* pointer, std::size_t bytes, source_location where) {
    stream_ref const stream = original.resolved(where);
    memory_log_record record{
        memory_log_operation::deallocate, pointer, bytes, 0,           stream.id(where),
        detail::monotonic_nanoseconds(),  0,       where, stream.get()};
    on_record_(user_, record);
    try {
      this->upstream().deallocate(stream, pointer, bytes, where);
    } catch (...) {
      record.operation = memory_log_operation::deallocate_failed;
      report(record);
      throw;
    }
  }
  void report(memory_log_record& record) noexcept {
    record.elapsed_ns = detail::monotonic_nanoseconds() - record.time_ns;
    on_record_(user_, record);
  }

  callback on_record_;
  void* user_;
};

/// Writes the header line for memory_log_to_csv().
/// @param file  open for writing
inline void memory_log_csv_header(std::FILE* file) noexcept {
  std::fputs("time_ns,operation,pointer,bytes,alignment,stream_id,elapsed_ns,file,line\n", file);
}

/// A callback for event_log_adaptor: writes each record as one line of comma-separated values. A
/// quotation mark in the file's name is doubled, and bytes that are not UTF-8 are written as '?'.
/// @param file    a std::FILE* open for writing; write errors are ignored
/// @param record  the call
/// **Threads:** any number: a line is written under the file's lock, so lines do not mix.
inline void memory_log_to_csv(void* file, memory_log_record const& record) noexcept {
  auto* const out = static_cast<std::FILE*>(file);
  ::flockfile(out);
  std::fprintf(out, "%llu,%s,%p,%zu,%zu,%llu,%llu,\"",
               static_cast<unsigned long long>(record.time_ns), to_string(record.operation),
               record.pointer, record.bytes, record.alignment,
               static_cast<unsigned long long>(record.stream_id),
               static_cast<unsigned long long>(record.elapsed_ns));
  for (char const* c = record.where.file(); *c != '\0';) {
    std::size_t const bytes = detail::utf8_bytes(c);
    if (*c == '"') std::fputc('"', out);
    std::fwrite(bytes != 0 ? c : "?", 1, bytes != 0 ? bytes : 1, out);
    c += bytes != 0 ? bytes : 1;
  }
  std::fprintf(out, "\",%d\n", record.where.line());
  ::funlockfile(out);
}

WARPWRIGHT_END
