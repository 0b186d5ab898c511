// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/kernel/detail/elementwise/explain_definitions.hpp>
#include <warpwright/kernel/detail/plan/elementwise_plan_definitions.hpp>
#include <warpwright/kernel/detail/plan/operand_checks_definitions.hpp>
#include <warpwright/kernel/detail/plan/tensor_table_definitions.hpp>
#include <warpwright/kernel/detail/reduce/workspace_definitions.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_plan_definitions.hpp>
#include <warpwright/kernel/detail/views/view_definitions.hpp>
