// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Occupancy, measurement and the batch-size tuner. Include sm_clock.hpp, which brings a kernel,
// where you use it.
#pragma once

#include <warpwright/tune/arch.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/explain.hpp>
#include <warpwright/tune/kernel_occupancy.hpp>
#include <warpwright/tune/measure.hpp>
#include <warpwright/tune/occupancy.hpp>
#include <warpwright/tune/progress_line.hpp>
#include <warpwright/tune/report.hpp>
#include <warpwright/tune/tune_result.hpp>
