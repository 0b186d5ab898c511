// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the memory adaptors and resources share: the pool's interface, written once.
#pragma once

#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/capture_guard.hpp>

#include <cstddef>
#include <cstdint>

#include <time.h>

WARPWRIGHT_BEGIN

namespace detail {

/// What allocate() was called with.
struct memory_request {
  stream_ref stream;
  std::size_t bytes;
  std::size_t alignment;
  source_location where;
};

/// Passes a request on: a null pointer for memory that cannot be had, or out_of_memory.
template <bool Throws, class Upstream>
[[nodiscard]] void* allocate_from(Upstream& upstream, memory_request const& request) {
  if constexpr (Throws) {
    return upstream.allocate(request.stream, request.bytes, request.alignment, request.where);
  } else {
    return upstream.try_allocate(request.stream, request.bytes, request.alignment, request.where);
  }
}

/// Gives memory back that nobody has been told of, while an exception is on its way.
template <class Upstream>
void give_back(Upstream& upstream, memory_request const& request, void* pointer) noexcept {
  try {
    upstream.deallocate(request.stream, pointer, request.bytes, request.where);
  } catch (...) {  // the first error is the one to report; upstream counts the block as live
  }
}

/// A time that only grows, in ns.
inline std::uint64_t monotonic_ns() noexcept {
  timespec now{};
  static_cast<void>(clock_gettime(CLOCK_MONOTONIC, &now));
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// For what has to wait for a stream, or to enqueue work that no graph must replay.
inline void refuse_capture(char const* who, char const* verb, stream_ref stream,
                           source_location where) {
  if (!is_capturing(stream, where)) return;
  throw_invalid_argument(
      text{who} + ": cannot " + verb + " on a capturing stream; do it before or after the capture",
      where);
}

constexpr bool is_power_of_two(std::size_t value) noexcept {
  return value != 0 && (value & (value - 1)) == 0;
}

/// The interface of memory_pool over Self's take<Throws>(memory_request) and
/// give(stream, pointer, bytes, where), which never see 0 bytes or a null pointer.
template <class Self>
class memory_interface {
 public:
  /// The alignment of a block that asks for none.
  static constexpr std::size_t block_alignment_bytes = 256;

  /// Hands out memory for work on a stream; as the upstream does, and as this class adds.
  /// @param stream     the memory may be used by work given to this stream from now on
  /// @param bytes      0 answers nullptr and counts nothing
  /// @param alignment  of the address, in bytes: a power of two, as far up as upstream goes
  /// @param where      the caller's place; upstream gets the same
  /// @return memory with undefined contents
  /// @throws out_of_memory   when the memory cannot be had
  /// @throws std::bad_alloc  when the host has no memory for a class that keeps books
  /// Otherwise what upstream throws. Whatever is thrown, no memory is lost.
  /// **Stream:** ordered on `stream`, as upstream.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    if (bytes == 0) return nullptr;
    return self().template take<true>(memory_request{stream, bytes, alignment, where});
  }

  /// As allocate(), but answers nullptr when the memory cannot be had.
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (bytes == 0) return nullptr;
    return self().template take<false>(memory_request{stream, bytes, alignment, where});
  }

  /// Takes memory back; work given to `stream` before the call may still use it.
  /// @param stream   as memory_pool::deallocate() wants it
  /// @param pointer  from allocate() of this object; nullptr does nothing
  /// @param bytes    as given to allocate()
  /// @throws what upstream throws; the block is live then, here and upstream
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (pointer != nullptr) self().give(stream, pointer, bytes, where);
  }

 protected:
  memory_interface() noexcept = default;
  ~memory_interface() = default;
  memory_interface(memory_interface const&) noexcept = default;
  memory_interface& operator=(memory_interface const&) noexcept = default;

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }
};

/// An object with the pool's interface over another one, which it does not own.
template <class Self, class Upstream>
class memory_adaptor : public memory_interface<Self> {
 public:
  memory_adaptor(memory_adaptor const&) = delete;  // buffers and other adaptors point to it
  memory_adaptor& operator=(memory_adaptor const&) = delete;

  /// @return what lies below
  [[nodiscard]] Upstream& upstream() const noexcept { return upstream_; }
  /// @return the upstream's device
  [[nodiscard]] device_id device() const noexcept { return upstream_.device(); }

 protected:
  explicit memory_adaptor(Upstream& upstream) noexcept : upstream_{upstream} {}
  ~memory_adaptor() = default;

 private:
  Upstream& upstream_;
};

}  // namespace detail

WARPWRIGHT_END
