// expect: warpwright: graph_cache calls f with a warpwright::capture_scope& or a
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/graph/graph_cache.hpp>

void run(warpwright::graph_cache& cache, warpwright::stream_ref stream, float* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  cache.run(
      stream, {1}, [](warpwright::stream_ref, float*) {}, x);
#else
  cache.run(
      stream, {1}, [](float*) {}, x);
#endif
}
