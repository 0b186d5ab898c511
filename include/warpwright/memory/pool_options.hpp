// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/memory/detail/pool/pool_settings.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Options of a memory_pool. Every setter returns a changed copy:
/// memory_pool_options{}.maximum_bytes(n).checked().
class [[nodiscard]] memory_pool_options
    : public detail::options_base<memory_pool_options, detail::pool_settings> {
 public:
  /// Called at most once an allocation, before it fails. Return true to make the pool try again
  /// after freeing or trimming memory. It must not allocate from the pool: that may call it again,
  /// without end. The pool holds no lock during the call. An exception from the callback leaves
  /// allocate().
  using exhausted_callback = bool (*)(void* user, memory_report const& report);
  /// Called by the pool's destructor; live_blocks above 0 are leaks.
  using destruction_callback = void (*)(void* user, pool_statistics const& last) noexcept;

  static constexpr std::size_t unlimited = values::unlimited;
  static constexpr std::size_t by_source = values::by_source;

  /// The maximum of reserved memory. Virtual memory is mapped in granules of about 2 MiB; with a
  /// limit below one granule, memory_source::automatic uses cudaMalloc.
  /// @param n  default: unlimited
  constexpr self maximum_bytes(std::size_t n) const { return with(&values::maximum_bytes, n); }
  /// The maximum of reserved memory as a fraction of the device's total memory. Holds in addition
  /// to maximum_bytes().
  /// @param n  in (0, 1]
  constexpr self maximum_fraction(double n) const { return with(&values::maximum_fraction, n); }
  /// Memory to reserve at construction.
  /// @param n  default: 0
  constexpr self initial_bytes(std::size_t n) const { return with(&values::initial_bytes, n); }
  /// Where the pool's memory comes from.
  /// @param source  default: automatic
  constexpr self source(memory_source source) const { return with(&values::source, source); }
  /// The minimum to request from CUDA at a time.
  /// @param n  default: by_source: 64 MiB from cudaMalloc and cudaMallocAsync; of virtual
  ///   memory a quarter of the slack(). 0: only what the request needs
  constexpr self growth_bytes(std::size_t n) const { return with(&values::growth_bytes, n); }
  /// Grows by at least this fraction of the memory reserved already, so that a large pool consists
  /// of few segments.
  /// @param factor  0 to 16; default: 0; 1 doubles the pool each time
  constexpr self growth_factor(double factor) const { return with(&values::growth_factor, factor); }
  /// How much more than the peak of live memory may be reserved, with virtual memory, before the
  /// pool moves idle memory instead of requesting more. It grows by a quarter of the slack at a
  /// time, so a large floor is reserved early. Moving takes about 0.1 ms each time; slack lets a
  /// program that repeats its sizes reach a state in which nothing is moved. Ends at the maximum of
  /// reserved memory. A request that no idle memory can serve grows the pool further.
  /// @param fraction     of the peak: 0 to 16; default: 0.08
  /// @param floor_bytes  the least slack, as long as no graph holds memory; default: 16 MiB
  constexpr self slack(double fraction, std::size_t floor_bytes) const {
    return with(&values::slack, fraction).with(&values::slack_floor_bytes, floor_bytes);
  }
  /// No slack: reserved memory stays within about 3 % of the peak of live memory, and more misses
  /// move memory.
  constexpr self compact() const { return slack(0.0, 0); }
  /// Whether a miss grows the pool or waits for another stream first.
  /// @param order  default: grow_before_wait
  constexpr self order(reuse_order order) const { return with(&values::order, order); }
  /// The maximum of free bytes in each stream's cache, where other streams cannot use them until
  /// memory is short. The cache may hold one larger block in addition.
  /// @param bytes  default: 16 MiB; 0: no caches
  constexpr self cache_bytes(std::size_t bytes) const { return with(&values::cache_bytes, bytes); }
  /// Checks at every call whether its stream is capturing, as during the lifetime of a
  /// capture_watch. For captures that other libraries begin.
  /// **Cost:** one CUDA call a call.
  constexpr self detect_captures(bool on = true) const {
    return with(&values::detect_captures, on);
  }
  /// The maximum time that a request waits on the host for streams to complete their frees before
  /// more than the live peak and the slack() is reserved: the wait happens once, but the pool stays
  /// larger. Within the slack no request waits.
  /// @param n  default: 2000; 0: the pool grows at once, beyond its slack
  constexpr self maximum_wait_us(unsigned n) const { return with(&values::maximum_wait_us, n); }
  /// Checks every call for misuse and records the source location of every allocation for error
  /// messages.
  /// **Cost:** two or three CUDA calls a call; no caches.
  constexpr self checked(bool on = true) const { return with(&values::checked, on); }
  /// @param callback  see exhausted_callback; null: none
  constexpr self on_exhausted(exhausted_callback callback, void* user = nullptr) const {
    return with(&values::exhausted, callback).with(&values::exhausted_user, user);
  }
  /// @param callback  see destruction_callback; null: none
  constexpr self on_destruction(destruction_callback callback, void* user = nullptr) const {
    return with(&values::destruction, callback).with(&values::destruction_user, user);
  }
};

WARPWRIGHT_END
