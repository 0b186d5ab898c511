// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/graph/capture.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// The options of a graph_cache: a value, each setter of which returns a changed copy.
class graph_cache_options {
 public:
  /// @param count  keys that have executable graphs; the least recently used one loses them first.
  ///   At least 1
  [[nodiscard]] constexpr graph_cache_options max_entries(std::size_t count) const {
    return with(&graph_cache_options::max_entries_, count);
  }
  /// @param bytes  memory of all executable graphs, as bytes_per_node() estimates it. The key that
  ///   is in use keeps its graphs even if they need more
  [[nodiscard]] constexpr graph_cache_options max_bytes(std::size_t bytes) const {
    return with(&graph_cache_options::max_bytes_, bytes);
  }
  /// @param bytes  device memory of a node of an executable graph. CUDA does not report it; the
  ///   default was measured on an H100. max_pool_bytes() limits the pools' memory
  [[nodiscard]] constexpr graph_cache_options bytes_per_node(std::size_t bytes) const {
    return with(&graph_cache_options::bytes_per_node_, bytes);
  }
  /// @param bytes  memory of memory_pools that belongs to the graphs of all keys: what their steps
  ///   allocate stays theirs until they are destroyed. The key that is in use keeps its graphs even
  ///   if they need more. Default: unlimited
  [[nodiscard]] constexpr graph_cache_options max_pool_bytes(std::size_t bytes) const {
    return with(&graph_cache_options::max_pool_bytes_, bytes);
  }
  /// @param count  keys that the cache admits in its lifetime (until clear()); calls with further
  ///   ones run eagerly
  [[nodiscard]] constexpr graph_cache_options max_shapes(std::size_t count) const {
    return with(&graph_cache_options::max_shapes_, count);
  }
  /// @param count  executable graphs of a key, for bindings that alternate. At least 1. What the
  ///   step allocates from a memory_pool is held once for each of them
  [[nodiscard]] constexpr graph_cache_options variants(unsigned count) const {
    return with(&graph_cache_options::variants_, count);
  }
  /// @param count  executable graphs of the same bindings, for streams that launch them at once:
  ///   launches of one executable graph do not overlap. At least 1
  [[nodiscard]] constexpr graph_cache_options replicas(unsigned count) const {
    return with(&graph_cache_options::replicas_, count);
  }
  /// @param calls  the first calls of a key that run eagerly: work that initialises itself at its
  ///   first use (libraries' workspaces) cannot be captured then
  [[nodiscard]] constexpr graph_cache_options warmups(unsigned calls) const {
    return with(&graph_cache_options::warmups_, calls);
  }
  /// @param rebuilds  instantiations without as many clean replays between them after which a key
  ///   runs eagerly for a while: 64 calls, then twice as many each time. At least 1
  [[nodiscard]] constexpr graph_cache_options thrash_limit(unsigned rebuilds) const {
    return with(&graph_cache_options::thrash_limit_, rebuilds);
  }
  /// @param on  whether a key runs eagerly where that is measured to be faster by 3 %; otherwise it
  ///   always runs from its graph. Measuring runs 6 to 30 calls of a key eagerly behind its
  ///   warm-ups, few where one way is clearly faster or a long step takes the same time either way,
  ///   and as many again after 256 calls, then 512, up to 4,096. Turn it off for keys with few
  ///   calls whose graph is known to be faster
  [[nodiscard]] constexpr graph_cache_options cost_gate(bool on) const {
    return with(&graph_cache_options::cost_gate_, on);
  }
  /// @param on  whether a step that cannot be captured, or whose graph cannot be instantiated, runs
  ///   eagerly; otherwise run() throws
  [[nodiscard]] constexpr graph_cache_options eager_fallback(bool on) const {
    return with(&graph_cache_options::eager_fallback_, on);
  }
  /// @param replays  for debugging: every so many replays of an executable graph, the step is
  ///   captured again, twice, and run() throws a graph_mismatch if the graph would be another one,
  ///   as compare_graphs() says; 0: never. Each call is then slower. Padding of structures that
  ///   other code passes to kernels is no difference where the step left on the stack what the
  ///   cache had written there
  [[nodiscard]] constexpr graph_cache_options verify_every(std::uint64_t replays) const {
    return with(&graph_cache_options::verify_every_, replays);
  }
  /// @param mode  which threads' illegal calls invalidate a capture
  [[nodiscard]] constexpr graph_cache_options mode(capture_mode mode) const {
    return with(&graph_cache_options::mode_, mode);
  }
  /// @param time  the host's time of a call; for tests
  [[nodiscard]] constexpr graph_cache_options clock(detail::clock_ref time) const {
    return with(&graph_cache_options::clock_, time);
  }

  [[nodiscard]] constexpr std::size_t max_entries() const { return max_entries_; }
  [[nodiscard]] constexpr std::size_t max_bytes() const { return max_bytes_; }
  [[nodiscard]] constexpr std::size_t max_pool_bytes() const { return max_pool_bytes_; }
  [[nodiscard]] constexpr std::size_t bytes_per_node() const { return bytes_per_node_; }
  [[nodiscard]] constexpr std::size_t max_shapes() const { return max_shapes_; }
  [[nodiscard]] constexpr unsigned variants() const { return variants_; }
  [[nodiscard]] constexpr unsigned replicas() const { return replicas_; }
  [[nodiscard]] constexpr unsigned warmups() const { return warmups_; }
  [[nodiscard]] constexpr unsigned thrash_limit() const { return thrash_limit_; }
  [[nodiscard]] constexpr bool cost_gate() const { return cost_gate_; }
  [[nodiscard]] constexpr bool eager_fallback() const { return eager_fallback_; }
  [[nodiscard]] constexpr std::uint64_t verify_every() const { return verify_every_; }
  [[nodiscard]] constexpr capture_mode mode() const { return mode_; }
  [[nodiscard]] constexpr detail::clock_ref clock() const { return clock_; }

  /// @throws std::invalid_argument  for an option that is 0 and must not be
  void check(source_location where) const {
    at_least_one(max_entries_, "max_entries", where);
    at_least_one(variants_, "variants", where);
    at_least_one(replicas_, "replicas", where);
    at_least_one(thrash_limit_, "thrash_limit", where);
  }

 private:
  template <class T>
  constexpr graph_cache_options with(T graph_cache_options::*member, T value) const {
    graph_cache_options copy{*this};
    copy.*member = value;
    return copy;
  }
  static void at_least_one(std::size_t value, char const* name, source_location where) {
    if (value == 0) {
      detail::throw_invalid_argument(
          detail::text{"graph_cache_options::"} + name + ": 0 is not allowed: use at least 1",
          where);
    }
  }

  std::size_t max_entries_ = 256;
  std::size_t max_bytes_ = std::size_t{256} << 20;
  std::size_t max_pool_bytes_ = ~std::size_t{0};
  std::size_t bytes_per_node_ = 3600;
  std::size_t max_shapes_ = 4096;
  std::uint64_t verify_every_ = 0;
  unsigned variants_ = 2;
  unsigned replicas_ = 1;
  unsigned warmups_ = 2;
  unsigned thrash_limit_ = 4;
  bool cost_gate_ = true;
  bool eager_fallback_ = true;
  capture_mode mode_ = capture_mode::thread;
  detail::clock_ref clock_{};
};

WARPWRIGHT_END
