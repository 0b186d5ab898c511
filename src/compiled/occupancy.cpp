// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/occupancy/detail/advice_definitions.hpp>
#include <warpwright/occupancy/detail/occupancy_definitions.hpp>
#include <warpwright/occupancy/detail/ptxas_definitions.hpp>
