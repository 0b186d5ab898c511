// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

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
WARPWRIGHT_COLD inline exception_kind kind_of(std::exception_ptr const& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (std::bad_alloc const&) {
    return exception_kind::out_of_memory;
  } catch (cuda_error const& failed) {
    if (failed.sticky()) return exception_kind::device_lost;
    return failed.code() == cudaErrorMemoryAllocation ? exception_kind::out_of_memory
                                                      : exception_kind::cuda_failure;
  } catch (std::invalid_argument const&) {
    return exception_kind::invalid_argument;
  } catch (...) {
    return exception_kind::other;
  }
}

/// @return what() of a std::exception
WARPWRIGHT_COLD inline std::string text_of(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& e) {
    return e.what();
  } catch (...) {
    return "an exception without a text";
  }
}

}  // namespace detail

WARPWRIGHT_END
