// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/detail/architecture_definitions.hpp>
#include <warpwright/core/detail/container/address_map_definitions.hpp>
#include <warpwright/core/detail/device/device_definitions.hpp>
#include <warpwright/core/detail/device/device_id_definitions.hpp>
#include <warpwright/core/detail/device/event_definitions.hpp>
#include <warpwright/core/detail/device/scoped_stream_device_definitions.hpp>
#include <warpwright/core/detail/device/stream_definitions.hpp>
#include <warpwright/core/detail/error/error_definitions.hpp>
#include <warpwright/core/detail/gpu_model_definitions.hpp>
#include <warpwright/core/detail/launch/kernel_launch_definitions.hpp>
#include <warpwright/core/detail/system/socket_definitions.hpp>
#include <warpwright/core/detail/tensors/tensor_list_definitions.hpp>
#include <warpwright/core/detail/text/kernel_label_definitions.hpp>
#include <warpwright/core/detail/text/text_definitions.hpp>
