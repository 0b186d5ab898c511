// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Call counts and fault plans, as the runtime's own parts see them.
#pragma once

#include <string>
#include <vector>

#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

namespace warpwright::host {

std::vector<testing::call_record> list_calls();
void zero_calls();
/// The plan of the environment: below every scoped one, never removed.
void install_forever(testing::fault_plan const& plan);
/// Adds what the driver's virtual memory calls left behind.
void describe_vmm_leaks(std::vector<std::string>& lines);

}  // namespace warpwright::host
