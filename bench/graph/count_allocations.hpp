// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace graph_bench {

/// @return how often the calling thread has called operator new; a program that links
///   count_allocations.cpp has its own
std::uint64_t allocations_of_this_thread() noexcept;

}  // namespace graph_bench
