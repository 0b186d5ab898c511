// expect: the expression reads a view: include <warpwright/kernel/views.hpp>
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The node of a view alone does not bring the kernels of views.
#include <warpwright/kernel/detail/views/view_node.hpp>
#include <warpwright/kernel/evaluate.hpp>
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
#include <warpwright/kernel/views.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;

void copy(ww::stream_ref stream, ew::view_input<float, 2> const& x, float* y) {
  ew::run(stream, ew::out(y, 16) = x);
}
