// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/stream/known_streams.hpp>
#include <warpwright/stream/stream_pool.hpp>
