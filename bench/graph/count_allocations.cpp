// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An operator new that counts. In a file of its own, as nvcc would compile it for the device, too.
#include "graph/count_allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t allocations = 0;

}  // namespace

namespace graph_bench {

std::uint64_t allocations_of_this_thread() noexcept { return allocations; }

}  // namespace graph_bench

void* operator new(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}
// Not inlined: GCC 12 would see std::free() for what it knows to come from operator new.
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
