// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pool's interface, implemented once for the memory adaptors and resources.
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/alignment.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// The arguments of allocate().
struct memory_request {
  stream_ref stream;
  std::size_t bytes;
  std::size_t alignment;
  source_location where;
};

/// Forwards a request. Out of memory is a null pointer from try_allocate(), out_of_memory from
/// allocate().
template <bool Throws, class Upstream>
[[nodiscard]] void* allocate_from(Upstream& upstream, memory_request const& request) {
  if constexpr (Throws) {
    return upstream.allocate(request.stream, request.bytes, request.alignment, request.where);
  } else {
    return upstream.try_allocate(request.stream, request.bytes, request.alignment, request.where);
  }
}

/// Frees memory that the caller has not received, while an exception is propagating.
template <class Upstream>
void undo_allocation(Upstream& upstream, memory_request const& request, void* pointer) noexcept {
  try {
    upstream.deallocate(request.stream, pointer, request.bytes, request.where);
  } catch (...) {  // the first error is reported; upstream counts the block as live
  }
}

/// Throws when `stream` is capturing: for operations that wait for a stream or enqueue work that no
/// graph must replay.
inline void check_not_capturing(char const* who, char const* verb, stream_ref stream,
                                source_location where) {
  if (!is_capturing(stream, where)) return;
  throw_invalid_argument(
      text{who} + ": cannot " + verb + " on a capturing stream; do it before or after the capture",
      where);
}

/// The interface of memory_pool over Self's do_allocate<Throws>(memory_request) and
/// do_deallocate(stream, pointer, bytes, where), which are never called with 0 bytes or a null
/// pointer.
template <class Self>
class memory_interface {
 public:
  /// The default and minimum alignment of a block.
  static constexpr std::size_t block_alignment_bytes = 256;

  /// Allocates memory for work on a stream from the upstream, with the addition that the class
  /// describes.
  /// @param stream     work submitted to this stream from now on may use the memory
  /// @param bytes      0 returns nullptr and is not counted
  /// @param alignment  of the address, in bytes: a power of two up to the upstream's maximum
  /// @param where      the caller's source location, passed to the upstream
  /// @return memory with undefined contents
  /// @throws out_of_memory   when there is not enough memory
  /// @throws std::bad_alloc  when the host has no memory for the adaptor's own records
  /// Otherwise what the upstream throws. No exception loses memory.
  /// **Stream:** ordered on `stream`, as the upstream.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    if (bytes == 0) return nullptr;
    return self().template do_allocate<true>(memory_request{stream, bytes, alignment, where});
  }

  /// As allocate(), but returns nullptr when there is not enough memory.
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (bytes == 0) return nullptr;
    return self().template do_allocate<false>(memory_request{stream, bytes, alignment, where});
  }

  /// Frees a block; work submitted to `stream` before the call may still use it.
  /// @param stream   as memory_pool::deallocate()
  /// @param pointer  from allocate() of this object; nullptr does nothing
  /// @param bytes    as passed to allocate()
  /// @param where    the caller's source location, passed to the upstream
  /// @throws what the upstream throws; the block is then still live, here and in the upstream
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (pointer != nullptr) self().do_deallocate(stream, pointer, bytes, where);
  }

 protected:
  memory_interface() noexcept = default;
  ~memory_interface() = default;
  memory_interface(memory_interface const&) noexcept = default;
  memory_interface& operator=(memory_interface const&) noexcept = default;

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }
};

/// A class with the pool's interface over an upstream that it does not own.
template <class Self, class Upstream>
class memory_adaptor : public memory_interface<Self>, private noncopyable {
 public:
  /// @return where the memory comes from
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
