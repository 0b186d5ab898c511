// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Call counts and fault plans, for the runtime's other files.
#pragma once

#include <string>
#include <vector>

#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

namespace warpwright::host {

std::vector<testing::call_record> list_calls();
void reset_calls();
/// Installs the plan of the environment variable, below all scoped plans, for the whole process.
void install_permanently(testing::fault_plan const& plan);
/// @return what is wrong with the name of a function, with the nearest one; empty if its calls are
///   counted
std::string unknown_function(std::string const& name);
/// Adds the leaks of virtual memory management.
void describe_vmm_leaks(std::vector<std::string>& lines);

}  // namespace warpwright::host
