// expect: deleted
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The copy may read a temporary after its end.
#include <warpwright/memory/buffer.hpp>

void set(warpwright::device_buffer<int>& x, warpwright::stream_ref stream, int const& value) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  x.set_element_async(stream, 0, value);
#else
  x.set_element_async(stream, 0, value + 1);
#endif
}
