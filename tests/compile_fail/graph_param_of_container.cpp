// expect: a graph_param is copied to the device byte by byte
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A vector's bytes are pointers to host memory.
#include <vector>
#include <warpwright/graph/graph_param.hpp>

void make(warpwright::stream_ref s) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::graph_param<float> const rate{s, 0.1F};
#else
  warpwright::graph_param<std::vector<float>> const rates{s, {0.1F}};
#endif
}
