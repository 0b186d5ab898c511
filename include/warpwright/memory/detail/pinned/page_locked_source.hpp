// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/memory/detail/pinned/pinned_settings.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The memory that this process can use without being ended for it: the least of what the system
/// has and what the limits of its control groups (cgroups, as of a container) leave. What is not
/// known is no limit.
std::uint64_t available_memory(file_operations const& files) noexcept;

/// A part of the memory of a pinned_pool, and how it is returned to the system.
struct host_segment {
  enum class kind : unsigned char { none, registered, cuda, pageable };

  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  kind from = kind::none;
};

/// Obtains page-locked memory from the system, and returns it.
///
/// Pages of this process, which several threads fault in and cudaHostRegister locks: for 1 GiB that
/// took 49 ms where cudaHostAlloc took 733 (H100, 16 processors). What the system refuses in this
/// way is requested from cudaHostAlloc.
/// **Threads:** one at a time.
class page_locked_source {
 public:
  static constexpr unsigned most_threads = 8;
  static constexpr std::uint64_t bytes_per_thread = std::uint64_t{4} << 20U;

  /// @param files  must outlive the source
  explicit page_locked_source(pinned_settings const& options,
                              file_operations const& files = stdio_operations) noexcept
      : options_{options}, files_{&files} {}

  /// Checks the options that the system, or a device, can refuse.
  /// @throws std::invalid_argument, cuda_error
  void check_options(source_location where) const;

  /// @param bytes  a multiple of 256
  /// @return kind::none when the system page-locks no more, and pageable_fallback() is off or does
  ///   not help
  /// @throws cuda_error  for another error of cudaHostAlloc
  host_segment acquire(std::uint64_t bytes, source_location where) const;
  /// @return of the CUDA call: on an error the segment is unchanged
  static cudaError_t release(host_segment const& segment) noexcept;
  /// The name of the call that release() makes.
  static char const* release_api(host_segment const& segment) noexcept;

 private:
  [[nodiscard]] void* map_pages(std::uint64_t bytes) const noexcept;
  [[nodiscard]] bool bind_to_node(void* pages, std::uint64_t bytes, int& error) const noexcept;
  [[nodiscard]] bool fault_in(void* pages, std::uint64_t bytes) const noexcept;
  [[nodiscard]] cudaError_t acquire_registered(host_segment& segment) const noexcept;

  pinned_settings options_;
  file_operations const* files_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pinned/page_locked_source_definitions.hpp>
#endif
