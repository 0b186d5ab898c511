// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pool and its peers behind one interface, for benchmarks that put the same calls to each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocators.hpp"  // of tools/warpwright_replay
#include "any_allocator.hpp"
#include "options.hpp"  // of tools/warpwright_replay

#if WARPWRIGHT_BENCH_RMM
#include "rmm_peers.hpp"
#endif

namespace bench_support {

/// No limit.
inline constexpr std::size_t unlimited = ~std::size_t{0};

/// One of those of tools/warpwright_replay.
template <class Allocator>
class held_allocator final : public any_allocator {
 public:
  held_allocator(replay::stream_set& streams, typename Allocator::options const& options)
      : of_{streams, options} {}
  void* allocate(std::uint32_t stream, std::size_t bytes) override {
    return of_.allocate(stream, bytes);
  }
  void deallocate(std::uint32_t stream, std::uint32_t owner, void* pointer,
                  std::size_t bytes) override {
    of_.deallocate(stream, owner, pointer, bytes);
  }
  [[nodiscard]] replay::allocator_counters counters() const override { return of_.counters(); }

 private:
  Allocator of_;
};

#if WARPWRIGHT_BENCH_RMM
/// One of RMM's resources. Its CUDA calls are not counted.
class rmm_allocator final : public any_allocator {
 public:
  rmm_allocator(replay::stream_set& streams, rmm_peers::kind which, std::size_t initial_bytes,
                std::size_t max_bytes)
      : of_{rmm_peers::make(which, initial_bytes, max_bytes)} {
    for (std::uint32_t i = 0; i < streams.size(); ++i) streams_.push_back(streams[i].get());
  }
  void* allocate(std::uint32_t stream, std::size_t bytes) override {
    return of_->allocate(streams_[stream], bytes);
  }
  void deallocate(std::uint32_t stream, std::uint32_t, void* pointer, std::size_t bytes) override {
    of_->deallocate(streams_[stream], pointer, bytes);
  }
  [[nodiscard]] replay::allocator_counters counters() const override {
    replay::allocator_counters f;
    f.reserved_bytes = of_->reserved_bytes();
    f.reserved_peak_bytes = of_->reserved_peak_bytes();
    return f;
  }

 private:
  std::vector<cudaStream_t> streams_;
  std::unique_ptr<rmm_peers::resource> of_;
};
#endif

/// An allocator with its options.
struct allocator_kind {
  std::string name;  ///< in a benchmark's name
  /// @param max_bytes  the limit of reserved memory, or unlimited
  std::function<std::unique_ptr<any_allocator>(replay::stream_set&, std::size_t max_bytes)> make;
  bool takes_limit = true;   ///< whether max_bytes has an effect
  bool slack_only = false;   ///< the pool with other slack, which a limit overrides
  bool needs_limit = false;  ///< whether it reserves all of max_bytes at once
  /// The least limit that leaves memory beyond what it preallocates.
  std::size_t least_limit_bytes = 0;
};

/// The pool with its default options and with others, and all peers that were built in.
inline std::vector<allocator_kind> const& allocator_kinds() {
  static std::vector<allocator_kind> const kinds = [] {
    std::vector<allocator_kind> all;
    auto const add_pool = [&](std::string const& name,
                              warpwright::memory_pool_options const& options) {
      all.push_back({name, [options](replay::stream_set& streams, std::size_t max_bytes) {
                       return std::make_unique<held_allocator<replay::pool_allocator>>(
                           streams,
                           max_bytes == unlimited ? options : options.max_bytes(max_bytes));
                     }});
    };
    constexpr std::size_t floor_bytes = std::size_t{16} << 20U;
    warpwright::memory_pool_options const own = replay::default_pool_options();
    add_pool("warpwright", own);
    add_pool("warpwright_compact", own.compact());
    add_pool("warpwright_slack_3", own.slack(0.03, floor_bytes));
    all.back().slack_only = true;
    add_pool("warpwright_slack_15", own.slack(0.15, floor_bytes));
    all.back().slack_only = true;
    add_pool("warpwright_slack_30", own.slack(0.30, floor_bytes));
    all.back().slack_only = true;
    all.push_back({"cuda_malloc_async", [](replay::stream_set& streams, std::size_t max_bytes) {
                     replay::async_allocator::options options;
                     if (max_bytes != unlimited) options.max_bytes = max_bytes;
                     return std::make_unique<held_allocator<replay::async_allocator>>(streams,
                                                                                      options);
                   }});
#if WARPWRIGHT_BENCH_RMM
    // Without a limit a pool begins with 1 MiB; under a limit it has all of it from the start, in
    // one piece, which is the most that it can do with it.
    auto const add_rmm = [&](std::string const& name, rmm_peers::kind which) {
      all.push_back({name, [which](replay::stream_set& streams, std::size_t max_bytes) {
                       std::size_t const initial_bytes =
                           max_bytes == unlimited ? std::size_t{1} << 20U : max_bytes;
                       return std::make_unique<rmm_allocator>(streams, which, initial_bytes,
                                                              max_bytes);
                     }});
    };
    add_rmm("rmm_pool", rmm_peers::kind::pool);
    add_rmm("rmm_binning", rmm_peers::kind::binning);
    all.back().least_limit_bytes = std::size_t{1280} << 20U;
    add_rmm("rmm_arena", rmm_peers::kind::arena);
    all.back().needs_limit = true;
    add_rmm("rmm_cuda_async", rmm_peers::kind::cuda_async);
    all.back().takes_limit = false;
#endif
    return all;
  }();
  return kinds;
}

}  // namespace bench_support
