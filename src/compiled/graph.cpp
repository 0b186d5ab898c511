// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/graph/detail/cache/cache_builds_definitions.hpp>
#include <warpwright/graph/detail/cache/cache_lists_definitions.hpp>
#include <warpwright/graph/detail/cache/cache_steps_definitions.hpp>
#include <warpwright/graph/detail/cache/cost_gate_definitions.hpp>
#include <warpwright/graph/detail/cache/step_timer_definitions.hpp>
#include <warpwright/graph/detail/capture/branch_streams_definitions.hpp>
#include <warpwright/graph/detail/capture/capture_position_definitions.hpp>
#include <warpwright/graph/detail/capture/capture_rules_definitions.hpp>
#include <warpwright/graph/detail/capture/conditional_node_definitions.hpp>
#include <warpwright/graph/detail/capture_definitions.hpp>
#include <warpwright/graph/detail/capture_report_definitions.hpp>
#include <warpwright/graph/detail/compare_graphs_definitions.hpp>
#include <warpwright/graph/detail/graph_audit_definitions.hpp>
#include <warpwright/graph/detail/graph_cache_statistics_definitions.hpp>
#include <warpwright/graph/detail/graph_definitions.hpp>
#include <warpwright/graph/detail/graph_exec_definitions.hpp>
#include <warpwright/graph/detail/nodes/graph_structure_definitions.hpp>
#include <warpwright/graph/detail/nodes/kernel_call_definitions.hpp>
