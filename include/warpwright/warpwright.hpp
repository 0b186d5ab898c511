// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The umbrella headers of all modules that depend on CUDA only. Those of memory/ and kernel/ do not
// include the less common parts (adaptors and plans; views, reductions, random numbers, functions
// of rows, plan()). Include only the headers of the parts that a file uses: that compiles faster.
#pragma once

#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/measure.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/occupancy.hpp>
#include <warpwright/stream.hpp>
#include <warpwright/tune.hpp>
#include <warpwright/version.hpp>
