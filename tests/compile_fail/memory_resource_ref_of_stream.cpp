// expect: the class lacks memory_pool's interface
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A resource has the pool's four functions.
#include <warpwright/memory/pool.hpp>
#include <warpwright/memory/resource_ref.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
warpwright::resource_ref refer(warpwright::memory_pool& memory) { return memory; }
#else
warpwright::resource_ref refer(warpwright::stream& memory) { return memory; }
#endif
