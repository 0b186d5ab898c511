// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace bench_support {

/// Registers benchmarks by the arguments that Google Benchmark does not know.
/// @throws std::exception  its text is printed, and the program ends with 2
using register_function = std::function<void(std::vector<std::string> const& arguments)>;

/// What every benchmark's main() does: puts into the results' context what was measured, and on
/// what, and runs the benchmarks.
/// @param more  where it is empty, arguments that Google Benchmark does not know are an error
/// @return the exit status: 77 without a device, 1 for an error, 2 for a wrong argument
int run(int argc, char** argv, register_function const& more = {});

}  // namespace bench_support
