// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Occupancy, measurement and the batch-size tuner. Include sm_clock.hpp, which brings a kernel, and
// tuning_pool.hpp, which brings the memory pool, where you use them.
#pragma once

#include <warpwright/tune/arch.hpp>
#include <warpwright/tune/batch_plan.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/choose_buckets.hpp>
#include <warpwright/tune/compare.hpp>
#include <warpwright/tune/dynamic_batch_size.hpp>
#include <warpwright/tune/event_stopwatch.hpp>
#include <warpwright/tune/explain.hpp>
#include <warpwright/tune/kernel_occupancy.hpp>
#include <warpwright/tune/l2_flush.hpp>
#include <warpwright/tune/latency_model.hpp>
#include <warpwright/tune/measure.hpp>
#include <warpwright/tune/measure_options.hpp>
#include <warpwright/tune/measurement.hpp>
#include <warpwright/tune/memory_model.hpp>
#include <warpwright/tune/memory_probe.hpp>
#include <warpwright/tune/occupancy.hpp>
#include <warpwright/tune/progress_line.hpp>
#include <warpwright/tune/report.hpp>
#include <warpwright/tune/sample_summary.hpp>
#include <warpwright/tune/tune_result.hpp>
#include <warpwright/tune/tuning_objective.hpp>
#include <warpwright/tune/tuning_progress.hpp>
#include <warpwright/tune/tuning_record.hpp>
#include <warpwright/tune/tuning_store.hpp>
