// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Page-locked memory for the standard library's containers: std::pmr over a pinned_pool.
//
//   ww::pmr_pinned_resource pinned{pool, stream};
//   std::pmr::vector<float> rows{&pinned};  // copies from rows.data() run at the link's speed
#pragma once

#include <warpwright/memory/pinned.hpp>

#include <memory_resource>

WARPWRIGHT_BEGIN

/// A pinned_pool as a std::pmr::memory_resource.
///
/// Containers do not pass a stream. Construct the resource with the stream whose copies use the
/// containers' memory: freed memory is then reused only when that stream has completed. Without a
/// stream, a container may free memory (grow, shrink, be destroyed) only when no copy uses it any
/// more.
/// @pre The pool outlives the resource, and the resource its containers.
/// **Threads:** any number of containers at once.
class pmr_pinned_resource final : public std::pmr::memory_resource {
 public:
  /// For memory that no copy uses when it is freed.
  /// @param pool  rejects alignments above its max_alignment_bytes
  explicit pmr_pinned_resource(pinned_pool& pool) noexcept : pool_{&pool} {}
  /// For memory that copies on `stream` may still use when it is freed.
  /// @param stream  outlives the resource, and the pool, unless it is retired there; of any device.
  ///   A default stream is that of the current device, and the per-thread one that of this thread,
  ///   wherever containers free memory
  pmr_pinned_resource(pinned_pool& pool, stream_ref stream) noexcept
      : pool_{&pool}, stream_{stream}, on_stream_{true} {}

  /// @return the pool
  [[nodiscard]] pinned_pool& pool() const noexcept { return *pool_; }

 private:
  // The standard requires a pointer for 0 bytes, too.
  static std::size_t at_least_one(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

  // @throws out_of_memory (a std::bad_alloc), std::invalid_argument, cuda_error: as the pool
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return pool_->allocate(at_least_one(bytes), alignment);
  }
  // Never throws, since destructors call it: a block that the pool rejects stays live there. When
  // the pool cannot register the stream, waits for it instead.
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t) override {
    if (on_stream_) {
      detail::pinned_access::core(*pool_).free_behind(stream_, pointer, at_least_one(bytes));
      return;
    }
    try {
      pool_->deallocate(pointer, at_least_one(bytes));
    } catch (...) {
    }
  }
  // Equal resources can free each other's memory: same pool and same stream, or no stream. With
  // -fno-rtti a resource equals only itself, so that containers copy where they could swap.
  [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
#if defined(__cpp_rtti)
    auto const* const same = dynamic_cast<pmr_pinned_resource const*>(&other);
#else
    auto const* const same = &other == this ? this : nullptr;
#endif
    return same != nullptr && same->pool_ == pool_ && same->on_stream_ == on_stream_ &&
           same->stream_ == stream_;
  }

  pinned_pool* pool_;
  detail::named_stream stream_;
  bool on_stream_ = false;
};

WARPWRIGHT_END
