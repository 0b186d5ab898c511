// expect: throw_unknown_compute_capability
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/occupancy/occupancy.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
constexpr int minor = 0;
#else
constexpr int minor = 7;  // no such part in the table
#endif
constexpr auto row = warpwright::architecture_of(10, minor);
