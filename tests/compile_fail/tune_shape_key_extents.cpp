// expect: a shape_key has at most eight extents
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/shape_key.hpp>

warpwright::shape_key shape() {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  return {1, 2, 3, 4, 5, 6, 7, 8};
#else
  return {1, 2, 3, 4, 5, 6, 7, 8, 9};
#endif
}
