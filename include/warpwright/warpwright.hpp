// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The umbrella headers of all modules, and what the README's recipes use beyond them. Include only
// the headers of the parts that a file uses: that compiles faster.
#pragma once

#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/measure.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/occupancy.hpp>
#include <warpwright/stream.hpp>
#include <warpwright/tune.hpp>
#include <warpwright/tune/stored_tuner.hpp>
#include <warpwright/tune/tuning_pool.hpp>
#include <warpwright/version.hpp>
