// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Occupancy of kernels: how many blocks are resident, what limits them, and what helps.
#pragma once

#include <warpwright/occupancy/kernel_occupancy.hpp>
#include <warpwright/occupancy/occupancy.hpp>
