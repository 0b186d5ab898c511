// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/stream/detail/transfer/transfer_core.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Writes batches into host memory.
class batch_source : noncopyable {
 public:
  virtual ~batch_source() = default;
  /// @return the number of elements; 0: there is no such batch, nor a later one
  virtual std::size_t fill(void* to, std::size_t index) = 0;
};

/// A prefetcher without the type of its elements: workers fill free slots; the caller takes batches
/// in order. An exception of the source takes the place of its batch.
class prefetch_core : public transfer_core {
 public:
  /// Starts the workers. @param source  outlives the core
  prefetch_core(memory_pool& pool, pinned_pool& pinned, std::size_t element_bytes,
                std::size_t capacity, batch_source& source, prefetch_options const& options,
                source_location where);
  ~prefetch_core() { end_threads(); }

  /// Waits for the next batch and orders the stream behind its copy.
  /// @return null behind the last batch, and after stop()
  /// @throws std::invalid_argument  where it would wait for the calling thread
  transfer_slot* next(stream_ref stream, source_location where);
  void release(transfer_slot& slot) noexcept;

 private:
  struct worker {
    prefetch_core* owner = nullptr;
    thread runner;

    void run() noexcept { owner->run_worker(); }
  };

  void end_threads() noexcept;
  void run_worker() noexcept;
  void fill(guard& lock, transfer_slot& slot) noexcept;
  void count_filling(std::uint64_t begin, std::uint64_t end, std::size_t bytes) noexcept;
  transfer_slot* take(guard& lock, stream_ref stream) noexcept;

  batch_source& source_;
  array<worker> workers_;  // resized once: a thread refers to its worker
  // Guarded by mutex_:
  std::size_t next_fill_ = 0;
  std::size_t next_take_ = 0;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/transfer/prefetch_core_definitions.hpp>
#endif
