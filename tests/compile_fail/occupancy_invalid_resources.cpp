// expect: throw_invalid_kernel_resources
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/occupancy/occupancy.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
constexpr int threads = 1;
#else
constexpr int threads = 0;  // no block has no thread
#endif
constexpr auto o =
    warpwright::occupancy(warpwright::arch::sm_90, warpwright::kernel_resources{}.threads(threads));
