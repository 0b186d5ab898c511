// expect: warpwright::result_collector<T> calls sink(T const* from, std::size_t size,
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/stream/collect.hpp>

void run(warpwright::memory_pool& pool, warpwright::pinned_pool& pinned) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::result_collector<float> const results{pool, pinned, 8,
                                                    [](float const*, std::size_t, std::size_t) {}};
#else
  warpwright::result_collector<float> const results{pool, pinned, 8,
                                                    [](float const*, std::size_t) {}};
#endif
}
