// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/observe/detail/activity_source_definitions.hpp>
#include <warpwright/observe/detail/span_definitions.hpp>
#include <warpwright/observe/detail/trace_definitions.hpp>
#include <warpwright/observe/detail/trace_report_definitions.hpp>
