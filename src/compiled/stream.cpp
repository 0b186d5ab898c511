// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/stream/detail/stream_pool_definitions.hpp>
#include <warpwright/stream/detail/stream_set_definitions.hpp>
#include <warpwright/stream/detail/transfer/collect_core_definitions.hpp>
#include <warpwright/stream/detail/transfer/prefetch_core_definitions.hpp>
#include <warpwright/stream/detail/transfer/prefetch_text_definitions.hpp>
#include <warpwright/stream/detail/transfer/transfer_core_definitions.hpp>
#include <warpwright/stream/detail/transfer/transfer_ring_definitions.hpp>
