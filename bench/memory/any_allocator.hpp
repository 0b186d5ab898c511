// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The interface of the allocators that benchmarks put the same calls to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocators.hpp"  // of tools/warpwright_replay

namespace bench_support {

/// Any allocator, with streams by index.
class any_allocator {
 public:
  any_allocator() = default;
  any_allocator(any_allocator const&) = delete;
  any_allocator& operator=(any_allocator const&) = delete;
  virtual ~any_allocator() = default;
  /// @return null when out of memory
  virtual void* allocate(std::uint32_t stream, std::size_t bytes) = 0;
  /// @param owner  the stream that the block was allocated on
  virtual void deallocate(std::uint32_t stream, std::uint32_t owner, void* pointer,
                          std::size_t bytes) = 0;
  [[nodiscard]] virtual replay::allocator_counters counters() const = 0;
};

/// Allocates nothing: its time is that of the loop around the calls.
class no_allocator final : public any_allocator {
 public:
  void* allocate(std::uint32_t, std::size_t bytes) override {
    keep(bytes);
    return this;
  }
  void deallocate(std::uint32_t, std::uint32_t, void* pointer, std::size_t) override {
    keep(pointer);
  }
  [[nodiscard]] replay::allocator_counters counters() const override { return {}; }

 private:
  // Google Benchmark's DoNotOptimize, of which torch_replay.cpp knows nothing.
  template <class T>
  static void keep(T const& value) {
    asm volatile("" : : "r,m"(value) : "memory");
  }
};

}  // namespace bench_support
