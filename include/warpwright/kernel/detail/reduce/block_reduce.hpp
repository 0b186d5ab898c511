// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/launch/block_reduce.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

using warpwright::detail::cluster_scratch;
using warpwright::detail::combine_groups;
using warpwright::detail::is_last_block;
using warpwright::detail::reduction_scratch;
using warpwright::detail::thread_columns;
using warpwright::detail::thread_groups;
using warpwright::detail::warp_size;

}  // namespace ew::detail

WARPWRIGHT_END
