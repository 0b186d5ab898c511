// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Construction and destruction of a memory_pool. Included by pool.hpp.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

inline memory_pool::memory_pool(device_id device, memory_pool_options const& options,
                                source_location where)
    : device_{device}, options_{options}, entries_(heap::first_stream_list) {
  if (!(options.maximum_fraction_ > 0.0 && options.maximum_fraction_ <= 1.0)) {
    detail::throw_invalid_argument(detail::text{"memory_pool: maximum_fraction is "} +
                                       options.maximum_fraction_ +
                                       "; give a part of the device's memory in (0, 1]",
                                   where);
  }
  if (!(options.growth_factor_ >= 0.0 && options.growth_factor_ <= 16.0)) {
    detail::throw_invalid_argument(detail::text{"memory_pool: growth_factor is "} +
                                       options.growth_factor_ + "; give a number from 0 to 16",
                                   where);
  }
  slow_path_scope const section{*this, where};
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo", where);
  driver_.find();
  context_ = driver_.current_context();
  limit_bytes_ = options.maximum_bytes_;
  if (options.maximum_fraction_ < 1.0) {
    auto const part =
        static_cast<std::size_t>(static_cast<double>(total_bytes) * options.maximum_fraction_);
    if (part < limit_bytes_) limit_bytes_ = part;
  }
  capacity_bytes_ = limit_bytes_ < total_bytes ? limit_bytes_ : total_bytes;
  if (options.checked_) recent_frees_.resize(256);
  std::uint64_t initial = 0;
  if (!heap::round_up(options.initial_bytes_, heap::granule_bytes, initial) ||
      initial > limit_bytes_) {
    throw_out_of_memory(options.initial_bytes_, where);
  }
  first_address_ = 1;  // without an address range: every address but null
  address_span_ = ~std::uint64_t{0} - 1;
  bool const from_range = reserve_range();
  if (from_range) {
    source_ = memory_source::virtual_memory;
  } else if (options.source_ == memory_source::virtual_memory) {
    detail::throw_invalid_argument(
        "memory_pool: memory_source::virtual_memory is not supported by this device or driver; use "
        "memory_source::automatic or cuda_malloc",
        where);
  } else if (options.source_ == memory_source::cuda_malloc_async) {
    source_ = memory_source::cuda_malloc_async;
    check(cudaStreamCreateWithFlags(&upstream_stream_.handle, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags", where);
  }
  update_slow_path_reasons();
  biased_guard lock{heap_lock_};
  if (initial != 0) {
    if (from_range) {
      // Only whole granules fit below a limit that is not a multiple of a granule.
      std::uint64_t const most = limit_bytes_ & ~(range_.granule_bytes() - 1);
      if (initial > most) initial = most;
      static_cast<void>(map_and_allocate(
          lock, heap::ready, allocation_request{0, 0, heap::granule_bytes}, initial, where));
    } else {
      add_segment(lock, initial, where);
    }
    if (heap_.empty(heap::ready)) {
      lock.unlock();
      throw_out_of_memory(options.initial_bytes_, where);
    }
  }
}

inline memory_pool::~memory_pool() {
  if (options_.destruction_ != nullptr)
    options_.destruction_(options_.destruction_user_, statistics());
  detail::relaxed_capture_mode const relaxed;
  int before = -1;
  cudaError_t const result = cudaGetDevice(&before);
  detail::discard(result);
  bool const other_device = result == cudaSuccess && before != device_.value();
  if (other_device) detail::discard(cudaSetDevice(device_.value()));
  if (source_ != memory_source::cuda_malloc) {
    // Unmapping and cudaFreeAsync wait for nothing. cudaFree waits for running work, and unlike
    // cudaDeviceSynchronize it does not invalidate captures.
    void* barrier = nullptr;
    if (reserved_bytes_ != 0) {
      cudaError_t const allocated = cudaMalloc(&barrier, 1);
      detail::discard(allocated);
      // On a full device even this allocation fails. An invalidated capture is better than
      // unmapping memory in use.
      detail::discard(allocated == cudaSuccess ? cudaFree(barrier) : cudaDeviceSynchronize());
    }
  }
  if (range_.reserved()) {
    range_.reset();
  } else {
    for (heap::segment const& s : heap_.segments()) {
      if (s.bytes != 0) detail::discard(free_upstream(pointer_to(s.address)));
    }
  }
  if (upstream_stream_.handle != nullptr) {
    detail::discard(cudaStreamSynchronize(upstream_stream_.handle));
  }
  for (auto const& cache : shards_) delete cache.load(detail::memory_order::relaxed);
  for (detail::graph_memory const& g : graphs_) {
    if (g.lifetime != nullptr) detail::graph_lifetime::release(g.lifetime);
  }
  for (detail::pending_free const& p : pending_frees_) detail::discard(cudaEventDestroy(p.event));
  for (stream_entry const& entry : entries_) {
    for (detail::closed_epoch const& c : entry.closed) detail::discard(cudaEventDestroy(c.event));
  }
  for (cudaEvent_t event : spare_events_) detail::discard(cudaEventDestroy(event));
  if (other_device) detail::discard(cudaSetDevice(before));
  // Lets calls after the destruction throw, as long as the object's memory is not reused.
  slow_path_reasons_.store(destroyed, detail::memory_order::seq_cst);
}

WARPWRIGHT_END
