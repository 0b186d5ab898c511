// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/device_resources.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/memory/resource_ref.hpp>
#include <warpwright/memory/scalar.hpp>
#include <warpwright/memory/staging.hpp>
