// expect: warpwright::prefetcher<T> calls source(T* to, std::size_t index), which returns
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/stream/prefetch.hpp>

void run(warpwright::memory_pool& pool, warpwright::pinned_pool& pinned) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::prefetcher<float> const batches{pool, pinned, 8,
                                              [](float*, std::size_t) -> std::size_t { return 0; }};
#else
  warpwright::prefetcher<float> const batches{pool, pinned, 8, [](float*, std::size_t) {}};
#endif
}
