// expect: a graph_param has 1, 2 or a multiple of 4 bytes, 64 at most
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A table is better copied from page-locked memory.
#include <warpwright/graph/graph_param.hpp>

template <int N>
struct table {
  float values[N];
};

void make(warpwright::stream_ref s) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::graph_param<table<16>> const values{s, {}};
#else
  warpwright::graph_param<table<17>> const values{s, {}};
#endif
}
