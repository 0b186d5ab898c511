// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The allocators that a trace is replayed on, with a common interface: streams by index; CUDA
// errors are thrown unchanged.
#pragma once

#include "best_fit.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/pool.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace replay {

/// One stream and one event for each stream index of a trace.
class stream_set {
 public:
  explicit stream_set(std::uint32_t count) {
    streams_.reserve(count);
    events_.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      streams_.push_back(ww::stream{});
      events_.push_back(ww::event{});
      refs_.push_back(streams_.back().ref());
    }
  }
  [[nodiscard]] ww::stream_ref operator[](std::uint32_t i) const { return refs_[i]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(refs_.size()); }
  /// Orders stream `later` behind the work submitted to `earlier` so far; two CUDA calls.
  /// **Threads:** one at a time for each `actor`, the stream whose event is used.
  void order(std::uint32_t later, std::uint32_t earlier, std::uint32_t actor) {
    events_[actor].record(refs_[earlier]);
    refs_[later].wait(events_[actor]);
  }
  void synchronize() const {
    for (ww::stream_ref const stream : refs_) stream.synchronize();
  }

 private:
  std::vector<ww::stream> streams_;
  std::vector<ww::event> events_;
  std::vector<ww::stream_ref> refs_;
};

/// A snapshot of an allocator's counters; sizes in bytes.
struct allocator_counters {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t largest_free_block_bytes = 0;
  bool has_largest_free_block = false;
  std::uint64_t cuda_calls = 0;  ///< as defined for each allocator
  std::string statistics;        ///< further counters, as NAME=NUMBER
};

/// ww::memory_pool. cuda_calls are those that its statistics count.
class pool_allocator {
 public:
  using options = ww::memory_pool_options;
  static constexpr char const* name = "pool";

  pool_allocator(stream_set& streams, options const& pool_options)
      : streams_{streams}, pool_{ww::current_device(), pool_options} {}
  void* allocate(std::uint32_t stream, std::uint64_t bytes) {
    return pool_.try_allocate(streams_[stream], bytes);
  }
  void deallocate(std::uint32_t stream, std::uint32_t, void* pointer, std::uint64_t bytes) {
    pool_.deallocate(streams_[stream], pointer, bytes);
  }
  [[nodiscard]] allocator_counters counters() const {
    ww::pool_statistics const s = pool_.statistics();
    allocator_counters f;
    f.reserved_bytes = s.reserved_bytes;
    f.reserved_peak_bytes = s.reserved_peak_bytes;
    f.largest_free_block_bytes = s.largest_free_block_bytes;
    f.has_largest_free_block = true;
    // With virtual memory one upstream allocation is many calls, which are counted separately.
    f.cuda_calls = s.virtual_memory_calls != 0 ? s.virtual_memory_calls
                                               : s.upstream_allocations + s.upstream_deallocations;
    f.cuda_calls += s.event_records + s.event_queries + s.stream_waits;
    auto const add = [&f](char const* what, std::uint64_t value) {
      if (!f.statistics.empty()) f.statistics += ' ';
      f.statistics += what + ("=" + std::to_string(value));
    };
    add("allocations", s.allocations);
    add("deallocations", s.deallocations);
    add("hits", s.hits);
    add("cache_hits", s.cache_hits);
    add("cross_stream_steals", s.cross_stream_steals);
    add("event_records", s.event_records);
    add("event_queries", s.event_queries);
    add("stream_waits", s.stream_waits);
    add("remaps", s.remaps);
    add("virtual_memory_calls", s.virtual_memory_calls);
    return f;
  }

 private:
  stream_set& streams_;
  ww::memory_pool pool_;
};

/// cudaMallocAsync on its own pool, which keeps its memory (maximum release threshold). One CUDA
/// call an operation, by definition.
class async_allocator {
 public:
  struct options {
    std::uint64_t max_bytes = 0;  ///< the limit of reserved memory; 0: none
  };
  static constexpr char const* name = "async";

  async_allocator(stream_set& streams, options const& limits) : streams_{streams} {
    cudaMemPoolProps properties = {};
    properties.maxSize = limits.max_bytes;
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = ww::current_device().value();
    ww::check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
    std::uint64_t maximum = ~std::uint64_t{0};
    ww::check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &maximum),
              "cudaMemPoolSetAttribute");
  }
  async_allocator(async_allocator const&) = delete;
  async_allocator& operator=(async_allocator const&) = delete;
  ~async_allocator() {
    static_cast<void>(cudaDeviceSynchronize());
    static_cast<void>(cudaMemPoolDestroy(pool_));
    static_cast<void>(cudaGetLastError());
  }
  void* allocate(std::uint32_t stream, std::uint64_t bytes) {
    if (bytes == 0) return nullptr;
    void* pointer = nullptr;
    calls_.fetch_add(1, std::memory_order_relaxed);
    cudaError_t const status =
        cudaMallocFromPoolAsync(&pointer, bytes, pool_, streams_[stream].get());
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    ww::check(status, "cudaMallocFromPoolAsync");
    return pointer;
  }
  void deallocate(std::uint32_t stream, std::uint32_t, void* pointer, std::uint64_t) {
    if (pointer == nullptr) return;
    calls_.fetch_add(1, std::memory_order_relaxed);
    ww::check(cudaFreeAsync(pointer, streams_[stream].get()), "cudaFreeAsync");
  }
  [[nodiscard]] allocator_counters counters() const {
    allocator_counters f;
    f.reserved_bytes = attribute(cudaMemPoolAttrReservedMemCurrent);
    f.reserved_peak_bytes = attribute(cudaMemPoolAttrReservedMemHigh);
    f.cuda_calls = calls_.load(std::memory_order_relaxed);
    return f;
  }

 private:
  [[nodiscard]] std::uint64_t attribute(cudaMemPoolAttr which) const {
    std::uint64_t value = 0;
    ww::check(cudaMemPoolGetAttribute(pool_, which, &value), "cudaMemPoolGetAttribute");
    return value;
  }
  stream_set& streams_;
  cudaMemPool_t pool_ = nullptr;
  std::atomic<std::uint64_t> calls_{0};
};

/// The reference, best_fit.hpp. A block freed on another stream returns to its own stream, which
/// first waits for the freeing one.
class best_fit_allocator {
 public:
  struct options {};
  static constexpr char const* name = "best_fit";

  best_fit_allocator(stream_set& streams, options const&) : streams_{streams} {}
  void* allocate(std::uint32_t stream, std::uint64_t bytes) {
    return reference_.allocate(stream, bytes);
  }
  void deallocate(std::uint32_t stream, std::uint32_t owner, void* pointer, std::uint64_t) {
    if (pointer == nullptr) return;
    if (stream != owner) {
      streams_.order(owner, stream, stream);
      orderings_.fetch_add(1, std::memory_order_relaxed);
    }
    reference_.deallocate(pointer);
  }
  [[nodiscard]] allocator_counters counters() const {
    allocator_counters f;
    f.reserved_bytes = reference_.reserved_bytes();
    f.reserved_peak_bytes = reference_.reserved_peak_bytes();
    f.largest_free_block_bytes = reference_.largest_free_block_bytes();
    f.has_largest_free_block = true;
    f.cuda_calls = reference_.calls() + 2 * orderings_.load(std::memory_order_relaxed);
    return f;
  }

 private:
  stream_set& streams_;
  std::atomic<std::uint64_t> orderings_{0};
  best_fit reference_;
};

}  // namespace replay
