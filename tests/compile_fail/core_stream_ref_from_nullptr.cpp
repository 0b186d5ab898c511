// expect: deleted
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// nullptr is two different streams, by a compiler flag: one of them has to be named.
#include <warpwright/core/stream.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
warpwright::stream_ref stream() { return warpwright::stream_ref::per_thread(); }
#else
warpwright::stream_ref stream() { return nullptr; }
#endif
