// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/observe/detail/metrics_definitions.hpp>
#include <warpwright/observe/detail/scalar_log_definitions.hpp>
#include <warpwright/observe/detail/step_timer_definitions.hpp>
