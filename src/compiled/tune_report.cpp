// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/measure/detail/measure_options_definitions.hpp>
#include <warpwright/tune/detail/memory_model_definitions.hpp>
#include <warpwright/tune/detail/report/report_definitions.hpp>
#include <warpwright/tune/detail/report/tune_result_definitions.hpp>
#include <warpwright/tune/detail/search/tuning_objective_definitions.hpp>

WARPWRIGHT_BEGIN

template void detail::check_measure_options(measure_options const&, source_location);

WARPWRIGHT_END
