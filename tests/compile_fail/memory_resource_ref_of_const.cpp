// expect: the resource is const, or a temporary
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A const resource cannot allocate.
#include <warpwright/memory/pool.hpp>
#include <warpwright/memory/resource_ref.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
warpwright::resource_ref refer(warpwright::memory_pool& pool) { return pool; }
#else
warpwright::resource_ref refer(warpwright::memory_pool const& pool) { return pool; }
#endif
