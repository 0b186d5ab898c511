// expect: T must be trivially copyable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The elements are copied as bytes.
#include <warpwright/memory/pinned.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
warpwright::pinned_buffer<float> make() { return {}; }
#else
warpwright::pinned_buffer<std::string> make() { return {}; }
#endif
