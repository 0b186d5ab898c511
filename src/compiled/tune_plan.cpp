// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/detail/energy_counter_definitions.hpp>
#include <warpwright/tune/detail/plan/batch_plan_definitions.hpp>
#include <warpwright/tune/detail/plan/choose_buckets_definitions.hpp>
#include <warpwright/tune/detail/plan/latency_model_definitions.hpp>
