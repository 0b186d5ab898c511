// expect: memory_log_record
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that throws would lose the block that it is told of.
#include <warpwright/memory/adaptors/event_log.hpp>
#include <warpwright/memory/resources/managed.hpp>

namespace ww = warpwright;
using managed = ww::managed_memory_resource;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void told(void*, ww::memory_log_record const&) noexcept;
#else
void told(void*, ww::memory_log_record const&);
#endif

void make(managed& below) { ww::event_log_adaptor<managed> log{below, &told}; }
