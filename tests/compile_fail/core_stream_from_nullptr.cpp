// expect: deleted
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An owning stream is made on a device; there is none to adopt.
#include <warpwright/core/stream.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
warpwright::stream make() { return warpwright::stream{warpwright::device_id{0}}; }
#else
warpwright::stream make() { return warpwright::stream{nullptr}; }
#endif
