// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/detail/memory_model_definitions.hpp>
#include <warpwright/tune/detail/report/report_definitions.hpp>
#include <warpwright/tune/detail/report/tune_result_definitions.hpp>
