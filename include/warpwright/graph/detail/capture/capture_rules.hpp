// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What each capture error means, and what to do about it (CUDA Programming Guide, "Prohibited and
// Unhandled Operations"; CUDA runtime API, cudaError_t 900 to 908).
#pragma once

#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

namespace detail {

struct capture_rule {
  int code;
  char const* cause;
  char const* remedy;
};

/// @return the rule of a code from 900 to 908; null for other codes
capture_rule const* find_capture_rule(cudaError_t code) noexcept;

inline bool is_capture_error(cudaError_t code) noexcept {
  return find_capture_rule(code) != nullptr;
}

/// What to do about a call that a capture does not allow, by a part of its name, which the runtime
/// and the driver spell alike; null for a call that needs no advice of its own.
char const* remedy_of_call(char const* api) noexcept;

/// As check(), with the cause and the remedy of a capture error.
void check_capture(cudaError_t status, char const* api, source_location where);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/capture/capture_rules_definitions.hpp>
#endif
