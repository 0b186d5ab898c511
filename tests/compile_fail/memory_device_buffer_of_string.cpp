// expect: T must be trivially copyable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The elements are copied as bytes.
#include <warpwright/memory/buffer.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
warpwright::device_buffer<float> make() { return {}; }
#else
warpwright::device_buffer<std::string> make() { return {}; }
#endif
