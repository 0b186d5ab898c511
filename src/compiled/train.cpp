// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/train/detail/checkpoint_definitions.hpp>
#include <warpwright/train/detail/health_definitions.hpp>
#include <warpwright/train/detail/loss_scaler_definitions.hpp>
#include <warpwright/train/detail/optimizer_core_definitions.hpp>
#include <warpwright/train/detail/recompute_definitions.hpp>
#include <warpwright/train/detail/stop_definitions.hpp>
