// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Occupancy, measurement and the batch-size tuner. Include sm_clock.hpp, which brings a kernel,
// where you use it.
#pragma once

#include <warpwright/tune/arch.hpp>
#include <warpwright/tune/batch_plan.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/choice.hpp>
#include <warpwright/tune/choose.hpp>
#include <warpwright/tune/choose_buckets.hpp>
#include <warpwright/tune/choose_options.hpp>
#include <warpwright/tune/chooser.hpp>
#include <warpwright/tune/compare.hpp>
#include <warpwright/tune/dynamic_batch_size.hpp>
#include <warpwright/tune/expect.hpp>
#include <warpwright/tune/expect_file.hpp>
#include <warpwright/tune/expectation.hpp>
#include <warpwright/tune/explain.hpp>
#include <warpwright/tune/kernel_occupancy.hpp>
#include <warpwright/tune/l2_flush.hpp>
#include <warpwright/tune/latency_model.hpp>
#include <warpwright/tune/measure.hpp>
#include <warpwright/tune/measure_options.hpp>
#include <warpwright/tune/measurement.hpp>
#include <warpwright/tune/memory_model.hpp>
#include <warpwright/tune/occupancy.hpp>
#include <warpwright/tune/report.hpp>
#include <warpwright/tune/sample_summary.hpp>
#include <warpwright/tune/shape_key.hpp>
#include <warpwright/tune/tune_result.hpp>
#include <warpwright/tune/tuning_record.hpp>
#include <warpwright/tune/tuning_store.hpp>
