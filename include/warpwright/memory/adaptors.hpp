// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Adaptors: classes with memory_pool's interface (allocate, try_allocate, deallocate, device) over
// an upstream that has it: a pool, a resource or another adaptor, which they do not own.
//
//   ww::limit_adaptor part{pool, 64 << 20};   // this part of the program gets 64 MiB
//   ww::tracking_adaptor tracked{part};       // file and line of blocks that are not freed
//
// No exception loses memory: a failed allocation has allocated nothing, and a block whose free
// failed is still live in every layer. An adaptor over another of its own kind, without further
// arguments, needs its template arguments written out, otherwise C++ takes it for a copy.
#pragma once

#include <warpwright/memory/adaptors/aligned.hpp>
#include <warpwright/memory/adaptors/event_log.hpp>
#include <warpwright/memory/adaptors/fallback.hpp>
#include <warpwright/memory/adaptors/guard.hpp>
#include <warpwright/memory/adaptors/limit.hpp>
#include <warpwright/memory/adaptors/rmm_log.hpp>
#include <warpwright/memory/adaptors/statistics.hpp>
#include <warpwright/memory/adaptors/thread_safe.hpp>
#include <warpwright/memory/adaptors/tracking.hpp>
#include <warpwright/memory/resources.hpp>
