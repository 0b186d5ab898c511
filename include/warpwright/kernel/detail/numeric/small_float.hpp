// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/tensors/small_float.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

using warpwright::detail::bfloat16_from_float;
using warpwright::detail::bfloat16_pair_from_floats;
using warpwright::detail::bit_copy;
using warpwright::detail::float_from_bfloat16;
using warpwright::detail::float_from_half;
using warpwright::detail::fp8_pair_from_floats;
using warpwright::detail::half_from_float;
using warpwright::detail::half_pair_from_floats;
using warpwright::detail::halves_from_fp8_pair;
using warpwright::detail::is_e4m3;
using warpwright::detail::nearest_small_float;
using warpwright::detail::random_small_float;
using warpwright::detail::small_float;

}  // namespace ew::detail

WARPWRIGHT_END
