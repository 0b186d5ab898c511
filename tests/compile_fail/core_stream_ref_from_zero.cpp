// expect: deleted
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// 0 is no stream: an int argument in the wrong place must not become the default stream.
#include <warpwright/core/stream.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
warpwright::stream_ref stream() { return warpwright::stream_ref::legacy_default(); }
#else
warpwright::stream_ref stream() { return warpwright::stream_ref{0}; }
#endif
