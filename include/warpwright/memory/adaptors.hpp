// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Adaptors: objects with memory_pool's interface (allocate, try_allocate, deallocate, device) over
// anything that has it, a pool, a resource or another adaptor. A program that uses none pays for
// none; the pool does not know of them.
//
//   ww::memory_pool pool{device};
//   ww::limit_adaptor part{pool, 64 << 20};   // this part of the program gets 64 MiB
//   ww::statistics_adaptor counted{part};     // live, peak and counts, per tag
//   ww::tracking_adaptor tracked{counted};    // file and line of what was not given back
//   std::puts(tracked.report().c_str());
//
// An adaptor refers to its upstream and does not own it; it passes on the caller's source_location.
// When anything throws, no memory is lost: a failed allocation has taken none, and a block that
// could not be freed is live in every layer.
//
// The template arguments follow from the constructor's, but for one adaptor over another of its own
// kind with no other argument: there write them out, or C++ takes it for a copy.
#pragma once

#include <warpwright/memory/adaptors/event_log.hpp>
#include <warpwright/memory/adaptors/fallback.hpp>
#include <warpwright/memory/adaptors/fault.hpp>
#include <warpwright/memory/adaptors/guard.hpp>
#include <warpwright/memory/adaptors/limit.hpp>
#include <warpwright/memory/adaptors/resources.hpp>
#include <warpwright/memory/adaptors/statistics.hpp>
#include <warpwright/memory/adaptors/thread_safe.hpp>
#include <warpwright/memory/adaptors/tracking.hpp>
