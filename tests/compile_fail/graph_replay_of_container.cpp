// expect: compares its arguments by their bytes
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A container's bytes do not tell whether its elements changed.
#include <warpwright/graph/graph_replay.hpp>

#include <vector>

void step(warpwright::graph_replay& replay, warpwright::stream_ref s, std::vector<float>& x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  replay.run(
      s, [](warpwright::stream_ref, float*) {}, x.data());
#else
  replay.run(
      s, [](warpwright::stream_ref, std::vector<float> const&) {}, x);
#endif
}
