// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/memory/detail/pinned/measure_staging_definitions.hpp>
#include <warpwright/memory/detail/pinned/pinned_pool.hpp>
#include <warpwright/memory/detail/pinned/staging_definitions.hpp>
#include <warpwright/memory/detail/pinned/staging_slots_definitions.hpp>
#include <warpwright/memory/detail/pinned/staging_workers_definitions.hpp>
