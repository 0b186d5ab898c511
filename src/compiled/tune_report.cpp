// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of a tune as text. What is a template only for the compile time is instantiated here.
#include <warpwright/tune/detail/memory_model_definitions.hpp>
#include <warpwright/tune/detail/report/progress_line_definitions.hpp>
#include <warpwright/tune/detail/report/report_definitions.hpp>
#include <warpwright/tune/detail/report/report_html_definitions.hpp>
#include <warpwright/tune/detail/report/tune_result_definitions.hpp>
#include <warpwright/tune/detail/tuning_objective_definitions.hpp>

WARPWRIGHT_BEGIN

template std::string to_table(tune_result const&);
template no_feasible_batch::no_feasible_batch(tune_result);
template std::string to_csv(tune_result const&);
template std::string to_json(tune_result const&);
template std::string to_svg(tune_result const&, std::string const&);
template std::string to_html(tune_result const&, html_report_options const&);
template std::string progress_line::text(tuning_progress const&);
template void progress_line::operator()(tuning_progress const&);

WARPWRIGHT_END
