// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// What does not include nccl.h, which a program need not have.
#include <warpwright/scale/detail/device_group_definitions.hpp>
#include <warpwright/scale/detail/store_server_definitions.hpp>
