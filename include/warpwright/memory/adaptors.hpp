// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Adaptors: classes with memory_pool's interface (allocate, try_allocate, deallocate, device) over
// an upstream that has it: a pool, a resource or another adaptor. A program that uses no adaptor
// pays nothing; the pool is independent of them.
//
//   ww::memory_pool pool{device};
//   ww::limit_adaptor part{pool, 64 << 20};   // this part of the program gets 64 MiB
//   ww::statistics_adaptor counted{part};     // live, peak and counts, per tag
//   ww::tracking_adaptor tracked{counted};    // file and line of blocks that are not freed
//   std::puts(tracked.report().c_str());
//
// An adaptor refers to its upstream and does not own it; it passes on the caller's source_location.
// No exception loses memory: a failed allocation has allocated nothing, and a block whose free
// failed is still live in every layer.
//
// Template arguments are deduced from the constructor's, with one exception: for an adaptor over
// another of its own kind without further arguments write them out, otherwise C++ takes it for a
// copy.
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
