// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/memory/detail/staging/staging_workers.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// A copy that failed after a part of it.
class staging_error : public cuda_error {
 public:
  staging_error(cudaError_t code, char const* api, source_location where, std::size_t done_bytes,
                std::size_t all_bytes);
  /// @return the length of the part at the begin that was copied; to the device, that was enqueued.
  ///   Later parts of the destination are undefined
  [[nodiscard]] std::size_t copied_bytes() const noexcept { return copied_bytes_; }

 private:
  std::size_t copied_bytes_;
};

namespace detail {

/// The values of staging_options, which documents them.
struct staging_settings {
  unsigned threads = 0;
  std::size_t slot_bytes = std::size_t{4} << 20U;
  unsigned slots_per_thread = 2;
  std::size_t direct_bytes = std::size_t{1} << 20U;
  std::size_t bytes_per_helper = std::size_t{512} << 10U;
};

/// How a staging object copies: by a command of CUDA, or in chunks through slots.
class staging_core : noncopyable {
 public:
  staging_core(pinned_core& pool, staging_settings const& options, source_location where);
  ~staging_core() {
    if (workers_.is_current()) stop();
  }

  /// @return the length of the part at the begin that was copied
  std::size_t copy(staging_transfer const& what, char const* name, source_location where);
  [[nodiscard]] unsigned threads() const noexcept { return workers_->threads() + 1; }
  [[nodiscard]] device_id device() const noexcept { return device_; }

 private:
  // By the caller alone: one chunk up to this size, and pieces above.
  static constexpr std::size_t whole_bytes = std::size_t{256} << 10U;
  static constexpr std::size_t piece_bytes = std::size_t{128} << 10U;
  static constexpr unsigned pieces_in_flight = 4;

  // Memory is registered by pages.
  static bool on_one_page(char const* begin, char const* last) noexcept {
    return (reinterpret_cast<std::uintptr_t>(begin) ^ reinterpret_cast<std::uintptr_t>(last)) <
           4096;
  }
  void stop() noexcept;
  static void check_call(staging_transfer const& what, char const* name, source_location where);
  void check_device(stream_ref stream, char const* name, source_location where) const;
  std::size_t copy_by_cuda(staging_transfer const& what, bool wait, source_location where);
  std::size_t copy_in_chunks(staging_transfer const& what, std::size_t bytes,
                             source_location where);

  pinned_core& pool_;
  staging_settings options_;
  device_id device_;
  bool reads_late_ = false;  // CUDA may read pageable memory after a copy from it has returned
  // The id of a stream that was of the device; ids are not reused.
  mutable atomic<std::uint64_t> known_stream_{~std::uint64_t{0}};
  process_bound<staging_slots> slots_;
  process_bound<staging_workers> workers_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/staging/staging_core_definitions.hpp>
#endif
