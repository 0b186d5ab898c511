// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/observe/diagnose.hpp>
#include <warpwright/observe/metrics.hpp>
#include <warpwright/observe/monitor.hpp>
#include <warpwright/observe/scalar_log.hpp>
#include <warpwright/observe/span.hpp>
#include <warpwright/observe/step_timer.hpp>
#include <warpwright/observe/sync_watch.hpp>
#include <warpwright/observe/trace.hpp>
