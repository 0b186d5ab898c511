// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/scale/detail/device_group_definitions.hpp>
#include <warpwright/scale/detail/device_scheduler_definitions.hpp>
