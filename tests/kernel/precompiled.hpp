// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The precompiled header of these tests.
#pragma once

#include "support/precompiled.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/explain.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/numeric.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/kernel/views.hpp>

#include "kernel/support.hpp"
