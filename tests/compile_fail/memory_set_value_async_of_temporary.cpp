// expect: deleted
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The copy may read a temporary after its end.
#include <warpwright/memory/scalar.hpp>

void set(warpwright::device_scalar<float>& x, warpwright::stream_ref stream) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  x.set_value(stream, 1.0F);
#else
  x.set_value_async(stream, 1.0F);
#endif
}
