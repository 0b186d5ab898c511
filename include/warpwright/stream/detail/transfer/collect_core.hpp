// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/stream/detail/transfer/transfer_core.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Reads results in host memory.
class result_sink : noncopyable {
 public:
  virtual ~result_sink() = default;
  virtual void drain(void const* from, std::size_t bytes, std::size_t index) = 0;
};

/// A result_collector without the type of its elements: the caller takes free slots; a thread hands
/// the results to the sink in the order in which the slots were taken. After an error it hands over
/// no more, and every call throws the error.
class collect_core : public transfer_core {
 public:
  /// Starts the thread. @param sink  outlives the core
  collect_core(memory_pool& pool, pinned_pool& pinned, std::size_t element_bytes,
               std::size_t capacity, result_sink& sink, prefetch_options const& options,
               source_location where);
  /// Waits for the sink, which gets all results that were copied.
  ~collect_core();

  /// Waits for a free slot and orders the stream behind its last use.
  /// @return null after stop()
  transfer_slot* next(stream_ref stream, source_location where);
  /// @param elements  0: there is no result, and the sink is not called for it
  void release(transfer_slot& slot, std::size_t elements) noexcept;
  /// Waits until the sink has had all results of slots that were given back.
  void finish();

 private:
  void run() noexcept;
  void drain(guard& lock, transfer_slot& slot) noexcept;
  void throw_error(guard& lock);
  [[noreturn]] void throw_waits_for_itself(char const* call, source_location where) const;
  [[nodiscard]] std::exception_ptr error_of_use(transfer_slot const& slot) const noexcept;
  /// Whether the sink has yet to get results; after stop() it gets none.
  [[nodiscard]] bool is_draining() const noexcept {
    return !ended_ && (next_drain_ < next_copy_ || copying_);
  }

  result_sink& sink_;
  thread runner_;
  // Guarded by mutex_:
  std::size_t next_index_ = 0;
  std::size_t next_drain_ = 0;
  std::exception_ptr error_{};  // the first one
  bool ended_ = false;          // the thread calls the sink no more
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/transfer/collect_core_definitions.hpp>
#endif
