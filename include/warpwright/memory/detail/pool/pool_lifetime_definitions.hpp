// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Construction and destruction of pool_core, and of the watches of its captures.
#pragma once

#include <warpwright/memory/detail/pool/pool_calls_definitions.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pool_core::check_options(pool_settings const& options,
                                                                source_location where) {
  auto const require = [where](bool valid, char const* name, double value, char const* remedy) {
    if (!valid)
      throw_invalid_argument(text{"memory_pool: "} + name + " is " + value + remedy, where);
  };
  double const fraction = options.max_fraction;
  require(fraction > 0.0 && fraction <= 1.0, "max_fraction", fraction,
          "; give a part of the device's memory in (0, 1]");
  require(options.growth_factor >= 0.0 && options.growth_factor <= 16.0, "growth_factor",
          options.growth_factor, "; give a number from 0 to 16");
  require(options.max_wait_seconds >= 0.0 && options.max_wait_seconds <= 1e6, "max_wait_seconds",
          options.max_wait_seconds, "; give seconds from 0 to 1e6");
  require(options.slack >= 0.0 && options.slack <= 16.0, "slack", options.slack,
          "; give a fraction of the live peak from 0 to 16");
}

// An entry, so that g++ does not take the function of a user's pool for seldom executed.
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE pool_core::pool_core(device_id device,
                                                             pool_settings const& options,
                                                             source_location where)
    : device_{device}, options_{options}, sites_{options.checked} {
  open(where);
}

WARPWRIGHT_INLINE void pool_core::open(source_location where) {
  pool_settings const& options = options_;
  check_options(options, where);
  slow_path const section{*this, where};
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo", where);
  heap_.driver.find();
  context_ = heap_.driver.current_context();
  limit_bytes_ = options.max_bytes;
  if (options.max_fraction < 1.0) {
    auto const part =
        static_cast<std::size_t>(static_cast<double>(total_bytes) * options.max_fraction);
    if (part < limit_bytes_) limit_bytes_ = part;
  }
  capacity_bytes_ = limit_bytes_ < total_bytes ? limit_bytes_ : total_bytes;
  std::uint64_t initial = 0;
  if (!block_heap::round_up(options.initial_bytes, block_heap::granule_bytes, initial) ||
      initial > limit_bytes_) {
    throw_out_of_memory(options.initial_bytes, where);
  }
  bool const may_map =
      options.source == memory_source::automatic || options.source == memory_source::virtual_memory;
  slack_options const slack{options.slack, options.slack_floor_bytes};
  if (may_map && mapped_.open(device_, slack, limit_bytes_, capacity_bytes_, max_alignment)) {
    source_ = memory_source::virtual_memory;
    first_address_ = mapped_.address();
    address_span_ = mapped_.bytes();
  } else if (options.source == memory_source::virtual_memory) {
    throw_invalid_argument(
        "memory_pool: memory_source::virtual_memory is not supported by this device or driver; use "
        "memory_source::automatic or cuda_malloc",
        where);
  } else if (options.source == memory_source::cuda_malloc_async) {
    source_ = memory_source::cuda_malloc_async;
    segments_.use_malloc_async(where);
  }
  update_reasons();
  if (initial == 0) return;
  heap_guard lock{heap_.lock};
  if (mapped_.is_open()) {
    // Only whole granules fit below a limit that is not a multiple of a granule.
    std::uint64_t const most = limit_bytes_ & ~(mapped_.granule_bytes() - 1);
    mapped_.map_ready(lock, initial < most ? initial : most, where);
  } else {
    static_cast<void>(segments_.add(lock, initial, where));
  }
  if (heap_.blocks.empty(block_heap::ready)) {
    lock.unlock();
    throw_out_of_memory(options.initial_bytes, where);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pool_core::watch_captures(int change) noexcept {
  {
    heap_guard const lock{heap_.lock};
    watches_ += change;
    update_reasons();
  }
  if (change < 0) return;
  // None can be recorded on a stream later, in a capture that the library does not begin.
  source_location const here = source_location::current();
  try {
    slow_path const section{*this, here};
    caches_.flush_all();
    heap_guard lock{heap_.lock};
    for (std::uint32_t list = block_heap::first_stream_list; list < streams_.end(); ++list) {
      static_cast<void>(streams_.close_epoch(lock, list, epoch_tracker::no_id, here));
    }
  } catch (...) {
    return;
  }
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE pool_core::~pool_core() {
  // Threads of the parent may have held locks that the counters need, and CUDA works there only.
  if (!process_.is_current()) return;
  if (options_.destruction != nullptr) {
    options_.destruction(options_.destruction_user, statistics());
  }
  relaxed_capture_mode const relaxed;
  device_scope const scope{device_.value()};
  if (source_ != memory_source::cuda_malloc && heap_.counters.reserved_bytes != 0) {
    // Unmapping and cudaFreeAsync wait for nothing.
    // On a full device it fails. An invalidated capture is better than unmapping memory in use.
    if (wait_for_running_work() == cudaErrorMemoryAllocation) discard(cudaDeviceSynchronize());
  }
  if (mapped_.is_open()) {
    mapped_.close();
  } else {
    segments_.close();
  }
  deferred_.close();
  streams_.close();
  events_.close();
  // Lets calls after the destruction throw, as long as the object's memory is not reused.
  reasons_.store(destroyed, memory_order::seq_cst);
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
