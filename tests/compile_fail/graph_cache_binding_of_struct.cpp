// expect: warpwright: graph_cache::run compares its arguments on each call, and cannot compare one
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/graph/graph_cache.hpp>

struct scale {
  float factor;
  int count;
};

void run(warpwright::graph_cache& cache, warpwright::stream_ref stream, scale const& s) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  cache.run(
      stream, {1}, [](warpwright::stream_ref, float, int) {}, s.factor, s.count);
#else
  cache.run(
      stream, {1}, [](warpwright::stream_ref, scale const&) {}, s);
#endif
}
