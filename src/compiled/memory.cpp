// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/memory/detail/live_block_map_definitions.hpp>
#include <warpwright/memory/detail/pinned/block_table_definitions.hpp>
#include <warpwright/memory/detail/pinned/page_locked_source_definitions.hpp>
#include <warpwright/memory/detail/pinned/pinned_calls_definitions.hpp>
#include <warpwright/memory/detail/pinned/pinned_misses_definitions.hpp>
#include <warpwright/memory/detail/pinned/pinned_shard_definitions.hpp>
#include <warpwright/memory/detail/staging/staging_core_definitions.hpp>
#include <warpwright/memory/detail/staging/staging_workers_definitions.hpp>
#include <warpwright/memory/detail/statistics_table_definitions.hpp>
#include <warpwright/memory/detail/trace/trace_writers_definitions.hpp>
