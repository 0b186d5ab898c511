// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes host memory run out for the library's arrays, which grow by realloc. For one source file a
// program, linked with --wrap=realloc.
#pragma once

#include <cstddef>

namespace test_support {

/// The number of calls of realloc that will still succeed; below 0: all.
inline int reallocations_left = -1;

}  // namespace test_support

// The linker sends this program's calls of realloc here.
extern "C" {
void* __real_realloc(void* pointer, std::size_t bytes);
void* __wrap_realloc(void* pointer, std::size_t bytes);
void* __wrap_realloc(void* pointer, std::size_t bytes) {
  int& left = test_support::reallocations_left;
  if (left == 0) return nullptr;
  if (left > 0) --left;
  return __real_realloc(pointer, bytes);
}
}
