// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/stream/detail/stream_pool_definitions.hpp>
#include <warpwright/stream/detail/stream_set_definitions.hpp>
