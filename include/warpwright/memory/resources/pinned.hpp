// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/adaptor.hpp>

WARPWRIGHT_BEGIN

/// Adapts a pinned_pool, which allocates without a stream, to memory_pool's interface:
/// pinned_memory_resource pinned{pool};
/// @tparam Pool  pinned_pool, or a class with its interface
/// @pre The pool outlives the resource.
/// **Threads:** as the pool. **Capture:** deallocating on a capturing stream is not legal.
/// **Cost:** the pool's.
template <class Pool>
class pinned_memory_resource : public detail::memory_interface<pinned_memory_resource<Pool>>,
                               private detail::noncopyable {
 public:
  /// Creates a resource.
  /// @param pool  where the memory comes from
  explicit pinned_memory_resource(Pool& pool) noexcept : pool_{pool} {}

  /// @return -1, which is not a device: memory_report::device of page-locked host memory
  [[nodiscard]] device_id device() const noexcept { return device_id{-1}; }
  /// @return the pool
  [[nodiscard]] Pool& pool() const noexcept { return pool_; }

 private:
  friend class detail::memory_interface<pinned_memory_resource>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    if constexpr (Throws) {
      return pool_.allocate(request.bytes, request.alignment, request.where);
    } else {
      return pool_.try_allocate(request.bytes, request.alignment, request.where);
    }
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    pool_.deallocate(stream, pointer, bytes, where);
  }

  Pool& pool_;
};

WARPWRIGHT_END
