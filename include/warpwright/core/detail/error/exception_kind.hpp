// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <exception>

WARPWRIGHT_BEGIN

namespace detail {

/// What an exception says.
enum class exception_kind {
  out_of_memory,     // out_of_memory and other std::bad_alloc; cudaErrorMemoryAllocation
  device_lost,       // a sticky cuda_error, whatever its code
  cuda_failure,      // another cuda_error
  invalid_argument,  // std::invalid_argument
  other
};

/// @param error  a caught exception, not null
exception_kind kind_of(std::exception_ptr const& error) noexcept;

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/error/exception_kind_definitions.hpp>
#endif
