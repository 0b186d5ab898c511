// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/detail/cache/cache_settings.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// The options of a graph_cache: a value, each setter of which returns a changed copy.
class graph_cache_options
    : public detail::options_base<graph_cache_options, detail::cache_settings> {
 public:
  /// @param count  keys that have executable graphs; the least recently used one loses them first.
  ///   At least 1
  constexpr self max_entries(std::size_t count) const { return with(&values::max_entries, count); }
  /// @param bytes  memory of all executable graphs, as bytes_per_node() estimates it. The key that
  ///   is in use keeps its graphs even if they need more
  constexpr self max_bytes(std::size_t bytes) const { return with(&values::max_bytes, bytes); }
  /// @param bytes  device memory of a node of an executable graph. CUDA does not report it; the
  ///   default was measured on an H100. max_pool_bytes() limits the pools' memory
  constexpr self bytes_per_node(std::size_t bytes) const {
    return with(&values::bytes_per_node, bytes);
  }
  /// @param bytes  memory of memory_pools that belongs to the graphs of all keys: what their steps
  ///   allocate stays theirs until they are destroyed. The key that is in use keeps its graphs even
  ///   if they need more. Default: unlimited
  constexpr self max_pool_bytes(std::size_t bytes) const {
    return with(&values::max_pool_bytes, bytes);
  }
  /// @param count  keys that the cache admits in its lifetime (until clear()); calls with further
  ///   ones run eagerly
  constexpr self max_shapes(std::size_t count) const { return with(&values::max_shapes, count); }
  /// @param count  executable graphs of a key, for bindings that alternate. At least 1. What the
  ///   step allocates from a memory_pool is held once for each of them
  constexpr self variants(unsigned count) const { return with(&values::variants, count); }
  /// @param count  executable graphs of the same bindings, for streams that launch them at once:
  ///   launches of one executable graph do not overlap. At least 1
  constexpr self replicas(unsigned count) const { return with(&values::replicas, count); }
  /// @param calls  the first calls of a key that run eagerly: work that initialises itself at its
  ///   first use (libraries' workspaces) cannot be captured then
  constexpr self warmups(unsigned calls) const { return with(&values::warmups, calls); }
  /// @param rebuilds  instantiations without as many clean replays between them after which a key
  ///   runs eagerly for a while: 64 calls, then twice as many each time. At least 1
  constexpr self thrash_limit(unsigned rebuilds) const {
    return with(&values::thrash_limit, rebuilds);
  }
  /// @param on  whether a key runs eagerly where that is measured to be faster by 3 %; otherwise it
  ///   always runs from its graph. Measuring runs 6 to 30 calls of a key eagerly behind its
  ///   warm-ups, few where one way is clearly faster or a long step takes the same time either way,
  ///   and as many again after 256 calls, then 512, up to 4,096. Turn it off for keys with few
  ///   calls whose graph is known to be faster
  constexpr self cost_gate(bool on) const { return with(&values::cost_gate, on); }
  /// @param on  whether a step that cannot be captured, or whose graph cannot be instantiated, runs
  ///   eagerly; otherwise run() throws
  constexpr self eager_fallback(bool on) const { return with(&values::eager_fallback, on); }
  /// @param replays  for debugging: every so many replays of an executable graph, the step is
  ///   captured again, twice, and run() throws a graph_mismatch if the graph would be another one,
  ///   as compare_graphs() says (bodies of conditional nodes are not compared); 0: never. Each call
  ///   is then slower. Padding of structures that
  ///   other code passes to kernels is no difference where the step left on the stack what the
  ///   cache had written there
  constexpr self verify_every(std::uint64_t replays) const {
    return with(&values::verify_every, replays);
  }
  /// @param mode  which threads' illegal calls invalidate a capture
  constexpr self mode(capture_mode mode) const { return with(&values::mode, mode); }
  /// @param time  the host's time of a call; for tests
  constexpr self clock(detail::clock_ref time) const { return with(&values::clock, time); }

  [[nodiscard]] constexpr std::size_t max_entries() const { return values_.max_entries; }
  [[nodiscard]] constexpr std::size_t max_bytes() const { return values_.max_bytes; }
  [[nodiscard]] constexpr std::size_t max_pool_bytes() const { return values_.max_pool_bytes; }
  [[nodiscard]] constexpr std::size_t bytes_per_node() const { return values_.bytes_per_node; }
  [[nodiscard]] constexpr std::size_t max_shapes() const { return values_.max_shapes; }
  [[nodiscard]] constexpr unsigned variants() const { return values_.variants; }
  [[nodiscard]] constexpr unsigned replicas() const { return values_.replicas; }
  [[nodiscard]] constexpr unsigned warmups() const { return values_.warmups; }
  [[nodiscard]] constexpr unsigned thrash_limit() const { return values_.thrash_limit; }
  [[nodiscard]] constexpr bool cost_gate() const { return values_.cost_gate; }
  [[nodiscard]] constexpr bool eager_fallback() const { return values_.eager_fallback; }
  [[nodiscard]] constexpr std::uint64_t verify_every() const { return values_.verify_every; }
  [[nodiscard]] constexpr capture_mode mode() const { return values_.mode; }
  [[nodiscard]] constexpr detail::clock_ref clock() const { return values_.clock; }

  /// @return the options
  /// @throws std::invalid_argument  for an option that is 0 and must not be
  graph_cache_options const& check(source_location where) const {
    at_least_one(values_.max_entries, "max_entries", where);
    at_least_one(values_.variants, "variants", where);
    at_least_one(values_.replicas, "replicas", where);
    at_least_one(values_.thrash_limit, "thrash_limit", where);
    return *this;
  }

 private:
  static void at_least_one(std::size_t value, char const* name, source_location where) {
    if (value == 0) {
      detail::throw_invalid_argument(
          detail::text{"graph_cache_options::"} + name + ": 0 is not allowed: use at least 1",
          where);
    }
  }
};

WARPWRIGHT_END
