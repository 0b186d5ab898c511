// expect: warpwright: graph_cache::run would compare a std::ref by its address
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/graph/graph_cache.hpp>

#include <functional>

void run(warpwright::graph_cache& cache, warpwright::stream_ref stream, int& count) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  cache.run(
      stream, {1}, [](warpwright::stream_ref, int) {}, count);
#else
  cache.run(
      stream, {1}, [](warpwright::stream_ref, int&) {}, std::ref(count));
#endif
}
