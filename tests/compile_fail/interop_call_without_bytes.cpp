// expect: the call must take (void* storage
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pool allocates what the call asks for in its first phase.
#include <warpwright/interop/cub.hpp>

namespace ww = warpwright;

void run(ww::memory_pool& pool, ww::stream_ref stream) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ww::with_temporary_storage(pool, stream, [](void*, std::size_t&) { return cudaSuccess; });
#else
  ww::with_temporary_storage(pool, stream, [](void*) { return cudaSuccess; });
#endif
}
