// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts child.cpp in one of its scenarios.
#pragma once

#include <string>
#include <vector>

#include "digits/support_process.hpp"
#include "support/catch.hpp"

namespace test_support {

/// Runs one scenario of child.cpp, with a generous time limit.
inline outcome run_child(std::string const& situation,
                         std::vector<std::string> const& environment = {}) {
  scratch_directory scratch;
  return run_program(scratch, {WARPWRIGHT_TEST_CHILD, situation}, environment, 30.0);
}

}  // namespace test_support
