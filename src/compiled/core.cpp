// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/detail/device_id_definitions.hpp>
#include <warpwright/core/detail/error_definitions.hpp>
#include <warpwright/core/detail/event_definitions.hpp>
#include <warpwright/core/detail/launch/kernel_launch_definitions.hpp>
#include <warpwright/core/detail/scoped_stream_device_definitions.hpp>
#include <warpwright/core/detail/stream_definitions.hpp>
#include <warpwright/core/detail/text/text_definitions.hpp>
