// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/memory/detail/pinned/pinned_settings.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Options of a pinned_pool. Every setter returns a changed copy.
class [[nodiscard]] pinned_pool_options
    : public detail::options_base<pinned_pool_options, detail::pinned_settings> {
 public:
  static constexpr std::size_t unlimited = values::unlimited;
  static constexpr int any_numa_node = values::any_numa_node;

  /// The maximum of page-locked memory.
  /// @param n  default: unlimited
  constexpr self maximum_bytes(std::size_t n) const { return with(&values::maximum_bytes, n); }
  /// Memory to page-lock at construction.
  /// @param n  default: 0
  constexpr self initial_bytes(std::size_t n) const { return with(&values::initial_bytes, n); }
  /// The minimum to page-lock at a time. A large pool grows by an eighth of its size, at most 1
  /// GiB, so that it has few segments.
  /// @param n  default: 32 MiB
  constexpr self growth_bytes(std::size_t n) const { return with(&values::growth_bytes, n); }
  /// Takes the memory from one NUMA node: that of the GPU, for copies at the full speed of its
  /// link. Refused in a container without the right to call mbind.
  /// @param node  as in /sys/devices/system/node; default: any_numa_node, as the system decides
  constexpr self numa_node(int node) const { return with(&values::numa_node, node); }
  /// Write-combined memory, which the host writes in order and a GPU reads without looking into
  /// the processor's caches. The host must not read it: its reads are not cached.
  /// @param on  default: false. It comes from cudaHostAlloc, which page-locks a GiB in most of a
  ///   second; numa_node() does not apply
  constexpr self write_combined(bool on = true) const { return with(&values::write_combined, on); }
  /// Memory that kernels of every device can use through the same pointer, over the link.
  /// @param on  default: false
  constexpr self mapped(bool on = true) const { return with(&values::mapped, on); }
  /// Memory that is not page-locked when the system page-locks no more, within maximum_bytes().
  /// Copies from and to it are slower, and a copy on a stream may wait on the host;
  /// pinned_statistics::pageable_bytes says how much there is. Not with mapped().
  /// @param on  default: false, the pool throws out_of_memory
  constexpr self pageable_fallback(bool on = true) const {
    return with(&values::pageable_fallback, on);
  }
};

WARPWRIGHT_END
