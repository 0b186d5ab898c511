// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/capture_report.hpp>
#include <warpwright/graph/graph.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/graph/graph_replay.hpp>
