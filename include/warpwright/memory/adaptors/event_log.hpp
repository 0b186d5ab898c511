// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/adaptor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>

WARPWRIGHT_BEGIN

/// What a memory_log_record tells of.
enum class memory_log_operation {
  allocate,           ///< told when upstream has answered
  allocate_failed,    ///< upstream threw, or answered a null pointer
  deallocate,         ///< told before upstream gets the block, so that no later use of its address
                      ///< is told first
  deallocate_failed,  ///< upstream threw; the block is still live
};

/// @return "allocate", "allocate_failed", "deallocate" or "deallocate_failed"
constexpr char const* to_string(memory_log_operation operation) noexcept {
  switch (operation) {
    case memory_log_operation::allocate:
      return "allocate";
    case memory_log_operation::allocate_failed:
      return "allocate_failed";
    case memory_log_operation::deallocate:
      return "deallocate";
    case memory_log_operation::deallocate_failed:
      return "deallocate_failed";
  }
  return "unknown";
}

/// One call that an event_log_adaptor has seen.
struct memory_log_record {
  memory_log_operation operation;
  void* pointer;             ///< null for a failed allocation
  std::size_t bytes;         ///< as the caller gave it
  std::size_t alignment;     ///< in bytes; 0 for a deallocation
  std::uint64_t stream_id;   ///< as stream_ref::id() tells it
  std::uint64_t time_ns;     ///< of the system's monotonic clock, when the call began
  std::uint64_t elapsed_ns;  ///< that upstream took; 0 for deallocate, which is told before
  source_location where;     ///< the caller's place
};

/// Tells a callback of every call.
///
/// To see them as a table: event_log_adaptor log{pool, memory_log_to_csv, stderr}.
/// @pre The upstream outlives the adaptor.
/// **Threads:** as many as upstream takes; the callback is called without a lock, by each of them.
/// **Capture:** as upstream, with a stream_ref that carries its id; asking for it breaks the
/// capture. **Cost:** two readings of the clock an allocation, one a deallocation, and the
/// callback; a cudaStreamGetId for a stream_ref without its id, which upstream then need not make
/// again.
template <class Upstream>
class event_log_adaptor : public detail::memory_adaptor<event_log_adaptor<Upstream>, Upstream> {
 public:
  /// Told of each call of at least one byte; it may not throw, for a block would be lost.
  using callback = void (*)(void* user, memory_log_record const& record) noexcept;

  /// @param upstream   where the memory comes from
  /// @param on_record  the callback
  /// @param user       passed to it
  /// @throws std::invalid_argument  for a null callback
  event_log_adaptor(Upstream& upstream, callback on_record, void* user = nullptr,
                    source_location where = source_location::current())
      : base{upstream}, on_record_{on_record}, user_{user} {
    if (on_record == nullptr) {
      detail::throw_invalid_argument(
          "event_log_adaptor: the callback is null; a log needs a reader, pass one", where);
    }
  }
  event_log_adaptor(Upstream&, std::nullptr_t, void* = nullptr) = delete;  // a log without a reader

 private:
  using base = detail::memory_adaptor<event_log_adaptor, Upstream>;
  friend class detail::memory_interface<event_log_adaptor>;

  template <bool Throws>
  void* take(detail::memory_request const& asked) {
    detail::memory_request request = asked;
    request.stream = asked.stream.resolved(asked.where);
    memory_log_record record{memory_log_operation::allocate_failed,
                             nullptr,
                             request.bytes,
                             request.alignment,
                             request.stream.id(request.where),
                             detail::monotonic_ns(),
                             0,
                             request.where};
    try {
      record.pointer = detail::allocate_from<Throws>(this->upstream(), request);
    } catch (...) {
      tell(record);
      throw;
    }
    if (record.pointer != nullptr) record.operation = memory_log_operation::allocate;
    tell(record);
    return record.pointer;
  }
  void give(stream_ref asked, void* pointer, std::size_t bytes, source_location where) {
    stream_ref const stream = asked.resolved(where);
    memory_log_record record{memory_log_operation::deallocate, pointer, bytes, 0, stream.id(where),
                             detail::monotonic_ns(),           0,       where};
    on_record_(user_, record);
    try {
      this->upstream().deallocate(stream, pointer, bytes, where);
    } catch (...) {
      record.operation = memory_log_operation::deallocate_failed;
      tell(record);
      throw;
    }
  }
  void tell(memory_log_record& record) noexcept {
    record.elapsed_ns = detail::monotonic_ns() - record.time_ns;
    on_record_(user_, record);
  }

  callback on_record_;
  void* user_;
};

/// Writes the line of names that belongs above the lines of memory_log_to_csv().
/// @param file  open for writing
inline void memory_log_csv_header(std::FILE* file) noexcept {
  std::fputs("time_ns,operation,pointer,bytes,alignment,stream_id,elapsed_ns,file,line\n", file);
}

/// A callback for event_log_adaptor: writes each record as one line of comma-separated values; a
/// quotation mark in the file's name is doubled.
/// @param file  a std::FILE* open for writing; what cannot be written is lost silently
/// **Threads:** any number: a line is written under the file's lock, so lines do not mix.
inline void memory_log_to_csv(void* file, memory_log_record const& record) noexcept {
  auto* const out = static_cast<std::FILE*>(file);
  ::flockfile(out);
  std::fprintf(out, "%llu,%s,%p,%zu,%zu,%llu,%llu,\"",
               static_cast<unsigned long long>(record.time_ns), to_string(record.operation),
               record.pointer, record.bytes, record.alignment,
               static_cast<unsigned long long>(record.stream_id),
               static_cast<unsigned long long>(record.elapsed_ns));
  for (char const* c = record.where.file(); *c != '\0'; ++c) {
    if (*c == '"') std::fputc('"', out);
    std::fputc(*c, out);
  }
  std::fprintf(out, "\",%d\n", record.where.line());
  ::funlockfile(out);
}

WARPWRIGHT_END
