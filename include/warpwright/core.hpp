// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/device.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>
