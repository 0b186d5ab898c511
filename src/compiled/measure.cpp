// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/measure/detail/ceilings_definitions.hpp>
#include <warpwright/measure/detail/choose_definitions.hpp>
#include <warpwright/measure/detail/compare_definitions.hpp>
#include <warpwright/measure/detail/expect_definitions.hpp>
#include <warpwright/measure/detail/measure_definitions.hpp>
#include <warpwright/measure/detail/order_statistics_definitions.hpp>
#include <warpwright/measure/detail/roofline_definitions.hpp>
#include <warpwright/measure/detail/sample_summary_definitions.hpp>
#include <warpwright/measure/detail/series_analysis_definitions.hpp>
#include <warpwright/measure/detail/turn_ratio_definitions.hpp>
