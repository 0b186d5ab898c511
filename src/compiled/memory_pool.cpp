// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// memory_pool and its caches, in one file: the functions of a miss call each other.
#include <warpwright/memory/pool.hpp>

#include <warpwright/memory/detail/caches/stream_caches_definitions.hpp>
#include <warpwright/memory/detail/event_store_definitions.hpp>
#include <warpwright/memory/detail/heap/block_heap_definitions.hpp>
#include <warpwright/memory/detail/heap/free_lists_definitions.hpp>
#include <warpwright/memory/detail/pool/deferred_frees_definitions.hpp>
#include <warpwright/memory/detail/pool/epoch_tracker_definitions.hpp>
#include <warpwright/memory/detail/pool/graph_memory_definitions.hpp>
#include <warpwright/memory/detail/pool/pool_calls_definitions.hpp>
#include <warpwright/memory/detail/pool/pool_lifetime_definitions.hpp>
#include <warpwright/memory/detail/pool/pool_misses_definitions.hpp>
#include <warpwright/memory/detail/source/mapped_source_definitions.hpp>
#include <warpwright/memory/detail/source/segment_source_definitions.hpp>
#include <warpwright/memory/detail/source/virtual_range_definitions.hpp>
