// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/error/exception_kind.hpp>

#include <new>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE exception_kind kind_of(std::exception_ptr const& error) noexcept {
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

}  // namespace detail

WARPWRIGHT_END
