// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The umbrella headers of all modules that need nothing but CUDA. Those of memory/ and kernel/
// leave out what few files need (adaptors and plans; views, reductions, random numbers, functions
// of rows, plan()): that has headers of its own. A file that uses one part compiles faster with
// that part's header alone.
#pragma once

#include <warpwright/core.hpp>
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/stream.hpp>
#include <warpwright/tune.hpp>
#include <warpwright/version.hpp>
